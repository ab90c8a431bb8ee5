"""docs/benchmarks.md: the page that is written from docs/benchmarks.json, and from nothing else."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import OURS, Bar, Figure, Header, Report, find

DOCS = Path(__file__).parent.parent / "docs"
FIGURES = DOCS / "benchmarks.json"
PAGE = DOCS / "benchmarks.md"

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
        "How long does a search of one user's memories by meaning take?",
        "memory",
        "vector search",
        ("100 of 250,000 memories", "1,000 of 250,000 memories", "10,000 of 250,000 memories"),
        adk="",
        quality="vector search: recall@10 against exact",
    ),
    Plot(
        "words",
        "How long does a search of one user's memories by words take?",
        "memory",
        "search by words",
        ("100 of 250,000 memories", "1,000 of 250,000 memories", "10,000 of 250,000 memories"),
        adk="ADK SqliteMemoryService",
        quality="search by words: asked memory in 10 hits",
    ),
)

_INTRO = """\
# Benchmarks

How far adkpg is ahead of what a user would pick instead, and how close to the floor. Every
contender is the real package, with the tables and indexes that it makes itself, in a database of
its own on one server with its default durability. They take turns in blocks within one run, and
each figure is over all blocks but the first: compare figures of one table with each other, not
with those of another machine.

`make bench` repeats it, and writes `benchmarks.json` and this page from it; `make bench
ARGS="--quick"` is a look in two minutes that writes nothing.

* **p50** and **p95** are of one operation; **per s** counts all writers together.
* **x adkpg** says how many times as long it takes as adkpg, or how many times fewer a second:
  above 1, adkpg is faster.
* **correct** says whether all that was written was found again: each event, whole and in order,
  and every state key; the right memories, and no other user's. The note below says what was lost.
"""

_SUITES = {
    "sessions": """\
Events are about 450 characters of text. Every contender has pools of the same size, 16 connections
at most. The *floor* is adkpg's own statement on a raw asyncpg pool; reading, it ends with one
`validate_json`. openai-agents keeps plain dicts: it validates nothing, where ADK's interface
returns typed events. A delay of 1 ms is a round trip's, half of it each way, made by a proxy in a
process of its own.
""",
    "memory": """\
All contenders embed with the same function, which costs next to nothing. A search asks for ten
memories of a user among those of all; the exact answer is known, and so is the memory that the
words of a question come from.
""",
}


def render(report: Report) -> str:
    """Returns the page's text.

    Args:
      report: Of at least one suite.
    """
    parts = [_INTRO, "## Bars\n", _bars(report.bars)]
    for suite, title in TITLES.items():
        if suite not in report.headers:
            continue
        parts += [
            f"## {title}\n",
            _SUITES[suite],
            *(f"![{plot.question}]({plot.file})\n" for plot in PLOTS if plot.suite == suite),
            _header(report.headers[suite]),
        ]
        figures = [figure for figure in report.figures if figure.suite == suite]
        for case in dict.fromkeys(figure.case for figure in figures):
            parts.append(f"### {case[:1].upper()}{case[1:]}\n")
            parts.append(_case([figure for figure in figures if figure.case == case]))
    return "\n".join(parts)


def number(value: float | None) -> str:
    """Returns a value with three significant digits, ``""`` for None."""
    if value is None or math.isnan(value):
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _bars(bars: Sequence[Bar]) -> str:
    held = sum(bar.holds for bar in bars)
    rows = [
        (bar.case, bar.size, bar.rule, number(bar.value), "holds" if bar.holds else "**missed**")
        for bar in bars
    ]
    table = _table(("case", "size", "bar", "measured", ""), rows, right=(3,))
    return f"{held} of {len(bars)} hold.\n\n{table}"


def _header(header: Header) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in header.packages.items())
    pgvector = f", pgvector {header.pgvector}" if header.pgvector else ""
    machine = f"{header.cpu or header.machine}, {header.cores} cores, {header.ram_gb:g} GB"
    server = f"PostgreSQL {header.postgres}{pgvector} ({header.durability})"
    return f"{header.date}, {machine}, {header.os}, Python {header.python}, {server}. {packages}.\n"


def _case(figures: Sequence[Figure]) -> str:
    rows = []
    notes: dict[str, None] = {}
    size = None
    for figure in figures:
        ours = None if figure.contender == OURS else find(figures, figure.case, figure.size)
        ratio = figure.times(ours) if figure.unit != "recall" else None
        rows.append(
            (
                figure.size if figure.size != size else "",
                f"**{figure.contender}**" if figure.contender == OURS else figure.contender,
                number(figure.p50),
                number(figure.p95),
                number(figure.rate),
                number(ratio),
                ("yes" if figure.correct else "**no**") if figure.samples else "",
            )
        )
        size = figure.size
        notes |= dict.fromkeys(_notes(figure, figures))
    unit = figures[0].unit
    heads = ("", "", f"p50 ({unit})", f"p95 ({unit})", "per s", "x adkpg", "correct")
    kept = [place for place in range(7) if place == 1 or any(row[place] for row in rows)]
    table = _table(
        [heads[place] for place in kept],
        [[row[place] for place in kept] for row in rows],
        right=[column for column, place in enumerate(kept) if 2 <= place < 6],
    )
    return table + "".join(f"\n* {note}" for note in notes) + ("\n" if notes else "")


def _notes(figure: Figure, figures: Sequence[Figure]) -> Iterable[str]:
    """The notes on a figure; those on all contenders of its size name none of them."""
    alongside = [set(each.note.split("; ")) for each in figures if each.size == figure.size]
    common = set.intersection(*alongside) if len(alongside) > 1 else set()
    parts = [part for part in figure.note.split("; ") if part]
    for part in parts:
        if part in common:
            yield f"{figure.size}: {part}." if figure.size else f"{part}."
    own = "; ".join(part for part in parts if part not in common)
    # A fault differs by size, a contender's nature does not.
    place = f", {figure.size}" if figure.size and not figure.correct else ""
    if own:
        yield f"{figure.contender}{place}: {own}."


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
) -> str:
    rule = ["---:" if column in right else "---" for column in range(len(heads))]
    lines = [heads, rule, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
