"""Sending: what a statement is to the server: SQL, arguments, and what reads its answer.

Most are sent as they are. Others are named to a function of the database, which prepares and runs
them as a client would. These are long ones where a pooler loses those that clients prepare, and
those of one user where the tables are on several servers (`adkpg.database.cluster`). What such a
call is given and returns goes as text, and becomes here what asyncpg would have made of it. No I/O.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from hashlib import sha256
from types import NoneType, UnionType
from typing import Any, NamedTuple, Protocol, get_args, get_origin
from uuid import UUID

from adkpg.database.statements import select_prepared
from adkpg.queries import PLACEHOLDER, Query, Statement, quoted

_ENDS = {
    "infinity": datetime.max.replace(tzinfo=UTC),
    "-infinity": datetime.min.replace(tzinfo=UTC),
}


class Sent(NamedTuple):
    """One message to the server, and what reads the rows that come back.

    Attributes:
      sql: With placeholders.
      arguments: In their order.
      rows: Returns the statement's rows; None: they are those that came.
    """

    sql: str
    arguments: list[object]
    rows: Callable[[list[Any]], list[Any]] | None = None


class Sending(Protocol):
    """How statements are sent to the tables of one installation."""

    def sent(
        self,
        query: Query[Any],
        *,
        scope: tuple[str, ...] | None,
        standing: str | None,
        plans_kept: bool,
    ) -> Iterator[Sent]:
        """Yields what a statement is to the server: one message, or one for each user.

        Args:
          query: The statement and its parameters.
          scope: What it enters by itself, as the arguments of ``enter_scope``; None: nothing.
          standing: What the server is asked of itself along with it, as `Statement.text` says.
          plans_kept: Whether the server keeps the plans of what clients prepare.
        """


class Direct:
    """To tables of one server.

    Args:
      schema: Where the tables are.
    """

    def __init__(self, schema: str) -> None:
        self.schema = schema

    def sent(
        self,
        query: Query[Any],
        *,
        scope: tuple[str, ...] | None = None,
        standing: str | None = None,
        plans_kept: bool = True,
    ) -> Iterator[Sent]:
        """Yields it as it is, or as a call of what keeps its plan; see `Sending.sent`."""
        statement, parameters = query
        rows = None
        if statement.long and not plans_kept and standing is None:
            rows = answered_by(statement)
            text = placed(statement.answering(), self.schema)
            statement, parameters = select_prepared(
                name=name_of(text, long=True),
                statement=text,
                arguments=arguments_of(query),
            )
        gate = None if scope is None else len(scope)
        sql = statement.text(self.schema, gate, standing)
        yield Sent(sql, statement.arguments(parameters, scope), rows)


@cache
def placed(text: str, schema: str) -> str:
    """Returns a text with the schema in it."""
    return text.replace(PLACEHOLDER, quoted(schema))


@cache
def name_of(text: str, *, long: bool) -> str:
    """Returns a name that stands for a text, and for no other; `select_prepared_1` reads it."""
    kind = "adkpl" if long else "adkps"  # a server process keeps so many of each
    return f"{kind}_{sha256(text.encode()).hexdigest()[:32]}"


def arguments_of(query: Query[Any]) -> list[str | None]:
    """Returns a query's arguments as text, in the order of the placeholders."""
    return [_text(each) for each in query.statement.arguments(query.parameters)]


def answered_by(statement: Statement) -> Callable[[list[Any]], list[Any]]:
    """Returns what reads a statement's rows from the one row of JSON that a function answers."""
    return partial(_answered, statement)


def _answered(statement: Statement, rows: list[Any]) -> list[Any]:
    return rows_of(statement, rows[0]["answer"])


def rows_of(statement: Statement, answer: str) -> list[dict[str, Any]]:
    """Returns the rows of a statement, with the values that asyncpg would give."""
    readers = _readers(statement)
    found: list[dict[str, Any]] = json.loads(answer)
    for row in found:
        for name, read in readers:
            if row[name] is not None:
                row[name] = read(row[name])
    return found


@cache
def _readers(statement: Statement) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple(_of_columns(statement))


def _of_columns(statement: Statement) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    for name, kind in statement.columns.items():
        read = _reader(kind)
        if read is not None:
            yield name, read


def _reader(kind: Any) -> Callable[[Any], Any] | None:
    """What makes a value of what JSON has of it; None: it is that already."""
    if get_origin(kind) is UnionType:  # of a value that may be null
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is list:
        of_one = _reader(get_args(kind)[0])
        return None if of_one is None else partial(_elements, of_one)
    if kind in _READERS:
        return _READERS[kind]
    return None


def _elements(of_one: Callable[[Any], Any], given: Any) -> Any:
    """What an array has: arrays, if it has more dimensions than one, which no type says."""
    if isinstance(given, list):
        return [_elements(of_one, each) for each in given]
    return None if given is None else of_one(given)


def _time(value: str) -> datetime:
    return _ENDS.get(value) or datetime.fromisoformat(value).astimezone(UTC)


def _bytes(value: str) -> bytes:
    return bytes.fromhex(value.removeprefix("\\x"))


_READERS: Mapping[Any, Callable[[Any], Any]] = {
    datetime: _time,
    bytes: _bytes,
    UUID: UUID,
    float: float,
}


def _text(value: object) -> str | None:
    """A value as Postgres reads it."""
    if value is None:
        return None
    if isinstance(value, list):
        return "{" + ",".join(map(_element, value)) + "}"
    if isinstance(value, bytes):
        return rf"\x{value.hex()}"
    if isinstance(value, timedelta):
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.astimezone()).isoformat()
    return str(value)


def _element(value: object) -> str:
    """A value in the text of an array."""
    text = _text(value)
    if text is None:
        return "NULL"
    if isinstance(value, int | float):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
