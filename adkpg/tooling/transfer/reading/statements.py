"""Queries of what an app, a user or a session has, as lines of JSON, in pages by key.

Their SQL is in statements.sql. Postgres writes the lines, so each payload is spelled as it
is stored.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, TypedDict
from uuid import UUID

from sqlalchemy import Column
from sqlalchemy.dialects.postgresql import UUID as SqlUuid

from adkpg.queries import Queries, Query, Statement
from adkpg.tooling.transfer.kinds import KINDS, Kind

Whose = Literal["app", "user", "session"]
"""What a statement reads: all of an app, what one user has, or what belongs to one session."""


def _line(kind: Kind) -> str:
    """Returns SQL of a line's text. A row of a subquery would do, but not on a cluster."""
    columns = {name: kind.spelled.get(name, f"t.{name}") for name in kind.columns}
    values = "".join(
        f""", ',"{name}":', coalesce(to_json({sql})::text, 'null')"""
        for name, sql in columns.items()
    )
    return f"""concat('{{"type":"{kind.type}"'{values}, '}}')"""


_sql = Queries(__file__, line=_line(KINDS["event"]))


class EventLine(TypedDict):
    """An event's line, and its key."""

    user_id: str
    session_id: str
    seq: int
    line: str


def select_lines(
    kind: Kind,
    part: str | None,
    *,
    app_name: str,
    user_id: str | None,
    session_id: str | None,
    after: Sequence[object] | None,
    limit: int,
) -> Query[Any]:
    """Reads a page of lines in the order of their keys; each row has its key and the line.

    Args:
      kind: What the rows are.
      part: One of the kind's conditions.
      app_name: The app.
      user_id: One user's; None is all of the app.
      session_id: One session's of the user, where the kind belongs to sessions.
      after: The key of the last row of the page before, in the kind's order; None is the first.
      limit: Most rows.
    """
    whose: Whose = "app" if user_id is None else "user" if session_id is None else "session"
    parameters: dict[str, Any] = {"app_name": app_name, "limit": limit}
    if user_id is not None:
        parameters["user_id"] = user_id
    if session_id is not None and kind.rule.of_sessions:
        parameters["session_id"] = session_id
    if after is not None:
        parameters |= {
            f"after_{name}": value for name, value in zip(kind.order, after, strict=True)
        }
    return Query(_lines(kind.type, part, whose, following=after is not None), parameters)


@cache
def _lines(line: str, part: str | None, whose: Whose, *, following: bool) -> Statement:
    kind = KINDS[line]
    order, columns = kind.order, kind.rule.table.columns
    wanted = [] if whose == "app" or not kind.rule.personal else ["t.user_id = :user_id"]
    if whose == "session" and kind.rule.of_sessions:
        wanted.append(kind.of_session or "t.session_id = :session_id")
    if part is not None:
        wanted.append(part)
    if following:
        after = ", ".join(f":after_{name}" for name in order)
        wanted.append(f"({', '.join(f't.{name}' for name in order)}) > ({after})")
    sql = _sql.text(
        "select_lines",
        keys=", ".join(f"t.{name}" for name in order or ("app_name",)),
        table=kind.rule.table.name,
        line=_line(kind),
        wanted="\n  AND ".join(wanted) or "true",
    )
    keys = {name: _python(columns[name]) for name in order or ("app_name",)}
    made: Any = TypedDict  # whose names mypy knows in advance alone
    return Statement(sql, made("Line", {**keys, "line": str}))


def _python(column: Column[Any]) -> type:
    kind: type = UUID if isinstance(column.type, SqlUuid) else column.type.python_type
    return kind


@_sql.query()
def select_events(
    *,
    app_name: str,
    after_user: str,
    after_session: str,
    after_seq: int,
    last_user: str,
    last_session: str,
    limit: int,
) -> Query[EventLine]:
    """Reads lines of events by their keys, from the one after a place up to those of a session."""
