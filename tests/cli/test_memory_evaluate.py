"""``adkpg memory evaluate`` against a real server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import PgVectorMemoryService
from tests.fakes.commands import Adkpg
from tests.fakes.cross_encoder import export
from tests.fakes.data_sets import own

PLACE = ("--app", "chat", "--user", "alice")


@pytest.fixture
def stored(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")

    async def fill() -> None:
        async with PgVectorMemoryService(database_url, mode="text") as memory:
            await memory.add_memory(
                app_name="chat",
                user_id="alice",
                memories=[
                    MemoryEntry(content=types.Content(parts=[types.Part(text="My dog is Rex.")]))
                ],
            )

    asyncio.run(fill())
    return database_url


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(value: object) -> str:
        path = tmp_path / "questions.json"
        if not isinstance(value, bytes):
            value = (value if isinstance(value, str) else json.dumps(value)).encode()
        path.write_bytes(value)
        return str(path)

    return written


ASKED = [
    {"q": "What is the dog called?", "contains": "Rex", "category": "pets"},
    {"q": "Where is the cat?", "contains": "garden", "category": "cats"},
    {"q": "Which car?", "evidence": []},
    {"q": "Whose?"},
]


@pytest.mark.usefixtures("stored")
def test_a_teams_own_questions(adkpg: Adkpg, write: Any) -> None:
    command = ("memory", "evaluate", write(ASKED), *PLACE, "--mode", "text", "--misses", "5")
    outcome = adkpg(*command)
    assert (outcome.code, outcome.err) == (0, "")
    assert "2 questions that something answers, 1 that nothing does." in outcome.out
    assert "1 question skipped: it names no evidence." in outcome.out
    assert "RECALL@10" in outcome.out
    assert "Where is the cat?" in outcome.out
    assert "TEXT BY CATEGORY" in outcome.out


@pytest.mark.usefixtures("stored")
def test_bars_for_ci(adkpg: Adkpg, write: Any, tmp_path: Path) -> None:
    command = ("memory", "evaluate", write(ASKED), *PLACE, "--mode", "text")
    assert adkpg(*command, "--min-recall", "0.5", "--min-mrr", "0.5").code == 0
    outcome = adkpg(*command, "--min-recall", "0.6", "--min-mrr", "0.7", "--json")
    assert outcome.code == 1
    assert outcome.err == (
        "Error: recall@10 of text is 0.500, below 0.6.\nError: MRR of text is 0.500, below 0.7.\n"
    )
    document = json.loads(outcome.out)
    assert document["systems"]["text"]["estimates"]["recall@10"]["mean"] == 0.5
    assert document["skipped"] == {"it names no evidence": 1}
    assert "dog" not in outcome.out, "a report may be kept where questions may not"

    before = tmp_path / "before.json"
    before.write_text(outcome.out)
    outcome = adkpg(*command, "--compare", str(before))
    assert outcome.code == 0
    assert "SINCE THEN" in outcome.out
    better = document["systems"]["text"]["per_question"]
    better["recall@10"], better["MRR"] = [2.0, 1.0], [1.0, 1.0]
    before.write_text(json.dumps(document))
    outcome = adkpg(*command, "--compare", str(before), "--json")
    assert outcome.code == 1
    assert outcome.err == "Error: recall@10 of text fell by 1.000 (-1.000…-1.000).\n"
    assert json.loads(outcome.out)["compared"]["text"]["MRR"]["mean"] == -0.5


@pytest.mark.usefixtures("stored")
def test_each_mode_is_measured_gathered_too(adkpg: Adkpg, write: Any) -> None:
    for value, place in (([own()], ()), (ASKED, PLACE)):
        outcome = adkpg(
            "memory", "evaluate", write(value), *place, "--mode", "text", "--gather", "--json"
        )
        assert (outcome.code, outcome.err) == (0, "")
        systems = json.loads(outcome.out)["systems"]
        assert list(systems) == ["text", "text gathered"]
        plain, gathered = (each["per_question"] for each in systems.values())
        assert gathered["recall in 4000 tokens"] == plain["recall in 4000 tokens"]
        assert gathered["complete in 4000 tokens"] == [
            float(recall == 1) for recall in gathered["recall in 4000 tokens"]
        ]
        assert gathered["MRR"] == plain["MRR"]  # by score, though a search returns them by time


@pytest.mark.usefixtures("stored")
def test_each_mode_is_measured_reranked_too(adkpg: Adkpg, write: Any, tmp_path: Path) -> None:
    export(tmp_path / "encoder")
    judge = ("--mode", "text", "--reranker", f"onnx:{tmp_path / 'encoder'}", "--json")
    for value, place in (([own()], ()), (ASKED, PLACE)):
        outcome = adkpg("memory", "evaluate", write(value), *place, *judge)
        assert (outcome.code, outcome.err) == (0, "")
        document = json.loads(outcome.out)
        assert list(document["systems"]) == ["text", "text reranked"]
        assert document["systems"]["text reranked"]["fused_alone"] == 0
        assert list(document["paired"]) == ["text reranked minus text"]
    outcome = adkpg(
        *("memory", "evaluate", write(ASKED), *PLACE, "--mode", "text"),
        *("--reranker", "tei:http://127.0.0.1:1"),
    )
    assert outcome.code == 0
    assert "1 search of text reranked got no answer of the reranker." in outcome.out


def test_conversations_are_remembered_apart(stored: str, adkpg: Adkpg, write: Any) -> None:
    outcome = adkpg("memory", "evaluate", write([own()]), "--mode", "text")
    assert (outcome.code, outcome.err) == (0, "")
    assert "own: 1 store, 3 turns, 1 question that something answers" in outcome.out
    listed = adkpg("memory", "list", "--app", "evaluation", "--user", "ann", "--json")
    assert json.loads(listed.out)["memories"] == []
    named = adkpg("memory", "evaluate", write([own()]), "--mode", "text", "--database-url", stored)
    assert named.code == 0


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("value", "words", "said"),
    [
        ("no JSON", (), "is not JSON"),
        (json.dumps(ASKED).encode("utf-16"), (), "save it as UTF-8"),
        (ASKED, (*PLACE, "--compare", "{utf16}"), "save it as UTF-8"),
        ([{"a": 1}], (), "is not a data set with questions"),
        (ASKED, (), "--app"),
        (ASKED, ("--user", "alice"), "--user goes with --app"),
        (ASKED, (*PLACE, "--vectors", "v"), "--vectors goes with"),
        ([own()], PLACE, "leave the app out"),
        ([own(questions=[])], (), "nothing to measure"),
        ([own()], ("--mode", "vector"), "need an embedder"),
        (ASKED, (*PLACE, "--mode", "vector"), "embedder"),
        (ASKED, (*PLACE, "--reranker", "mine"), "names no reranker"),
        (ASKED, (*PLACE, "--reranker", "json:dumps"), "fails when it is called without arguments"),
        (ASKED, (*PLACE, "--reranker", "nowhere:it"), "cannot be imported"),
        (ASKED, (*PLACE, "--reranker", "tei:localhost"), "http://"),
        (ASKED, (*PLACE, "--compare", "{file}"), "is not an earlier run"),
        (ASKED, (*PLACE, "--compare", "/dev/null"), ""),
        (ASKED, ("--min-recall", "2"), "min-recall"),
        (ASKED, ("--stores", "0"), "stores"),
    ],
)
def test_what_cannot_work_is_a_sentence(
    adkpg: Adkpg, write: Any, value: Any, words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    file, utf16 = write(value), tmp_path / "before.json"
    utf16.write_text("{}", encoding="utf-16")
    given = [word.format(file=file, utf16=utf16) for word in words]
    outcome = adkpg("memory", "evaluate", file, *given)
    assert outcome.code in (1, 2)
    assert outcome.out == ""
    assert said in outcome.err
    assert "Traceback" not in outcome.err


def test_a_file_that_is_missing_is_a_sentence(adkpg: Adkpg) -> None:
    outcome = adkpg("memory", "evaluate", "missing.json")
    assert outcome.code == 2
    assert "missing.json" in outcome.err
