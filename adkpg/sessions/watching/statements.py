"""Queries that watch a session; their SQL is in statements.sql."""

from typing import TypedDict

from adkpg.queries import Nothing, Queries, Query

_sql = Queries(__file__)


class Position(TypedDict):
    """Where a session stands; `key` is the name by which appends tell of it."""

    incarnation: str
    revision: int
    revision_token: str | None
    key: str


class News(TypedDict):
    """An event after a revision; all except the first two are null if there is none."""

    incarnation: str
    went_back: bool
    seq: int | None
    revision_token: str | None
    payload: str | None


@_sql.query()
def select_position(*, app_name: str, user_id: str, session_id: str) -> Query[Position]:
    """Reads where a session stands; no row if there is no such session."""


@_sql.query()
def keep_watched(*, app_name: str, user_id: str, session_id: str) -> Query[Nothing]:
    """Makes appends tell of themselves for another minute; writes nothing if others just did."""


@_sql.query()
def select_news(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    revision: int,
    revision_token: str | None,
    limit: int,
) -> Query[News]:
    """Reads some events after a revision in append order, and what became of that revision.

    Returns a row for each event, or one without an event if there is none. `went_back` says whether
    storage lost the revision. No row if there is no such session.
    """
