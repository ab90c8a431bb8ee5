"""Answers: tables, sentences and JSON, and memories in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import click

import adkpg
from adkpg.tooling.terminal import printable, show


def say(sentence: str, value: Mapping[str, object], *, as_json: bool) -> None:
    """Prints a sentence, or what it says as JSON."""
    click.echo(json.dumps(value) if as_json else printable(sentence))


def answer(
    value: Mapping[str, object],
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    as_json: bool,
    nothing: str,
    full: bool = False,
    footer: str | None = None,
) -> None:
    """Prints a table, or a sentence if it has no rows, or the same as JSON.

    A page's `next_cursor` follows the table, and a footer that says how to read it.
    """
    if as_json or not rows:
        say(nothing, value, as_json=as_json)
        return
    show(columns, rows, full=full)
    if footer is not None:
        click.echo(footer)
    if (cursor := value.get("next_cursor")) is not None:
        click.echo(f"There are more: --cursor {cursor}")


def reader(database: adkpg.Database) -> adkpg.PgVectorMemoryService:
    """Returns the memory service for commands that embed nothing, without an embedder."""
    return adkpg.PgVectorMemoryService(database, mode="text")


def fail(errors: Iterable[str]) -> NoReturn:
    """Prints what failed to standard error, and ends with exit code 1."""
    for sentence in errors:
        click.echo(f"Error: {printable(sentence)}", err=True)
    raise click.exceptions.Exit(1)


def text_of(memory: adkpg.Memory) -> str:
    """Returns what a memory says, or which artifacts it names."""
    text = "\n".join(part.text for part in memory.content.parts or [] if part.text)
    return text or ", ".join(memory.artifacts)


def time_of(moment: str | None) -> str:
    """Returns a moment as tables show it, in UTC to the second."""
    return (moment or "")[:19].replace("T", " ")


def origin_of(memory: adkpg.Memory) -> str:
    """Returns who said a memory, or the document it is a piece of."""
    return memory.author or memory.source or ""


COLUMNS = ("ID", "TIME", "KIND", "FROM", "MEMORY")


def row(memory: adkpg.Memory) -> tuple[object, ...]:
    """Returns a memory as a row of `COLUMNS`."""
    time = time_of(memory.timestamp)
    return (memory.id, time, memory.kind, origin_of(memory), text_of(memory))


def jsonable(memory: adkpg.Memory) -> dict[str, Any]:
    """Returns a memory as JSON values."""
    return memory.model_dump(mode="json", exclude_none=True)
