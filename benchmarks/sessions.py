"""Sessions, side by side with what a user would pick instead, on one server in one run.

    python benchmarks/sessions.py [--quick] [--json PATH]

Needs the environment of ``make bench``. The server is ADKPG_DATABASE_URL, else the embedded one
with its durable defaults. adkpg, ADK's own service, sqlspec, openai-agents and the floor (adkpg's
statements on a raw asyncpg pool) have a database each with the tables and indexes that they make,
and pools of one size. They take turns in blocks, so that a machine whose speed drifts favours
none. Everything that was written is read again and compared.
"""

import argparse
import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from figures import OURS, Bar, Figure, Report, find
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from server import chosen_server, describe, own_database
from session_bars import bars as promised
from session_contenders import CONTENDERS
from session_reading import get_again, get_and_append, list_sessions
from session_stage import SUITE, Effort, Stage
from session_writing import append, shared, state, turn

QUICK = Effort(
    blocks=2,
    writers=(1, 16),
    appends=48,
    turns=3,
    reads=6,
    sessions=200,
    histories=(10, 300),
    shared=4,
)
FULL = Effort(
    blocks=5,
    writers=(1, 8, 16, 32),
    appends=256,
    turns=10,
    reads=20,
    sessions=10_000,
    histories=(10, 300, 3_000, 10_000),
    shared=10,
)

PACKAGES = (
    *sorted({contender.distribution for contender in CONTENDERS if contender.distribution}),
    "asyncpg",
    "pydantic",
    "sqlalchemy",
)
"""What a report's header names."""


async def run(
    server_url: str, *, quick: bool, progress: Progress
) -> tuple[list[Figure], list[Bar]]:
    """Measures sessions.

    Args:
      server_url: Of a server where databases may be made.
      quick: Fewer and smaller blocks, under a minute.
      progress: Shows what is being done.

    Returns:
      Figures, and the bars of the cases that were measured.
    """
    async with AsyncExitStack() as stack:
        urls = {}
        for contender in CONTENDERS:
            database = own_database(server_url, f"sessions_{contender.name}")
            urls[contender.name] = await stack.enter_async_context(database)
            await contender.prepare(urls[contender.name])
        stage = Stage(CONTENDERS, urls, QUICK if quick else FULL, progress)
        figures = []
        for case in (append, turn, shared, state, get_and_append, get_again, list_sessions):
            figures += await case(stage)
    return figures, promised(figures)


def show(console: Console, figures: list[Figure], bars: list[Bar]) -> None:
    for case in dict.fromkeys(figure.case for figure in figures):
        table = Table("", "", "P50", "P95", "PER S", "X ADKPG", "CORRECT", title=case)
        for column in table.columns[2:]:
            column.justify, column.no_wrap = "right", True
        notes: dict[str, None] = {}
        size = None
        for figure in (each for each in figures if each.case == case):
            ratio = (
                None if figure.contender == OURS else figure.times(find(figures, case, figure.size))
            )
            table.add_row(
                figure.size if figure.size != size else "",
                figure.contender,
                *(_number(each) for each in (figure.p50, figure.p95, figure.rate, ratio)),
                ("yes" if figure.correct else "NO") if figure.samples else "",
            )
            size = figure.size
            if figure.note:
                notes[f"{figure.contender}: {figure.note}"] = None
        console.print(table, *notes, sep="\n")
    for bar in bars:
        held = "holds" if bar.holds else "MISSED"
        console.print(f"{held}: {bar.case}, {bar.size}: {bar.rule} ({bar.value:.3g})")


def _number(value: float | None) -> str:
    if value is None:
        return ""
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
    parser.add_argument("--quick", action="store_true", help="small sizes, under a minute")
    parser.add_argument("--json", type=Path, help="where to keep the figures")
    arguments = parser.parse_args()
    with chosen_server() as url:
        asyncio.run(measure(url, arguments.quick, arguments.json))


if __name__ == "__main__":
    main()
