"""Terminal: how stored texts, tables and progress are shown to people."""

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from adkpg.tooling.filled import filled

_LEAST_ROOM = 30


def console() -> Console:
    """Returns a console on the current standard output, without markup and highlighting."""
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=False)


def show(columns: Sequence[str], rows: Iterable[Sequence[object]], *, full: bool = False) -> None:
    """Prints a table in which each row is one line.

    On a terminal the last column is cut to what fits; it has a line of its own where the others
    leave it too little. In a pipe nothing is cut, so that a search for a text finds it.

    Args:
      columns: The headings.
      rows: Each with a value for each column, as an object or as a `cell`.
      full: Wraps the last column on a terminal instead of cutting it.
    """
    out = console()
    full = full and out.is_terminal
    lines = [[cell(heading, "bold") for heading in columns]]
    lines += [[value if isinstance(value, Text) else cell(value) for value in row] for row in rows]
    lines = [
        [*map(_in_one_line, cells), last if full else _in_one_line(last)] for *cells, last in lines
    ]
    *widths, longest = (
        max(each.cell_len for each in column) for column in zip(*lines, strict=True)
    )
    indent = sum(width + 2 for width in widths)
    below = out.is_terminal and indent > 0 and out.width - indent < min(_LEAST_ROOM, longest)
    if below:
        indent = 2
    for *cells, last in lines:
        line = Text()
        for text, width in zip(cells, widths, strict=True):
            line.append_text(text).append(" " * (width - text.cell_len + 2))
        if below:
            line.rstrip()
            line.append("\n" + " " * indent)
        if full:
            wrapped = last.wrap(out, out.width - indent, overflow="fold")
            last = Text("\n" + " " * indent).join(wrapped)
        elif out.is_terminal:
            last.truncate(out.width - indent, overflow="ellipsis")
        line.append_text(last)
        line.rstrip()
        out.print(line, soft_wrap=True)


def show_tables(
    columns: Sequence[str], tables: Iterable[tuple[int, Sequence[object]]], *, full: bool = False
) -> None:
    """Prints those of the database's tables that hold rows, and how many others are empty.

    Args:
      columns: The headings.
      tables: How many rows each holds, and what to print of it; the largest first.
      full: As `show` takes it.
    """
    found, rest = filled(tables, lambda table: table[0])
    if found:
        show(columns, [row for _, row in found], full=full)
    if rest is not None:
        console().print(cell(rest))


def _in_one_line(text: Text) -> Text:
    return Text(re.sub(r"\s+", _in_one_space, text.plain), text.style)


def _in_one_space(blanks: re.Match[str]) -> str:
    return " " if "\n" in blanks[0] or "\t" in blanks[0] else blanks[0]


@contextmanager
def bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function that is told how much of how much is done; silent without a terminal."""
    with bars() as shown:
        yield lambda done, total: shown(description, done, total)


@contextmanager
def bars() -> Iterator[Callable[[str, int, int], None]]:
    """Yields a function that is told what is done, and how much of how much; a bar for each.

    Nothing is shown without a terminal.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with _shown(columns) as shown:
        tasks: dict[str, TaskID] = {}

        def show(description: str, done: int, total: int) -> None:
            if description not in tasks:
                tasks[description] = shown.add_task(printable(description), total=None)
            shown.update(tasks[description], completed=done, total=total)

        yield show


@contextmanager
def rate_bar(noun: str) -> Iterator[Callable[[str, int, int, int], None]]:
    """Yields a function that is told what is done, how much of how much, and how many things.

    It shows how many of them were done in a second, and the time that is left; each step counts
    them anew. Silent without a terminal.

    Args:
      noun: What the things are called.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[count]:,} {task.fields[noun]}", markup=False),
        TextColumn("{task.fields[rate]:,.0f}/s", markup=False),
        TimeRemainingColumn(),
    )
    with _shown(columns) as shown:
        task = shown.add_task("", total=None, count=0, noun=noun, rate=0.0)
        last, begun = "", time.monotonic()

        def show(step: str, done: int, total: int, count: int) -> None:
            nonlocal last, begun
            if last and step != last:
                begun = time.monotonic()
            last = step
            shown.update(
                task,
                description=printable(step),
                completed=done,
                total=total or None,
                count=count,
                rate=count / max(time.monotonic() - begun, 0.001),
            )

        yield show


def _shown(columns: Sequence[ProgressColumn]) -> Progress:
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    return Progress(*columns, console=console, disable=not console.is_terminal)


def cell(text: object, style: str = "") -> Text:
    """Returns a text as it may be printed, in a style of rich's."""
    return Text(printable(str(text)), style)


def printable(text: str) -> str:
    """Returns a text that cannot steer the terminal and that its encoding can hold.

    Line breaks and tabs stay. Other control characters, lone surrogates and what the encoding of
    standard output lacks become backslash escapes.
    """
    safe = "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return safe.encode(encoding, "backslashreplace").decode(encoding)
