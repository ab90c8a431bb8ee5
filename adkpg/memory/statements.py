"""Queries that read memories by key and page by page; their SQL is in statements.sql."""

from datetime import datetime
from typing import TypedDict

from adkpg.memory.records import PlacedMemory, StoredMemory
from adkpg.queries import Queries, Query

_sql = Queries(__file__)


class Count(TypedDict):
    """How many memories there are."""

    memories: int


@_sql.query()
def select_memory(*, app_name: str, user_id: str, memory_id: str) -> Query[StoredMemory]:
    """Reads one memory, live or not."""


@_sql.query()
def list_memories(
    *,
    app_name: str,
    user_id: str,
    after: datetime | None,
    before: datetime | None,
    live_only: bool,
    after_timestamp: datetime | None,
    after_position: int | None,
    limit: int,
) -> Query[PlacedMemory]:
    """Reads one page of a scope's memories, newest first.

    `after_timestamp` and `after_position` say where the page before ended; null is the first page.
    """


@_sql.query()
def list_chosen_memories(
    *,
    app_name: str,
    user_id: str,
    after: datetime | None,
    before: datetime | None,
    authors: list[str] | None,
    session_ids: list[str] | None,
    metadata: str | None,
    kinds: list[str] | None,
    topics: list[str] | None,
    live_only: bool,
    after_timestamp: datetime | None,
    after_position: int | None,
    limit: int,
) -> Query[PlacedMemory]:
    """Reads one page as `list_memories` does, by filters that ask for more than times."""


@_sql.query()
def count_memories(
    *, app_name: str, user_id: str, after: datetime | None, before: datetime | None
) -> Query[Count]:
    """Counts a scope's live memories."""


@_sql.query()
def count_chosen_memories(
    *,
    app_name: str,
    user_id: str,
    after: datetime | None,
    before: datetime | None,
    authors: list[str] | None,
    session_ids: list[str] | None,
    metadata: str | None,
    kinds: list[str] | None,
    topics: list[str] | None,
) -> Query[Count]:
    """Counts live memories by filters that ask for more than times."""


@_sql.query()
def select_profile(
    *,
    app_name: str,
    user_id: str,
    topics: list[str] | None,
    before: datetime | None,
    limit: int,
) -> Query[StoredMemory]:
    """Reads a user's live facts, the most important and then the latest first.

    They are about any of some topics, and from before a time; null is about anything, and ever.
    """
