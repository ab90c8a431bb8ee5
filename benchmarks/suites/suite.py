"""A suite of benchmarks: run, shown in the terminal, and kept in a report."""

import argparse
import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.figures import OURS, Bar, Figure, Report, find
from benchmarks.server import chosen_server, describe


class Run(Protocol):
    """Measures everything that a suite has."""

    def __call__(
        self, server_url: str, *, quick: bool, progress: Progress
    ) -> Awaitable[tuple[list[Figure], list[Bar]]]: ...


@dataclass(frozen=True)
class Suite:
    """What a suite is called, what it needs and what it does.

    Attributes:
      name: As its figures say.
      packages: What a report's header names.
      run: Measures it.
    """

    name: str
    packages: Sequence[str]
    run: Run

    async def measure(self, url: str, quick: bool, path: Path | None) -> None:
        """Measures on a server, shows what was found, and merges it into a report."""
        header = await describe(url, self.packages)
        with Progress(transient=True) as progress:
            figures, bars = await self.run(url, quick=quick, progress=progress)
        show(Console(), figures, bars)
        if path is not None:
            Report.read(path).merge(self.name, header, figures, bars).write(path)

    def command(self, doc: str | None) -> None:
        """The suite's own command line."""
        parser = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
        parser.add_argument("--quick", action="store_true", help="small sizes, under a minute")
        parser.add_argument("--json", type=Path, help="where to keep the figures")
        arguments = parser.parse_args()
        with chosen_server() as url:
            asyncio.run(self.measure(url, arguments.quick, arguments.json))


def show(console: Console, figures: list[Figure], bars: list[Bar]) -> None:
    for case in dict.fromkeys(figure.case for figure in figures):
        table = Table("", "", "P50", "P95", "PER S", "X ADKPG", "CORRECT", title=case)
        for column in table.columns[2:]:
            column.justify, column.no_wrap = "right", True
        notes: dict[str, None] = {}
        size = None
        for figure in (each for each in figures if each.case == case):
            ratio = None
            if figure.contender != OURS and figure.unit != "recall":
                ratio = figure.times(find(figures, case, figure.size))
            table.add_row(
                figure.size if figure.size != size else "",
                figure.contender,
                *(_number(each) for each in (figure.p50, figure.p95, figure.rate, ratio)),
                ("yes" if figure.correct else "NO") if figure.samples else "",
            )
            size = figure.size
            if figure.note and figure.unit != "recall":  # said with the times
                notes[f"{figure.contender}: {figure.note}"] = None
        console.print(table, *notes, sep="\n")
    for bar in bars:
        held = "holds" if bar.holds else "MISSED"
        console.print(f"{held}: {bar.case}, {bar.size}: {bar.rule} ({bar.value:.3g})")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
