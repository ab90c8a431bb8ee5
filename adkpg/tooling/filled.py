"""Filled: the tables that hold rows, and how many others are empty. Pure."""

from collections.abc import Callable, Iterable
from typing import TypeVar

TableT = TypeVar("TableT")


def filled(
    tables: Iterable[TableT], rows: Callable[[TableT], int]
) -> tuple[list[TableT], str | None]:
    """Returns the tables that hold rows, in their order, and a sentence about the empty ones.

    Args:
      tables: All of them, the largest first.
      rows: Returns how many rows a table holds.
    """
    found: list[TableT] = []
    empty = 0
    for table in tables:
        if rows(table):
            found.append(table)
        else:
            empty += 1
    if not empty:
        return found, None
    more = "more " if found else ""
    return found, f"{empty} {more}{'table is' if empty == 1 else 'tables are'} empty."
