"""The recall benchmark, run on tiny made-up files."""

import asyncio
import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.checkout import CHECKOUT
from tests.fakes.data_sets import own

pytestmark = pytest.mark.program

BENCHMARKS = CHECKOUT / "benchmarks"


def conversation(name: str, speaker: str, facts: list[tuple[str, str]]) -> dict[str, Any]:
    turns = [
        {"speaker": speaker, "dia_id": f"D1:{place}", "text": fact}
        for place, (fact, _) in enumerate(facts, 1)
    ]
    questions = [
        {"question": question, "category": 4, "evidence": [f"D1:{place}"]}
        for place, (_, question) in enumerate(facts, 1)
    ]
    return {"sample_id": name, "conversation": {"session_1": turns}, "qa": questions}


TRANSCRIPT = [
    conversation(
        "garden",
        "Ines",
        [
            ("My roses got mildew after all that rain.", "What happened to the roses?"),
            ("I bought a blue wheelbarrow in Porto.", "Where was the wheelbarrow bought?"),
        ],
    ),
    conversation(
        "band",
        "Omar",
        [
            ("We rehearse on Thursdays in the old bakery.", "Where does the band rehearse?"),
            ("Our drummer moved to Oslo.", "Who moved to Oslo?"),
        ],
    ),
]


async def run(*words: str, url: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(BENCHMARKS / "recall.py"),
        *words,
        cwd="/",
        env=os.environ | {"ADKPG_DATABASE_URL": url},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


async def test_it_measures_every_system_and_compares_with_an_earlier_run(
    database_url: str, tmp_path: Path
) -> None:
    transcript, kept = tmp_path / "talk.json", tmp_path / "kept.json"
    transcript.write_text(json.dumps(TRANSCRIPT), encoding="utf-8")
    code, printed = await run(str(transcript), "--json", str(kept), url=database_url)
    assert code == 0, printed
    document = json.loads(kept.read_text(encoding="utf-8"))
    assert document["questions"] == 4
    systems = document["systems"]
    assert list(systems) == ["ADK in-memory", "ADK SQLite", "text", "vector", "hybrid"]
    assert "hybrid minus ADK in-memory" in document["paired"]
    for name in ("text", "hybrid", "ADK SQLite"):
        assert systems[name]["estimates"]["recall@5"]["mean"] == 1, name
        assert systems[name]["per_question"]["recall@10"] == [1, 1, 1, 1]
    assert systems["text"]["foreign"]["none"] == 1, "no word in common with the other conversation"

    code, printed = await run(str(transcript), "--against", str(kept), url=database_url)
    assert code == 0, printed
    assert "SINCE kept.json" in printed
    code, printed = await run(
        str(transcript), "--conversations", "1", "--against", str(kept), url=database_url
    )
    assert code == 1
    assert "The earlier run is of other questions" in printed


async def test_it_says_what_is_wrong_with_a_file(database_url: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}", encoding="utf-8")
    code, printed = await run(str(path), url=database_url)
    assert code == 1
    assert "no data set with questions" in printed
    assert "Traceback" not in printed
    path.write_text(json.dumps([conversation("mute", "Ines", [])]), encoding="utf-8")
    code, printed = await run(str(path), url=database_url)
    assert code == 1
    assert "There is nothing to measure" in printed


async def test_it_takes_other_formats_and_some_ways(database_url: str, tmp_path: Path) -> None:
    path, kept = tmp_path / "own.json.gz", tmp_path / "kept.json"
    path.write_bytes(gzip.compress(json.dumps([own()]).encode()))
    words = ("--mode", "text", "--no-adk", "--json", str(kept))
    code, printed = await run(str(path), *words, url=database_url)
    assert code == 0, printed
    document = json.loads(kept.read_text(encoding="utf-8"))
    assert (document["format"], list(document["systems"])) == ("own", ["text"])
    assert (document["questions"], document["unanswerable"]) == (1, 1)
