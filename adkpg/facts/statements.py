"""Queries of facts, of their provenance, and of summaries; their SQL is in statements.sql."""

from datetime import datetime
from typing import TypedDict

from adkpg.memory.records import StoredMemory
from adkpg.queries import Nothing, Queries, Query

_sql = Queries(__file__)


class Fact(TypedDict):
    """A fact; its topics are JSON text, its provenance ids of memories."""

    memory_id: str
    position: int
    body: str
    topics: str
    importance: float
    timestamp: datetime
    superseded_by: str | None
    expires_at: datetime | None
    live: bool
    provenance: list[str]


class TurnRow(TypedDict):
    """A turn in memory."""

    memory_id: str
    position: int
    event_id: str | None
    author: str | None
    timestamp: datetime
    body: str
    digest: str


class SummaryRow(StoredMemory):
    """A session's summary, and ids of the memories that it was drawn from."""

    position: int
    provenance: list[str]


class SessionId(TypedDict):
    """The session that a memory came from."""

    session_id: str


class Locked(TypedDict):
    """A memory that is locked, and whether facts are still to be drawn from it."""

    memory_id: str
    position: int
    digest: str
    waiting: bool


class Added(TypedDict):
    """How much provenance was added."""

    added: int


class Origin(StoredMemory):
    """A memory, and the memory that was drawn from it."""

    of_memory_id: str


class Topic(TypedDict):
    """A topic, and how many live memories have it."""

    topic: str
    memories: int


class Queued(TypedDict):
    """A turn, and whether it is new to the queue."""

    user_id: str
    position: int
    new: bool


class Ended(TypedDict):
    """A job that was ended."""

    app_name: str
    user_id: str
    position: int
    work: str


@_sql.query()
def select_known(
    *, app_name: str, user_id: str, memory_ids: list[str] | None, limit: int
) -> Query[Fact]:
    """Reads live facts of a user, by time: those of some ids, or any."""


@_sql.query()
def select_to_merge(
    *, app_name: str, user_id: str, since: datetime, within_s: float
) -> Query[Fact]:
    """Reads a user's live facts, and those past ones that new ones could repeat, by time.

    Those count that are as new as `since`, or ended in the last `within_s` seconds.
    """


@_sql.query()
def select_turns(
    *, app_name: str, user_id: str, session_id: str, positions: list[int] | None, reach: int
) -> Query[TurnRow]:
    """Reads the live turns of one session, by position.

    Those at some positions, and `reach` before each; without positions all.
    """


@_sql.query()
def select_summary(*, app_name: str, user_id: str, session_id: str) -> Query[SummaryRow]:
    """Reads a session's summary and its provenance."""


@_sql.query()
def select_session_ids(*, app_name: str, user_id: str, memory_ids: list[str]) -> Query[SessionId]:
    """Reads which sessions memories came from, in order.

    A writer that erases or replaces memories of one holds the session's lock (`lock_session`) from
    an earlier statement on, and so sees the facts that were drawn from them meanwhile.
    """


@_sql.query()
def lock_memories(*, app_name: str, user_id: str, memory_ids: list[str]) -> Query[Locked]:
    """Keeps memories from being changed or erased, to the transaction's end.

    By position, as all who lock several do.
    """


@_sql.query()
def mark_extracted(*, app_name: str, user_id: str, memory_ids: list[str]) -> Query[Nothing]:
    """Says that facts were drawn from turns, so that no extraction reads them again."""


@_sql.query()
def insert_provenance(
    *, app_name: str, user_id: str, memory_ids: list[str], related_ids: list[str]
) -> Query[Nothing]:
    """Adds provenance to memories, over what they have; both lists are parallel."""


@_sql.query()
def insert_repeated(
    *, app_name: str, user_id: str, memory_ids: list[str], related_ids: list[str]
) -> Query[Added]:
    """Adds to facts' provenance turns whose words they repeat without having named them.

    So erasing the turn that told a name or a number leaves it in no fact.

    Args:
      app_name: The app.
      user_id: The user.
      memory_ids: Facts that are written.
      related_ids: The turns that they may repeat.
    """


@_sql.query()
def end_with_provenance(*, app_name: str, user_id: str, memory_ids: list[str]) -> Query[Nothing]:
    """Ends facts and summaries when the first memory of their provenance ends.

    One of their own that was to end sooner keeps its end.
    """


@_sql.query()
def supersede(
    *, app_name: str, user_id: str, memory_ids: list[str], related_ids: list[str]
) -> Query[Nothing]:
    """Marks facts as superseded by others, in parallel, as of now."""


@_sql.query()
def select_provenance(*, app_name: str, user_id: str, memory_ids: list[str]) -> Query[Origin]:
    """Reads the provenance of memories, by time."""


@_sql.query()
def count_topics(*, app_name: str, user_id: str) -> Query[Topic]:
    """Counts the live memories of each topic, most first."""


@_sql.query()
def select_history(*, app_name: str, user_id: str, memory_id: str) -> Query[StoredMemory]:
    """Reads a fact, what replaced it, and what they replaced, in the order of their time."""


@_sql.query()
def switch(*, app_name: str, on: bool) -> Query[Nothing]:
    """Switches an app's extraction on or off."""


@_sql.query()
def queue_unread(
    *, app_name: str, after_user_id: str, after_position: int, limit: int
) -> Query[Queued]:
    """Puts turns that no facts were drawn from into the queue, by place; nothing if it is off."""


@_sql.query()
def end_waiting(*, app_name: str, limit: int) -> Query[Ended]:
    """Ends some of an app's waiting extraction, unless it was switched on again."""
