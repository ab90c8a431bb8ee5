"""Progress: a bar for work that takes a while, on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from adkpg.terminal import printable


@contextmanager
def bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function that is told how much of how much is done; silent without a terminal."""
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as shown:
        task = shown.add_task(printable(description), total=None)

        def show(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)

        yield show
