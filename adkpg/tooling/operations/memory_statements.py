"""Queries about memories: what waits, lacks a vector, or has outgrown the exact search.

Their SQL is in memory_statements.sql.
"""

from typing import TypedDict

from adkpg.queries import Queries, Query

_sql = Queries(__file__)


class Backlog(TypedDict):
    """A kind of work: how much waits and for how long, the dead letters, and the last error.

    `error` is null if nothing failed.
    """

    work: str
    waiting: int
    dead: int
    oldest_s: float
    error: str | None


class Coverage(TypedDict):
    """An app's active model, by name and dimensions, and how many memories lack its vector.

    `unqueued` says how many more lack it than wait for one.
    """

    app_name: str
    name: str
    dimensions: int
    memories: int
    lacking: int
    unqueued: int


class Large(TypedDict):
    """How many users have too many vectors."""

    large: int


@_sql.query()
def select_queue() -> Query[Backlog]:
    """Reads what waits, by kind of work; `oldest_s` is of what waits."""


@_sql.query()
def select_lacking() -> Query[Coverage]:
    """Reads, of each app with an active model, how many memories lack its vector; by app."""


@_sql.query()
def count_large(*, exact_limit: int) -> Query[Large]:
    """Counts the users with too many vectors of their active model that no index answers for.

    So many as `exact_limit` are answered for exactly.
    """
