"""``adkpg demo --transcript`` on an invented file whose recall is known by construction."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions.session import Session

from adkpg import DatabaseSessionService
from adkpg.demo.rows import APP
from tests.fakes.demo import Demo


def turns(*texts: str, session: int) -> list[dict[str, str]]:
    speakers = ("Ines", "Omar")
    return [
        {"dia_id": f"D{session}:{place}", "speaker": speakers[place % 2], "text": text}
        for place, text in enumerate(texts, 1)
    ]


def question(text: str, category: int, *evidence: str) -> dict[str, Any]:
    return {"question": text, "category": category, "evidence": list(evidence), "answer": 2022}


# Without an embedder a turn is found by a common word with it or with its neighbours, no other.
FILE = [
    {
        "sample_id": "talk-1",
        "conversation": {
            "speaker_a": "Ines",
            "speaker_b": "Omar",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": turns("I bought a violin.", "Congratulations!", session=1),
            "session_2": turns("The harbour froze over.", session=2),
            "session_3_date_time": "7:05 am on 2 June, 2023",
            "session_3": turns("Grandmother bakes rye bread.", session=3),
            "session_4_date_time": "7:05 am on 3 June, 2023",
        },
        "qa": [
            question("Who bought a violin?", 4, "D1:1"),
            question("Which instrument, a violin?", 1, "D1:1; D2:1"),
            question("Whose bicycle was stolen?", 5, "D3:1", "D77:1"),
            question("What happened to nobody?", 4, "D77:1"),
            question("What happened to anybody?", 4),
        ],
    },
    {
        "conversation": {"session_1": turns("My parrot sings.", session=1)},
        "qa": [question("Is there a parrot?", 4, "D1:1")],
    },
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "talks.json"
    path.write_text(json.dumps(FILE))
    return path


def figures(out: str) -> dict[str, list[str]]:
    """The table's rows by their name: count, recall@5, 10, 20, hit@10, MRR."""
    row = re.compile(r"^([a-z -]+?)  +(\d+(?: +[\d.]+){5}) *$", re.MULTILINE)
    return {name: numbers.split() for name, numbers in row.findall(out)}


def test_recall_is_what_the_file_was_made_for(
    quick_demo: Demo, database_url: str, file: Path
) -> None:
    variables = {"ADKPG_DATABASE_URL": database_url, "ADKPG_EMBEDDER": "none"}
    outcome = quick_demo("--transcript", str(file), **variables)
    assert outcome.code == 0, outcome.err
    assert figures(outcome.out) == {
        "multi-hop": ["1", "0.500", "0.500", "0.500", "1.000", "1.000"],
        "single-hop": ["2", "1.000", "1.000", "1.000", "1.000", "1.000"],
        "adversarial": ["1", "0.000", "0.000", "0.000", "0.000", "0.000"],
        "all": ["4", "0.625", "0.625", "0.625", "0.750", "0.750"],
    }
    assert "2 questions name no turn as evidence and were skipped." in outcome.words
    assert outcome.err == ""

    async def stored() -> dict[str, Session | None]:
        async with DatabaseSessionService(database_url) as sessions:
            listed = await sessions.list_sessions(app_name=APP)
            return {
                re.sub("^user-.{6}-", "", user_id): await sessions.get_session(
                    app_name=APP, user_id=user_id, session_id="session_1"
                )
                for user_id in {session.user_id for session in listed.sessions}
            }

    found = asyncio.run(stored())
    assert set(found) == {"talk-1", "conversation-2"}
    session = found["talk-1"]
    assert session is not None
    assert [(event.id, event.author, event.timestamp) for event in session.events] == [
        ("D1:1", "Omar", 1683554160.0),
        ("D1:2", "Ines", 1683554161.0),
    ], "8 May 2023, 13:56 UTC, and a second later"


def test_fewer_questions_and_a_run_that_finds_nothing(
    quick_demo: Demo, database_url: str, tmp_path: Path
) -> None:
    entry = FILE[0] | {"qa": [question("Whose bicycle was stolen?", 5, "D3:1"), *FILE[0]["qa"]]}
    file = tmp_path / "one.json"
    file.write_text(json.dumps([entry]))
    variables = {"ADKPG_DATABASE_URL": database_url, "ADKPG_EMBEDDER": "none"}
    arguments = ("--transcript", str(file), "--limit-questions", "1")
    outcome = quick_demo(*arguments, FORCE_COLOR="1", **variables)
    assert outcome.code == 1
    out, err = (re.sub(r"\x1b\[[\d;]*m", "", text) for text in (outcome.out, outcome.err))
    assert re.search(r"turns remembered .* 4/4", err)
    assert re.search(r"questions asked .* 1/1", err)
    assert "No question's evidence was found" in err
    assert figures(out)["all"] == [
        "1",
        "0.000",
        "0.000",
        "0.000",
        "0.000",
        "0.000",
    ]


def test_meaning_is_searched_by_default(demo: Demo, database_url: str, tmp_path: Path) -> None:
    conversation = {"session_1": turns("I bought a violin.", "It is raining.", session=1)}
    asked = question("Which musical instrument do they own?", 4, "D1:1")
    file = tmp_path / "meaning.json"
    file.write_text(json.dumps([{"conversation": conversation, "qa": [asked]}]))
    outcome = demo("--transcript", str(file), "--database-url", database_url)
    assert outcome.code == 0, outcome.err
    assert figures(outcome.out)["all"] == ["1", "1.000", "1.000", "1.000", "1.000", "1.000"]


def test_another_file_is_refused_in_a_sentence(
    quick_demo: Demo, database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no JSON")
    outcome = quick_demo("--transcript", str(file), ADKPG_DATABASE_URL=database_url)
    assert outcome.code == 2
    assert outcome.err.startswith("Error: ")
    assert "notes.txt is not JSON" in outcome.err
    assert "Traceback" not in outcome.err
