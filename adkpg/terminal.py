"""Terminal: how stored texts and tables are shown to people."""

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text


def console() -> Console:
    """Returns a console on the current standard output, without markup and highlighting."""
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=False)


def table(*columns: str) -> Table:
    """Returns an empty table; its cells are folded, but session ids stay whole to be copied."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold", no_wrap=column == "SESSION")
    return shown


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
