"""docs/benchmarks.md: the page that is written from docs/benchmarks.json, and from nothing else."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import FLOOR, OURS, Bar, Figure, Header, Report, find

DOCS = Path(__file__).parent.parent / "docs"
FIGURES = DOCS / "benchmarks.json"
PAGE = DOCS / "benchmarks.md"

_WHOLE = 0.995
"""A share that is shown as 100 %."""

_LEFT_OUT = ("append, one-key delta", "append with user: state")
"""Cases that are in the file alone, because others say as much."""

TITLES = {"sessions": "Sessions", "memory": "Memory"}


@dataclass(frozen=True)
class Plot:
    """A question that one picture answers.

    Attributes:
      name: The picture is ``benchmarks-NAME.png``.
      question: Its title.
      suite: Whose figures it shows,
      case: of which case,
      sizes: and which sizes.
      adk: ADK's own contender; "" if it has none.
      quality: The case that says how much of what was asked for is found; "" if nothing can miss.
    """

    name: str
    question: str
    suite: str
    case: str
    sizes: Sequence[str]
    adk: str = "ADK"
    quality: str = ""

    @property
    def file(self) -> str:
        return f"benchmarks-{self.name}.png"


PLOTS = (
    Plot(
        "append",
        "How long does it take to append an event?",
        "sessions",
        "append",
        ("1 writer", "8 writers", "32 writers"),
    ),
    Plot(
        "turn",
        "How long do all calls of a turn with one tool take?",
        "sessions",
        "one-tool turn",
        ("no delay", "1 ms of delay"),
    ),
    Plot(
        "get",
        "How long does it take to get a session?",
        "sessions",
        "get",
        ("10 events", "300 events", "3,000 events"),
    ),
    Plot(
        "meaning",
        "How long does a user's search by meaning take?",
        "memory",
        "vector search",
        ("100 of 250,000 memories", "1,000 of 250,000 memories", "10,000 of 250,000 memories"),
        adk="",
        quality="vector search: recall@10 against exact",
    ),
    Plot(
        "words",
        "How long does a user's search by words take?",
        "memory",
        "search by words",
        ("100 of 250,000 memories", "1,000 of 250,000 memories", "10,000 of 250,000 memories"),
        adk="ADK SqliteMemoryService",
        quality="search by words: asked memory in 10 hits",
    ),
)

_INTRO = """\
---
search:
  exclude: true
---

# Benchmarks

This page is for readers who choose a package. It says how much faster or slower adkpg is than other
packages, and than the floor, which is its own statement on a bare driver.

Each contender is the real package, with the tables and indexes that it makes itself. They take
turns in blocks on one server with default durability, so compare figures of one row only.

`make bench` measures everything again, and writes `benchmarks.json` and this page. `make bench
ARGS="--quick"` takes two minutes and writes nothing. The JSON file has all figures.

A cell has the median of one operation (p50), or how many a second all writers do together. In
brackets is how many times as long the contender takes as adkpg. **Above 1x, adkpg is faster.** A
contender without a figure cannot do it.

* **†** marks reads that did not find all that was written, which is each event, whole and in order,
  and every state key; or that found a memory of another user.
* **A percentage** below 99.5 is the share that a search found: of the ten nearest memories, or of
  those that the questions come from.
"""

_SUITES = {
    "sessions": """\
Events have about 450 characters, and pools at most 16 connections. A proxy makes the delay of 1 ms.
""",
    "memory": """\
All contenders embed with one function that costs next to nothing. A search asks for ten memories of
one user, such as of 100 among 250,000. For one user of 250,000, adkpg answers from its HNSW index.
""",
}


def render(report: Report) -> str:
    """Returns the page's text.

    Args:
      report: Of at least one suite.
    """
    parts = [_INTRO, "## Bars\n", _bars(report.bars)]
    parts += ["## Where adkpg is slower\n", _slower(report.figures)]
    for suite, title in TITLES.items():
        if suite not in report.headers:
            continue
        figures = [figure for figure in report.figures if figure.suite == suite]
        parts += [
            f"## {title}\n",
            _SUITES[suite],
            _natures(figures),
            *(f"![{plot.question}]({plot.file})\n" for plot in PLOTS if plot.suite == suite),
            _header(report.headers[suite]),
        ]
        cases = dict.fromkeys(figure.case for figure in figures)
        for case in cases:
            base, colon, _ = case.partition(": ")
            if (colon and base in cases) or case in _LEFT_OUT:
                continue  # with a colon they are shares, in the cells of that one
            shares = [each for each in figures if each.case.startswith(f"{case}: ")]
            parts.append(f"### {case[:1].upper()}{case[1:]}\n")
            parts.append(_case([figure for figure in figures if figure.case == case], shares))
    return "\n".join(parts)


def number(value: float | None) -> str:
    """Returns a value with three significant digits, ``""`` for None."""
    if value is None or math.isnan(value):
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _bars(bars: Sequence[Bar]) -> str:
    found: dict[tuple[str, str], list[str]] = {}
    for bar in bars:
        place = f"{_short(bar.size)}: " if bar.size else ""
        missed = "" if bar.holds else " **missed**"
        cells = found.setdefault((bar.case, bar.rule), [])
        cells.append(f"{place}{number(bar.value)}{missed}")
    held = sum(bar.holds for bar in bars)
    why = "[Where the time goes](performance.md#bars-that-are-missed-and-why) explains the misses."
    rows = [(*named, "; ".join(cells)) for named, cells in found.items()]
    return f"{held} of {len(bars)} hold. {why}\n\n" + _table(("case", "bar", "measured"), rows)


def _slower(figures: Sequence[Figure]) -> str:
    """The cases in which another package is faster, with its time as a share of adkpg's."""
    found: dict[tuple[str, str], list[float]] = {}
    for figure in figures:
        times = figure.times(find(figures, figure.case, figure.size))
        if times is not None and figure.unit != "recall" and _is_peer(figure):
            found.setdefault((figure.contender, figure.case), []).append(times)
    rows = []
    for named, shares in found.items():
        if below := sorted(each for each in shares if each < 1):
            several = f" to {number(below[-1])}x" if len(below) > 1 else ""
            rows.append((*named, f"{len(below)} of {len(shares)}", f"{number(below[0])}x{several}"))
    table = _table(("package", "case", "at sizes", "its time, of adkpg's"), rows)
    return f"The percentages below say which of these find less.\n\n{table}"


def _short(size: str) -> str:
    return size.replace(" memories", "")


def _is_peer(figure: Figure) -> bool:
    return not figure.contender.startswith((OURS, FLOOR))


def _natures(figures: Sequence[Figure]) -> str:
    """The notes on peers that hold for any run: those without a number."""
    ours = {part for figure in figures if not _is_peer(figure) for part in _parts(figure)}
    found: dict[str, dict[str, None]] = {}
    for figure in filter(_is_peer, figures):
        for part in _parts(figure):
            if part not in ours and part != "cannot do it" and not re.search(r"\d", part):
                found.setdefault(figure.contender, {})[part] = None
    return "".join(f"* {contender}: {'; '.join(parts)}.\n" for contender, parts in found.items())


def _parts(figure: Figure) -> list[str]:
    return [part for part in figure.note.split("; ") if part]


def _header(header: Header) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in header.packages.items())
    pgvector = f", pgvector {header.pgvector}" if header.pgvector else ""
    machine = f"{header.cpu or header.machine}, {header.cores} cores, {header.ram_gb:g} GB"
    server = f"PostgreSQL {header.postgres}{pgvector} ({header.durability})"
    return f"{header.date}, {machine}, Python {header.python}, {server}.\n\n{packages}.\n"


def _case(figures: Sequence[Figure], shares: Sequence[Figure]) -> str:
    """A table of one case: a row of each size, a column of each contender."""
    able = [figure for figure in figures if figure.samples]
    names = dict.fromkeys(figure.contender for figure in able)
    timed = any(figure.p50 is not None for figure in able)
    rows = []
    for size in dict.fromkeys(figure.size for figure in able):
        found = {figure.contender: figure for figure in able if figure.size == size}
        cells = [_cell(found.get(name), found.get(OURS), shares) for name in names]
        rows.append((_short(size), *cells))
    heads = (figures[0].unit if timed else "a second", *names)
    return _table(heads, rows, right=range(1, len(heads)))


def _cell(figure: Figure | None, ours: Figure | None, shares: Sequence[Figure]) -> str:
    if figure is None:
        return ""
    cell = number(figure.rate if figure.p50 is None else figure.p50)
    if figure is not ours and (times := figure.times(ours)) is not None:
        cell += f" ({number(times)}x)"
    named = (figure.size, figure.contender)
    share = next((each.p50 for each in shares if (each.size, each.contender) == named), None)
    if share is not None and share < _WHOLE:
        return f"{cell} {share:.0%}"
    return cell if figure.correct else f"{cell} †"


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
) -> str:
    rule = "|".join("---:" if column in right else "---" for column in range(len(heads)))
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in (heads, *rows))
    head, *lines = (f"| {' | '.join(row)} |\n" for row in escaped)
    return "".join((head, f"|{rule}|\n", *lines))
