"""Queries that erase a person or a session; their SQL is in statements.sql.

Every row of a table that has a ``user_id`` belongs to a person: a table that is added to
`adkpg.tables` later is erased too.
"""

from functools import cache
from typing import TypedDict

from sqlalchemy import Table

from adkpg.queries import Nothing, Queries, Query, Statement
from adkpg.tables import memories

_sql = Queries(__file__)


class SessionId(TypedDict):
    """The id of a session."""

    session_id: str


class Counted(TypedDict):
    """How many rows of a table there are; the kind is null but for memories."""

    kind: str | None
    rows: int


class Location(TypedDict):
    """Where in an object store bytes of a file are, or may be."""

    location: str


@cache
def _of_table(name: str, table: Table) -> Statement:
    kind = "kind" if table is memories else "NULL::text"
    return Statement(_sql.text(name, kind=kind, table=table.name), Counted)


def count_rows(table: Table, *, app_name: str, user_id: str) -> Query[Counted]:
    """Counts a user's rows of a table, memories by kind."""
    return Query(_of_table("count_rows", table), {"app_name": app_name, "user_id": user_id})


def delete_rows(table: Table, *, app_name: str, user_id: str) -> Query[Counted]:
    """Deletes a user's rows of a table, and counts them like `count_rows`."""
    return Query(_of_table("delete_rows", table), {"app_name": app_name, "user_id": user_id})


@_sql.query()
def select_session_ids(*, app_name: str, user_id: str) -> Query[SessionId]:
    """Reads the ids of all sessions that anything is known of, also of those that were deleted."""


@_sql.query()
def lock_sessions(*, app_name: str, user_id: str) -> Query[Nothing]:
    """Makes all appends of a user wait, to the transaction's end."""


@_sql.query()
def select_objects(*, app_name: str, user_id: str) -> Query[Location]:
    """Reads where in an object store the bytes of a user's files are, or may be."""


@_sql.query()
def hold_session(*, app_name: str, user_id: str, session_id: str) -> Query[Nothing]:
    """Makes everybody wait who writes something of a session, saved files too; no row if none."""


@_sql.query()
def select_session_objects(*, app_name: str, user_id: str, session_id: str) -> Query[Location]:
    """Reads where in an object store bytes of a session's files are, or may be."""


@_sql.query()
def lock_session_memories(*, app_name: str, user_id: str, session_id: str) -> Query[Nothing]:
    """Waits for whoever changes a session's memories or draws facts from them; holds them off."""


@_sql.query()
def delete_session_memories(*, app_name: str, user_id: str, session_id: str) -> Query[Nothing]:
    """Deletes a session's memories, and the facts and summaries that were drawn from them."""


@_sql.query()
def delete_session_tombstones(*, app_name: str, user_id: str, session_id: str) -> Query[Nothing]:
    """Deletes what says of a session that memories were deleted."""


@_sql.query()
def delete_session(*, app_name: str, user_id: str, session_id: str) -> Query[Nothing]:
    """Deletes a session with its events."""
