"""docs/benchmarks.md: the page that is written from docs/benchmarks.json, and from nothing else."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import OURS, Bar, Figure, Header, Report, find

DOCS = Path(__file__).parent.parent / "docs"
FIGURES = DOCS / "benchmarks.json"
PAGE = DOCS / "benchmarks.md"

_FOUND = re.compile(r"finds [\d.]+ of what there is to find")
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

This page is for readers who want to know how much faster or slower adkpg is than the packages that
they could use instead, and how close it is to the floor: its own statement on a bare driver. Each
contender is the real package. It has the tables and indexes that it makes itself, in a database of
its own, on one server with its default durability. The contenders take turns in blocks within one
run, and each figure is over all blocks except the first. So compare figures of one table with each
other, and not with figures of another machine.

`make bench` measures everything again and writes `benchmarks.json` and this page. `make bench
ARGS="--quick"` takes two minutes and writes nothing. [Where the time
goes](performance.md#bars-that-are-missed-and-why) explains the misses.

* **p50** and **p95** are of one operation; **per s** counts all writers together.
* **x adkpg** says how many times as long the contender takes as adkpg, or how many times fewer
  operations it does in a second. Above 1, adkpg is faster.
* **correct** says whether a read found all that was written: each event, whole and in order, and
  every state key; the right memories, and no memory of another user. The notes below a table say
  what was lost. A contender without figures cannot do the operation.
"""

_SUITES = {
    "sessions": """\
Events are about 450 characters of text. Every contender has a pool of at most 16 connections. The
*floor* of a read ends with one `validate_json`. openai-agents keeps plain dicts and validates
nothing, while ADK's interface returns typed events. A proxy in a process of its own makes the
delay: of 1 ms of a round trip, half is added each way.
""",
    "memory": """\
All contenders embed with the same function, which costs next to nothing. A search asks for ten
memories of one user among the memories of all. The exact answer is known, and so is the memory that
the words of a question come from. The column before *correct* is the share that the search finds:
of the ten nearest memories (*recall@10 against exact*), or of the memories that the questions come
from (*asked memory in 10 hits*).
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
        cases = dict.fromkeys(figure.case for figure in figures)
        for case in cases:
            base, colon, _ = case.partition(": ")
            if colon and base in cases:
                continue  # a column of that one
            found = [each for each in figures if each.case.startswith(f"{case}: ")]
            parts.append(f"### {case[:1].upper()}{case[1:]}\n")
            parts.append(_case([figure for figure in figures if figure.case == case], found))
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


def _case(figures: Sequence[Figure], shares: Sequence[Figure]) -> str:
    """A table of one case, with what each search found if that was measured, and its notes."""
    found = {(share.size, share.contender): share for share in shares}
    rows = []
    size = None
    for figure in figures:
        ours = None if figure.contender == OURS else find(figures, figure.case, figure.size)
        share = found.get((figure.size, figure.contender))
        rows.append(
            (
                figure.size if figure.size != size else "",
                f"**{figure.contender}**" if figure.contender == OURS else figure.contender,
                number(figure.p50),
                number(figure.p95),
                number(figure.rate),
                number(figure.times(ours)),
                number(share.p50 if share else None),
                ("yes" if figure.correct else "**no**") if figure.samples else "",
            )
        )
        size = figure.size
    unit = figures[0].unit
    measure = shares[0].case.partition(": ")[2] if shares else ""
    heads = ("", "", f"p50 ({unit})", f"p95 ({unit})", "per s", "x adkpg", measure, "correct")
    kept = [place for place in range(8) if place == 1 or any(row[place] for row in rows)]
    table = _table(
        [heads[place] for place in kept],
        [[row[place] for place in kept] for row in rows],
        right=[column for column, place in enumerate(kept) if 2 <= place < 7],
    )
    notes = dict.fromkeys(
        note for figure in figures for note in _notes(figure, figures, shown=bool(shares))
    )
    return table + "".join(f"\n* {note}" for note in notes) + ("\n" if notes else "")


def _notes(figure: Figure, figures: Sequence[Figure], *, shown: bool) -> Iterable[str]:
    """The notes on a figure; those on all contenders of its size name none of them.

    Args:
      figures: Those of the case.
      shown: Whether the table shows the share that was found, so that no note needs to.
    """
    alongside = [set(_parts(each)) for each in figures if each.size == figure.size]
    common = set.intersection(*alongside) if len(alongside) > 1 else set()
    same = [set(_parts(each)) for each in figures if each.contender == figure.contender]
    nature = set.intersection(*same) if len(same) > 1 else set()
    parts = _parts(figure)
    for part in parts:
        if part in common:
            yield f"{figure.size}: {part}." if figure.size else f"{part}."
    own = [part for part in parts if part not in common]
    if always := "; ".join(part for part in own if part in nature):
        yield f"{figure.contender}: {always}."
    faults = [part for part in own if part not in nature and not (shown and _FOUND.match(part))]
    if faults:
        place = f", {figure.size}" if figure.size and not figure.correct else ""
        yield f"{figure.contender}{place}: {'; '.join(faults)}."


def _parts(figure: Figure) -> list[str]:
    return [part for part in figure.note.split("; ") if part]


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
) -> str:
    rule = ["---:" if column in right else "---" for column in range(len(heads))]
    lines = [heads, rule, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
