"""Memory, side by side with what a user would pick instead, on one server in one run.

    python benchmarks/memory.py [--quick] [--json PATH]

Needs the environment of ``make bench``. The server is ADKPG_DATABASE_URL, else the embedded one
with its durable defaults. Each package has databases of its own, filled with 10,000 and 250,000
memories of one and of 1,056 users (``--quick``: 10,000 of 1,056): the same texts with the same
vectors, from one embedding function that costs next to nothing. They are filled in bulk, with the
tables and indexes that the package itself makes. Then all are asked and written to, in turn and in
blocks. A search is asked for ten memories, of which it is known which are the nearest, and which
one the question's words come from.
"""

import argparse
import asyncio
from pathlib import Path

from corpus import Vocabulary
from figures import OURS, Bar, Figure, Report, find
from memory_contenders import CONTENDERS
from memory_contenders.contender import Way
from memory_contenders.memshield import borrowed_role
from memory_floor import floor
from memory_stage import QUALITY, SEARCH, SUITE, Effort, Stage, many_size
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from server import chosen_server, describe

QUICK = Effort(blocks=2, questions=5, batches=1, turn_s=0.2, one=False)
FULL = Effort(blocks=3, questions=10, batches=3, turn_s=2, one=True)
MANY = 250_000
BARS = {100: (2, 4), 1_000: (4, 10), 10_000: (20, 60), 50_000: (60, 250)}
"""By the user's memories: most ms of a vector search's p50, and of a hybrid one's."""

PACKAGES = (
    "adkpg",
    "asyncpg",
    "google-adk",
    "numpy",
    "pgvector",
    "psycopg",
    "sqlalchemy",
    *sorted({contender.package for contender in CONTENDERS} - {"adkpg", "google-adk"}),
)
"""What a report's header names."""


async def run(
    server_url: str, *, quick: bool, progress: Progress
) -> tuple[list[Figure], list[Bar]]:
    """Measures memory.

    Args:
      server_url: Of a server where databases and a role may be made.
      quick: Fewer memories and questions, under a minute.
      progress: Shows what is being done.

    Returns:
      Figures, and the bars that were measured: a quick run has those of ingest only.
    """
    vocabulary = Vocabulary(seed=1)
    effort = QUICK if quick else FULL
    figures: list[Figure] = []
    async with borrowed_role(server_url):
        for memories in (10_000,) if quick else (10_000, MANY):
            figures += await Stage(vocabulary, memories, effort, progress).run(server_url)
    plain, bars = await floor(server_url, vocabulary, blocks=2 if quick else 10, progress=progress)
    figures += plain
    return figures, bars if quick else [*search_bars(figures), *bars]


def search_bars(figures: list[Figure]) -> list[Bar]:
    """Returns the bars of searches among many memories."""
    bars = []
    for size, (vector_ms, hybrid_ms) in BARS.items():
        among = many_size(size, MANY)
        promised: dict[Way, int] = {"vectors": vector_ms, "words": hybrid_ms}
        for way, most in promised.items():
            figure = find(figures, SEARCH[way], among)
            p50 = figure.p50 if figure else None
            rule = f"p50 of at most {most} ms"
            bars.append(Bar.of(SUITE, SEARCH[way], among, rule, p50, "<=", most))
        figure = find(figures, QUALITY["vectors"], among)
        recall = figure.p50 if figure else None
        rule = "recall@10 of at least 0.99"
        bars.append(Bar.of(SUITE, QUALITY["vectors"], among, rule, recall, ">=", 0.99))
    return bars


def show(console: Console, figures: list[Figure], bars: list[Bar]) -> None:
    for case in dict.fromkeys(figure.case for figure in figures):
        table = Table("", "", title=case)
        for heading in ("P50 / P95 OR PER S", "X ADKPG", "CORRECT"):
            table.add_column(heading, no_wrap=True, justify="right")
        notes: dict[str, None] = {}
        size = None
        for figure in figures:
            if figure.case != case:
                continue
            ours = find(figures, case, figure.size)
            ratio = None
            if figure.contender != OURS and figure.unit != "recall":
                ratio = figure.times(ours)
            numbers = (figure.p50, figure.p95, figure.rate)
            table.add_row(
                figure.size if figure.size != size else "",
                figure.contender,
                " / ".join(_number(each) for each in numbers if each is not None),
                "" if ratio is None else f"{ratio:.2f}",
                "yes" if figure.correct else "NO",
            )
            size = figure.size
            if figure.note and figure.unit != "recall":  # said with the times
                notes[f"{figure.contender}: {figure.note}"] = None
        console.print(table, *notes, sep="\n")
    for bar in bars:
        held = "holds" if bar.holds else "MISSED"
        console.print(f"{held}: {bar.case}, {bar.size}: {bar.rule} ({bar.value:.3f})")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


async def measure(url: str, quick: bool, path: Path | None) -> None:
    header = await describe(url, PACKAGES)
    with Progress(transient=True) as progress:
        figures, bars = await run(url, quick=quick, progress=progress)
    show(Console(), figures, bars)
    if path is not None:
        Report.read(path).merge(SUITE, header, figures, bars).write(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="10,000 memories, under a minute")
    parser.add_argument("--json", type=Path, help="where to keep the figures")
    arguments = parser.parse_args()
    with chosen_server() as url:
        asyncio.run(measure(url, arguments.quick, arguments.json))


if __name__ == "__main__":
    main()
