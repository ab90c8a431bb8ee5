"""The recall benchmark: its figures, and a run on a tiny made-up transcript."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from adkpg.demo.figures import Answer
from benchmarks.suites import recall_figures as figures
from tests.fakes.checkout import CHECKOUT

BENCHMARKS = CHECKOUT / "benchmarks"


def answer(*ranks: int, evidence: int = 2) -> Answer:
    return Answer(category=1, evidence=evidence, ranks=ranks, latency_s=0.002)


def test_a_question_is_measured_by_the_places_of_its_evidence() -> None:
    assert figures.Outcome(answer(2, 7), costs=(100,) * 10).measures() == {
        "recall@5": 0.5,
        "recall@10": 1,
        "recall@20": 1,
        "hit@10": 1,
        "MRR": 0.5,
        "recall in 500 tokens": 0.5,
        "recall in 1000 tokens": 1,
    }
    assert set(figures.Outcome(answer(), costs=()).measures().values()) == {0}
    assert figures.Outcome(answer(11), costs=(1,) * 11).measures()["hit@10"] == 0


def test_a_hit_that_does_not_fit_the_budget_makes_room_for_the_next() -> None:
    outcome = figures.Outcome(answer(1, 3), costs=(600, 300, 200))
    assert outcome.recall_within(500) == 0.5, "the first is skipped, the third fits"
    assert outcome.recall_within(600) == 0.5, "the first takes it all"
    assert outcome.recall_within(800) == 1


def test_an_interval_holds_the_mean_and_repeats() -> None:
    values = [0.0, 1.0] * 50
    found = figures.estimate(values, 500)
    assert found.mean == 0.5
    assert 0.35 < found.low < 0.5 < found.high < 0.65
    assert figures.estimate(values, 500) == found
    assert figures.estimate([0.25], 10) == figures.Estimate(0.25, 0.25, 0.25)


def test_differences_are_paired() -> None:
    ours = [0.0, 0.5, 1.0]
    assert figures.difference(ours, ours, 100) == figures.Estimate(0, 0, 0)
    better = figures.difference([value + 0.5 for value in ours], ours, 100)
    assert better == figures.Estimate(0.5, 0.5, 0.5), "what the questions share cancels out"
    with pytest.raises(ValueError, match="argument"):
        figures.difference([1.0], ours, 100)


def test_a_report_counts_foreign_hits_and_adds_the_embedding() -> None:
    outcomes = [
        figures.Outcome(answer(1, evidence=1), costs=(10,), embedding_s=0.008, foreign=hits)
        for hits in (0, 0, 6)
    ]
    report = figures.Report.of(outcomes, 10)
    assert report.foreign_none == pytest.approx(2 / 3)
    assert report.foreign_hits == 2
    assert report.latency_ms == pytest.approx(
        {
            "search p50": 2,
            "search p95": 2,
            "with embedding p50": 10,
            "with embedding p95": 10,
        }
    )
    alone = figures.Report.of([figures.Outcome(answer(1), costs=(10,))], 10)
    assert alone.foreign_none is None
    assert alone.foreign_hits is None


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
    assert set(systems) == {"text", "vector", "hybrid", "ADK in-memory", "ADK SQLite"}
    for name in ("text", "hybrid", "ADK SQLite"):
        assert systems[name]["estimates"]["recall@5"]["mean"] == 1, name
        assert systems[name]["per_question"]["recall@10"] == [1, 1, 1, 1]
    assert systems["text"]["foreign_none"] == 1, "no word in common with the other conversation"

    code, printed = await run(str(transcript), "--against", str(kept), url=database_url)
    assert code == 0, printed
    assert "SINCE kept.json" in printed
    code, printed = await run(
        str(transcript), "--conversations", "1", "--against", str(kept), url=database_url
    )
    assert code == 1
    assert "name a file that --json wrote for the same questions" in printed.replace("\n", " ")


async def test_it_says_what_is_wrong_with_a_file(database_url: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}", encoding="utf-8")
    code, printed = await run(str(path), url=database_url)
    assert code == 1
    assert "name a file in LoCoMo's format" in printed
    path.write_text(json.dumps([conversation("mute", "Ines", [])]), encoding="utf-8")
    code, printed = await run(str(path), url=database_url)
    assert code == 1
    assert "nothing to measure" in printed
