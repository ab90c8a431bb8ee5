"""Queries that write memories of an export, and what belongs to them.

Their SQL is in memory_statements.sql.
"""

from datetime import datetime
from typing import TypedDict

from adkpg.queries import Nothing, Queries, Query

_sql = Queries(__file__)


class StoredDraft(TypedDict):
    """Where a memory is, what it was made of, and its attributes; JSON is text."""

    memory_id: str
    position: int
    digest: str
    custom_metadata: str | None
    topics: str
    importance: float
    expires_at: datetime | None


class Place(TypedDict):
    """A place."""

    position: int


class EventKey(TypedDict):
    """One event of a session."""

    session_id: str
    event_id: str


class Settled(TypedDict):
    """Whether Postgres can have an app's text search configuration."""

    known: bool


@_sql.query()
def select_stored(*, app_name: str, user_id: str, memory_ids: list[str]) -> Query[StoredDraft]:
    """Reads those of some memories that are stored."""


@_sql.query()
def select_taken(*, app_name: str, user_id: str, positions: list[int]) -> Query[Place]:
    """Reads which of some places are taken."""


@_sql.query()
def select_barred(
    *,
    app_name: str,
    user_id: str,
    session_ids: list[str],
    event_ids: list[str],
    memory_ids: list[str],
) -> Query[EventKey]:
    """Reads those of some events that have a mark, or another memory than the given one."""


@_sql.query()
def complete_memories(
    *,
    app_name: str,
    user_id: str,
    memory_ids: list[str],
    created: list[datetime | None],
    superseded: list[str | None],
    extracted: list[datetime | None],
) -> Query[Nothing]:
    """Gives memories what their writer does not say; facts are not drawn again where they were."""


@_sql.query()
def insert_origins(
    *, app_name: str, user_id: str, memory_ids: list[str], origin_ids: list[str]
) -> Query[Nothing]:
    """Writes what memories were drawn from, in parallel arrays, where both are stored."""


@_sql.query()
def insert_tombstone(
    *, app_name: str, user_id: str, session_id: str, event_id: str, needed_at: datetime
) -> Query[Nothing]:
    """Writes the mark of a deleted memory, or keeps the later of two times of it."""


@_sql.query()
def settle_app(
    *, app_name: str, text_search_config: str | None, extract_facts: bool
) -> Query[Settled]:
    """Gives an app settings that it has none of.

    Words are not derived again, so an app whose memories have words by another rule keeps it.
    """


@_sql.query()
def activate_model(*, app_name: str, model: str, dimensions: int) -> Query[Nothing]:
    """Makes a model the active one of an app that has none."""
