"""What benchmarks keep and what the page says of it."""

from typing import Any

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
    assert "| append | at least 5 | 1 writer: 4.00 **missed** |" in text
    assert "| ms | adkpg | sqlspec |\n|---|---:|---:|\n| 1 writer | 2.00 | 4.00 (2.00x) † |" in text
    assert "3 of 4" not in text, "the file has it"
    assert "PostgreSQL 18.1 (fsync on, synchronous_commit on)" in text
    assert "## Memory" not in text, "that suite was not run"


def test_the_page_names_each_package_that_is_faster() -> None:
    sizes = {"few": 1.0, "many": 0.5, "all": 3.0}
    report = figures.Report.empty().merge(
        "sessions",
        header(),
        [
            figure(contender, p50, size=size)
            for size, theirs in sizes.items()
            for contender, p50 in {"adkpg": 2.0, "floor": 1.0, "peer": theirs}.items()
        ],
        [],
    )
    slower = page.render(report).partition("## Where adkpg is slower")[2].partition("##")[0]
    assert "| peer | append | 2 of 3 | 0.25x to 0.50x |" in slower
    assert "floor" not in slower


def test_the_page_shows_what_a_search_found_beside_its_time_and_a_nature_once() -> None:
    def searched(size: str, share: float, note: str = "") -> list[figures.Figure]:
        of = {"suite": "memory", "size": size, "correct": share > 0.9, "note": f"one index{note}"}
        took = figure("peer", 2.0, case="search", **of)
        return [took, figure("peer", share, case="search: recall@10", unit="recall", **of)]

    found = [
        *searched("few", 1.0),
        *searched("many", 0.25, "; finds 0.25 of what there is to find"),
    ]
    text = page.render(figures.Report.empty().merge("memory", header(), found, []))
    assert "| few | 2.00 |\n| many | 2.00 25% |" in text
    assert text.count("one index") == 1
    assert "* peer: one index.\n" in text
    assert "### Search: recall@10" not in text


def test_each_question_has_its_picture_and_its_figures() -> None:
    report = figures.Report.read(page.FIGURES)
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.render(report), "write it again: python benchmarks --page"
    for plot in page.PLOTS:
        assert f"]({plot.file})" in text
        assert (page.DOCS / plot.file).is_file()
        for case in filter(None, (plot.case, plot.quality)):
            assert all(figures.find(report.figures, case, size) for size in plot.sizes), case
