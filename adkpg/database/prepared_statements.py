"""Statements that a function of the database prepares and runs, as a client would.

Long ones where those of clients do not last: a pooler may lose them, and the nodes of a cluster
plan anew what they are sent. And those that a cluster would run step by step. What is given and
returned goes as text, and becomes here what asyncpg would have made of it. No I/O.
"""

import json
import math
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

from sqlalchemy import REAL, DateTime, Float
from sqlalchemy.dialects.postgresql import ARRAY

from adkpg.sql import Call, ParametersT, ScopeParameters, Statement

_FLOAT = struct.Struct("f")
_NO_REAL = 2.0**-150
_ENDS = {
    "infinity": datetime.max.replace(tzinfo=UTC),
    "-infinity": datetime.min.replace(tzinfo=UTC),
}


class PreparedParameters(ScopeParameters):
    """Of `call_of`; see `Template`.

    Attributes:
      arguments: The statement's, in the order of its placeholders, as text.
    """

    name: str
    statement: str
    tables: list[str] | None
    arguments: list[str | None]
    written: int


@cache
def call_of(*, writes: bool) -> Statement[PreparedParameters]:
    """Runs a statement that is given as text; ``answer`` is its rows as JSON."""
    names = ("app_name", "user_id", "name", "statement", "tables", "arguments")
    return (
        Call("write_prepared_1", *names, "written") if writes else Call("select_prepared_1", *names)
    )


def prepared(
    statement: Statement[ParametersT], parameters: ParametersT, schema: str, *, distributed: bool
) -> PreparedParameters:
    """Returns the parameters by which `call_of` runs a statement of one user.

    Args:
      statement: It.
      parameters: Its own.
      schema: Of the tables.
      distributed: Whether Citus distributes them.
    """
    template = statement.template(schema, distributed=distributed)
    scope: Any = parameters
    return {
        "app_name": scope["app_name"] if "app_name" in scope else scope["app_names"][0],
        "user_id": scope["user_ids"][0] if statement.splits else scope["user_id"],
        "name": template.name,
        "statement": template.statement,
        "tables": template.tables,
        "written": template.written,
        "arguments": [
            _text(each, statement.kinds[name])
            # A function's scope is entered by the one that runs it.
            for name, each in zip(statement.names, statement.arguments(parameters), strict=False)
        ],
    }


def rows_of(statement: Statement[Any], answer: str) -> list[dict[str, Any]]:
    """Returns the rows of a statement, with the values that asyncpg would give."""
    readers = _readers(statement)
    found: list[dict[str, Any]] = json.loads(answer)
    for row in found:
        for name, read in readers:
            if row[name] is not None:
                row[name] = read(row[name])
    return found


@cache
def _readers(statement: Statement[Any]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple(_of_columns(statement))


def _of_columns(statement: Statement[Any]) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    for name, kind in statement.columns.items():
        read = _reader(kind)
        if read is not None:
            yield name, read


def _reader(kind: Any) -> Callable[[Any], Any] | None:
    """What makes a value of what JSON has of it; None: it is that already."""
    if isinstance(kind, ARRAY):
        of_one = _reader(kind.item_type)
        return None if of_one is None else partial(_elements, of_one)
    if isinstance(kind, DateTime):
        return _time
    if isinstance(kind, REAL):
        return _real
    return float if isinstance(kind, Float) else None


def _elements(of_one: Callable[[Any], Any], given: Any) -> Any:
    """What an array has: arrays, if it has more dimensions than one, which no type says."""
    if isinstance(given, list):
        return [_elements(of_one, each) for each in given]
    return None if given is None else of_one(given)


def _time(value: str) -> datetime:
    return _ENDS.get(value) or datetime.fromisoformat(value).astimezone(UTC)


def _real(value: float | str) -> float:
    """A number of four bytes: its shortest text is not what it is as one of eight."""
    (found,) = _FLOAT.unpack(_FLOAT.pack(float(value)))
    return float(found)


def _text(value: object, kind: Any) -> str | None:
    """A value as Postgres reads it; the type is what the statement says."""
    if value is None:
        return None
    if isinstance(value, list):
        of_one = kind.item_type if isinstance(kind, ARRAY) else None
        return "{" + ",".join(_element(each, of_one) for each in value) + "}"
    if isinstance(value, bytes):
        return rf"\x{value.hex()}"
    if isinstance(value, timedelta):
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.astimezone()).isoformat()
    if isinstance(value, float) and isinstance(kind, REAL) and abs(value) <= _NO_REAL:
        return str(math.copysign(0, value))  # rounded as by the driver: Postgres refuses the text
    return str(value)


def _element(value: object, kind: Any) -> str:
    """A value in the text of an array."""
    text = _text(value, kind)
    if text is None:
        return "NULL"
    if isinstance(value, int | float):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
