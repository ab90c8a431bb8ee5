"""The README's figures are those of docs/benchmarks.json, which docs/benchmarks.md shows."""

import json
import re
from typing import Any

import pytest

from tests.fakes.checkout import CHECKOUT

COLUMNS = ("adkpg", "ADK", "sqlspec", "adk-database-memory", "adk-memshield")
OF_MEMORY = {"ADK": "ADK SqliteMemoryService"}
# What each row is of, and which figure of it.
ROWS = {
    "append an event": ("append", "1 writer", "p50"),
    "get a session of 300 events": ("get", "300 events", "p50"),
    "eight services write one session, events per second": (
        "services writing one session",
        "8 services, 80 events",
        "rate",
    ),
    "search by meaning, 1,000 memories of 250,000": (
        "vector search",
        "1,000 of 250,000 memories",
        "p50",
    ),
    "search by words, 1,000 memories of 250,000": (
        "search by words",
        "1,000 of 250,000 memories",
        "p50",
    ),
}
FOUND = "that search has the right memory among 10 hits"
FIGURES: list[dict[str, Any]] = json.loads(
    (CHECKOUT / "docs" / "benchmarks.json").read_text(encoding="utf-8")
)["figures"]


def table() -> dict[str, list[str]]:
    """The rows of the README's comparison, by their first cell."""
    text = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## How it compares")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| ")
    ]
    return {row[0]: row[1:] for row in rows}


def measured(case: str, size: str, contender: str) -> dict[str, Any] | None:
    named = (contender, OF_MEMORY.get(contender, contender))
    found = [
        each
        for each in FIGURES
        if (each["case"], each["size"]) == (case, size) and each["contender"] in named
    ]
    return found[0] if found else None


@pytest.mark.parametrize("row", ROWS)
def test_a_figure_of_the_readme_is_the_measured_one(row: str) -> None:
    case, size, figure = ROWS[row]
    cells = table()[row]
    assert len(cells) == len(COLUMNS)
    for contender, cell in zip(COLUMNS, cells, strict=True):
        found = re.search(r"\d[\d.,]*\d", cell)
        known = measured(case, size, contender)
        if found is None:
            assert known is None or known[figure] is None, f"{contender} was measured: {known}"
            continue
        assert known is not None, f"{contender} was not measured"
        shown = found[0].rstrip(",").replace(",", "")
        digits = len(shown.partition(".")[2])
        assert round(known[figure], digits) == float(shown), contender


def test_the_share_that_was_found_is_the_measured_one() -> None:
    case, size, _ = ROWS["search by words, 1,000 memories of 250,000"]
    for contender, cell in zip(COLUMNS, table()[FOUND], strict=True):
        if known := measured(case, size, contender):
            share = re.search(r"finds ([\d.]+) of what", known["note"])
            assert re.findall(r"\d+", cell) == [f"{100 * float(share[1] if share else 1):.0f}"]
        else:
            assert cell == ""
