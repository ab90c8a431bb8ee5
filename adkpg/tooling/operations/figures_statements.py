"""Queries that count what apps and users have; their SQL is in figures_statements.sql."""

from datetime import datetime
from typing import TypedDict

from adkpg.queries import Queries, Query

_sql = Queries(__file__)


class Kept(TypedDict):
    """What an app, or one user of it, has."""

    app_name: str
    sessions: int
    events: int
    payload_bytes: int
    memories: int
    vectors: int
    files: int
    file_bytes: int
    waiting: int
    dead: int


class KeptByApp(Kept):
    """What an app has, how many users, and what of it is new."""

    users: int
    new_sessions: int
    new_events: int
    new_memories: int


class KeptByUser(Kept):
    """What a user has."""

    user_id: str


@_sql.query()
def select_apps(*, app_name: str | None, since: datetime) -> Query[KeptByApp]:
    """Counts what each app has, and its users; by name.

    Users are those of sessions and memories. What came after `since` is new. An app that is null
    stands for all.
    """


@_sql.query()
def select_largest(*, app_name: str | None, limit: int) -> Query[KeptByUser]:
    """Counts what the users have who have most: by events and memories, most first.

    An app that is null stands for all.
    """
