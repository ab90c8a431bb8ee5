"""The recall benchmark, run on tiny made-up files."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.checkout import CHECKOUT

pytestmark = pytest.mark.program


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


async def test_it_measures_every_system(database_url: str, tmp_path: Path) -> None:
    transcript, kept = tmp_path / "talk.json", tmp_path / "kept.json"
    transcript.write_text(json.dumps(TRANSCRIPT), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(CHECKOUT / "benchmarks" / "recall.py")),
        *(str(transcript), "--json", str(kept)),
        cwd="/",
        env=os.environ | {"ADKPG_DATABASE_URL": database_url},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    document = json.loads(kept.read_text(encoding="utf-8"))
    assert document["questions"] == 4
    systems = document["systems"]
    assert list(systems) == ["ADK in-memory", "ADK SQLite", "text", "vector", "hybrid"]
    assert "hybrid minus ADK in-memory" in document["paired"]
    for name in ("text", "hybrid", "ADK SQLite"):
        assert systems[name]["estimates"]["recall@5"]["mean"] == 1, name
        assert systems[name]["per_question"]["recall@10"] == [1, 1, 1, 1]
    assert systems["text"]["foreign"]["none"] == 1, "no word in common with the other conversation"
