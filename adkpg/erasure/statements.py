"""Queries that erase a person or a session; their SQL is in statements.sql.

They are made of the rules (`adkpg.rules`): a table that is added there is erased too. A place is a
person, or one session of theirs.
"""

from functools import cache
from typing import Any, TypedDict

from adkpg.keys import ScopeKey, SessionKey
from adkpg.queries import Nothing, Queries, Query, Statement
from adkpg.rules import Rule

_sql = Queries(__file__)


class SessionId(TypedDict):
    """The id of a session."""

    session_id: str


class Counted(TypedDict):
    """How many rows of a table there are; the kind is null except for memories."""

    kind: str | None
    rows: int


class Location(TypedDict):
    """Where in an object store bytes of a file are, or may be."""

    location: str


@cache
def _of_rule(name: str, row: type, rule: Rule, names: tuple[str, ...]) -> Statement:
    text = _sql.text(
        name,
        table=rule.table.name,
        key=", ".join(rule.key),
        kind="kind" if "kind" in rule.table.columns else "NULL::text",
        place=" AND ".join(f"{each} = :{each}" for each in names),
    )
    return Statement(text, row)


def _asked(name: str, row: type, rule: Rule, place: ScopeKey | SessionKey) -> Query[Any]:
    return Query(_of_rule(name, row, rule, tuple(place)), {**place})


def hold_rows(rule: Rule, place: ScopeKey | SessionKey) -> Query[Nothing]:
    """Makes all wait who write to a place's rows of a table, to the transaction's end.

    It waits for those who did so before. No row, if there is none.
    """
    return _asked("hold_rows", Nothing, rule, place)


def select_objects(rule: Rule, place: ScopeKey | SessionKey) -> Query[Location]:
    """Reads where in an object store the bytes of a place's files are, or may be."""
    return _asked("select_objects", Location, rule, place)


def count_rows(rule: Rule, place: ScopeKey | SessionKey) -> Query[Counted]:
    """Counts a place's rows of a table, memories by kind."""
    return _asked("count_rows", Counted, rule, place)


def delete_rows(rule: Rule, place: ScopeKey | SessionKey) -> Query[Counted]:
    """Deletes a place's rows of a table, and counts them like `count_rows`."""
    return _asked("delete_rows", Counted, rule, place)


@_sql.query()
def select_session_ids(*, app_name: str, user_id: str) -> Query[SessionId]:
    """Reads the ids of all sessions that anything is known of, also of those that were deleted."""


@_sql.query()
def delete_session(*, app_name: str, user_id: str, session_id: str) -> Query[SessionId]:
    """Deletes a session with its events and files; a row, unless there was none."""
