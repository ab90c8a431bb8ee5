"""How memories are shown in a terminal, and as JSON."""

from typing import Any

from rich.table import Table

from adkpg.memory.records import Memory
from adkpg.terminal import cell, table

_IDS = ("ID", "SOURCE")


def id_table(*columns: str) -> Table:
    """Returns an empty table whose ids stay whole, to be copied."""
    shown = table(*columns)
    for column in shown.columns:
        column.no_wrap = column.no_wrap or column.header in _IDS
    return shown


def text_of(memory: Memory) -> str:
    """Returns what a memory says, or which artifacts it names."""
    text = "\n".join(part.text for part in memory.content.parts or [] if part.text)
    return text or ", ".join(memory.artifacts)


def time_of(moment: str | None) -> str:
    """Returns a moment as tables show it, in UTC to the second."""
    return (moment or "")[:19].replace("T", " ")


def origin_of(memory: Memory) -> str:
    """Returns who said a memory, or the document it is a piece of."""
    return memory.author or memory.source or ""


def add_row(shown: Table, memory: Memory) -> None:
    """Adds a memory to a table of ID, TIME, KIND, FROM and MEMORY."""
    shown.add_row(
        cell(memory.id or ""),
        cell(time_of(memory.timestamp)),
        cell(memory.kind),
        cell(origin_of(memory)),
        cell(text_of(memory)),
    )


def jsonable(memory: Memory) -> dict[str, Any]:
    """Returns a memory as JSON values."""
    return memory.model_dump(mode="json", exclude_none=True)
