"""What benchmarks keep and what the page says of it."""

import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks import figures, page


def figure(contender: str, p50: float | None, **fields: Any) -> Any:
    known: dict[str, Any] = {
        "suite": "sessions",
        "case": "append",
        "size": "1 writer",
        "contender": contender,
        "version": "1",
        "unit": "ms",
        "p50": p50,
        "p95": None,
        "rate": None,
        "samples": 3,
        "correct": True,
    }
    return figures.Figure(**known | fields)


def header(**fields: Any) -> Any:
    known: dict[str, Any] = {
        "date": "2026-01-01T00:00Z",
        "machine": "x86_64",
        "cpu": "Some CPU",
        "cores": 2,
        "ram_gb": 8.0,
        "os": "Linux",
        "python": "3.11",
        "postgres": "18.1",
        "pgvector": "",
        "durability": "fsync on, synchronous_commit on",
        "packages": {"adkpg": "1"},
    }
    return figures.Header(**known | fields)


def test_percentiles_lie_between_the_values() -> None:
    assert figures.percentile([3.0], 0.95) == 3
    assert figures.percentile([4.0, 1.0, 2.0, 3.0], 0.5) == 2.5
    assert figures.percentile([1.0, 2.0], 1.0) == 2


def test_ratios_are_above_one_where_ours_is_faster() -> None:
    ours = figure("adkpg", 2.0, rate=500.0)
    assert figure("ADK", 10.0, rate=400.0).times(ours) == 5, "the p50 counts before rates"
    rated = figure("adkpg", None, rate=500.0)
    assert figure("ADK", None, rate=100.0).times(rated) == 5
    assert figure("ADK", None).times(ours) is None
    assert figure("ADK", 10.0).times(None) is None


def test_a_bar_that_was_not_measured_is_missed() -> None:
    def holds(value: float | None, direction: Any) -> bool:
        held: bool = figures.Bar.of("sessions", "get", "", "rule", value, direction, 5).holds
        return held

    assert holds(5, ">=")
    assert holds(5, "<=")
    assert not holds(4.9, ">=")
    assert not holds(5.1, "<=")
    assert not holds(None, ">=")
    assert not holds(None, "<=")


def test_a_suite_run_again_replaces_its_own_figures_only(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    missing = figures.Bar.of("memory", "search", "", "rule", None, "<=", 5)
    memory = figure("adkpg", 1.0, suite="memory", note="naïve | quoted")
    report = figures.Report.read(path).merge("memory", header(), [memory], [missing])
    report = report.merge("sessions", header(), [figure("ADK", 9.0)], [])
    report.write(path)
    again = figures.Report.read(path)
    assert again.headers == report.headers
    assert again.figures == report.figures
    assert math.isnan(again.bars[0].value)
    newer = header(date="2026-02-02T00:00Z")
    again = again.merge("sessions", newer, [figure("ADK", 8.0)], [])
    assert [each.p50 for each in again.figures] == [1, 8]
    assert again.headers["sessions"] == newer
    assert again.headers["memory"] == header()
    assert len(again.bars) == 1


def test_another_file_is_no_report(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    for text in ("", "[]", "{}", '{"headers": {}, "figures": [{"suite": 1}], "bars": []}'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"other\.json is no report"):
            figures.Report.read(path)


def test_the_page_says_what_was_missed_and_what_was_lost() -> None:
    missed = figures.Bar.of("sessions", "append", "1 writer", "at least 5", 4.0, ">=", 5)
    lost = figure("sqlspec", 4.0, correct=False, note="3 of 4 state keys are lost")
    unable = figure("none", None, samples=0, note="cannot do it")
    report = figures.Report.empty().merge(
        "sessions",
        header(),
        [figure("adkpg", 2.0), lost, unable],
        [missed],
    )
    text = page.render(report)
    assert "0 of 1 hold." in text
    assert "| append | 1 writer | at least 5 | 4.00 | **missed** |" in text
    assert "| 1 writer | **adkpg** | 2.00 |  | yes |" in text
    assert "|  | sqlspec | 4.00 | 2.00 | **no** |" in text
    assert "|  | none |  |  |  |" in text
    assert "* sqlspec, 1 writer: 3 of 4 state keys are lost." in text
    assert "PostgreSQL 18.1 (fsync on, synchronous_commit on)" in text
    assert "## Memory" not in text, "that suite was not run"


def test_the_page_says_once_what_is_said_of_all() -> None:
    shared = [figure(name, 2.0, note="far away; " + name) for name in ("adkpg", "ADK")]
    report = figures.Report.empty().merge("sessions", header(), shared, [])
    text = page.render(report)
    assert text.count("far away") == text.count("* 1 writer: far away.") == 1
    assert "* adkpg: adkpg." in text
    assert "* ADK: ADK." in text


def test_each_question_has_its_picture_and_its_figures() -> None:
    report = figures.Report.read(page.FIGURES)
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.render(report), "write it again: python benchmarks --page"
    for plot in page.PLOTS:
        assert f"]({plot.file})" in text
        assert (page.DOCS / plot.file).is_file()
        for case in filter(None, (plot.case, plot.quality)):
            assert all(figures.find(report.figures, case, size) for size in plot.sizes), case
    drawn = {path.name for path in page.DOCS.glob("benchmarks-*.png")}
    assert drawn == {plot.file for plot in page.PLOTS}


def test_numbers_have_three_digits() -> None:
    number = page.number
    assert [number(each) for each in (0.123, 1.236, 12.36, 1234.5)] == [
        "0.12",
        "1.24",
        "12.4",
        "1,234",
    ]
    assert number(None) == number(math.nan) == ""
