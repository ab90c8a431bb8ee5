"""Queries that write memories; their SQL is in statements.sql.

Positions are places in a user's history; see `adkpg.memory.write.plan`. Memories travel as one JSON
array; `drafts.as_json` writes it, and `drafts.Draft` lists its columns.
"""

from datetime import datetime
from typing import TypedDict

from adkpg.memory.duplicates import IGNORED
from adkpg.memory.records import PlacedMemory
from adkpg.queries import Answer, Nothing, Queries, Query

_sql = Queries(__file__)
_IGNORED = "[" + "".join(f"\\u{ord(each):04x}" for each in IGNORED) + "]+"


class StoredSession(TypedDict):
    """Where a session's next memory goes; null if it has none."""

    memory_position: int | None


class KnownEvent(TypedDict):
    """An event that memory knows."""

    event_id: str


class Erased(TypedDict):
    """How many memories of a kind went, what was drawn from others included."""

    kind: str
    rows: int


class Place(TypedDict):
    """Where a memory is."""

    position: int


class StoredTurn(TypedDict):
    """A memory of a session, as `plan.Stored` has it."""

    event_id: str
    position: int
    memory_id: str
    digest: str
    in_session: bool


class Difference(TypedDict):
    """The same, null where there is none."""

    event_id: str | None
    position: int | None
    memory_id: str | None
    digest: str | None
    in_session: bool


class Origin(TypedDict):
    """Where a memory is, and what it was made of."""

    memory_id: str
    position: int
    session_id: str
    event_id: str | None
    digest: str


@_sql.query()
def give_way(*, app_name: str, user_id: str) -> Query[Nothing]:
    """Bounds how long each lock on rows of a person is waited for, to the transaction's end."""


@_sql.query()
def lock_session(*, app_name: str, user_id: str, session_id: str) -> Query[Nothing]:
    """Makes writers of one session's memories wait for each other, to the transaction's end.

    They wait for a call that forgets the person too, and it waits for them (`lock_person`).
    """


@_sql.query()
def lock_person(*, app_name: str, user_id: str) -> Query[Nothing]:
    """Waits for all who write a person's memories, and makes later ones wait."""


@_sql.query()
def lock_stored_session(*, app_name: str, user_id: str, session_id: str) -> Query[StoredSession]:
    """Makes appends that remember wait too, to the transaction's end; no row if not stored."""


@_sql.query()
def place_next_memory(
    *, app_name: str, user_id: str, session_id: str, position: int | None
) -> Query[Nothing]:
    """Says where a session's next memory goes; null if it has none."""


@_sql.query()
def select_known_events(
    *, app_name: str, user_id: str, session_id: str, event_ids: list[str]
) -> Query[KnownEvent]:
    """Reads which of some events are in memory already, or were deleted from it.

    The marks of the deleted ones are renewed.
    """


@_sql.query()
def select_last_position(*, app_name: str, user_id: str, session_id: str) -> Query[Place]:
    """Reads the last place of a session's memories, of however many; no row without any."""


@_sql.query()
def select_session_memories(*, app_name: str, user_id: str, session_id: str) -> Query[StoredTurn]:
    """Reads what a session has in memory, by position."""


@_sql.query()
def select_differences(
    *, app_name: str, user_id: str, session_id: str, event_ids: list[str], digests: list[str]
) -> Query[Difference]:
    """Compares what a session has in memory with what it is to have.

    The events come in parallel with the digests of what they are to be in memory. The marks of
    deleted ones are renewed.

    Returns rows by position, of memories that are to go, to change, or to be written (those have no
    position), and one more: without an event id, at the last place of all that stay. It has no
    position if none stay, and its `in_session` says whether those that stay are in the order given,
    before all that are new.
    """


@_sql.query()
def select_tombstones(*, app_name: str, user_id: str, session_id: str) -> Query[KnownEvent]:
    """Reads the event ids that must not come back."""


@_sql.query()
def select_by_ids(*, app_name: str, user_id: str, memory_ids: list[str]) -> Query[Origin]:
    """Reads where memories are, and what they were made of."""


@_sql.query()
def select_same(
    *, app_name: str, user_id: str, memory_id: str, ignored: str = _IGNORED
) -> Query[PlacedMemory]:
    """Reads a memory and, if it is live, what may say the same; `duplicates.groups_of_rows` knows.

    Rows come by position. `ignored` matches what texts that say the same may differ in.
    """


@_sql.query()
def lock_same(
    *, app_name: str, user_id: str, memory_id: str, ignored: str = _IGNORED
) -> Query[PlacedMemory]:
    """Reads the same, and keeps other writers from it, to the transaction's end."""


@_sql.query()
def lock_positions(*, app_name: str, user_id: str, positions: list[int]) -> Query[Nothing]:
    """Keeps others from memories that are to be changed, and from adding to them.

    By position, as `store_vectors` does, so that the two never deadlock. A statement that comes
    later sees what those have added for which this one waited.
    """


@_sql.query()
def update_attributes(
    *, app_name: str, user_id: str, positions: list[int], memories: str
) -> Query[Nothing]:
    """Changes what is stored alongside the content of the memories at these positions."""


@_sql.query()
def delete_positions(*, app_name: str, user_id: str, positions: list[int]) -> Query[Nothing]:
    """Deletes memories with all that belongs to them, and what was drawn from them."""


@_sql.query()
def move_positions(
    *, app_name: str, user_id: str, froms: list[int], tos: list[int]
) -> Query[Nothing]:
    """Moves memories with their words and vectors, in one statement; their rows are locked before.

    The places are in parallel.
    """


@_sql.query()
def ingest_turns(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    whole: bool,
    event_ids: list[str],
    digests: list[str],
    given_ids: list[str],
    memories: str,
    config: str,
    place: int,
    model_id: int | None,
    claim: str,
    lease_s: float,
) -> Query[Answer[str | None]]:
    """Writes what a session's events are to be in memory, where only new ones come at its end.

    Args:
      app_name: The app.
      user_id: The user.
      session_id: The session.
      whole: Whether they are all of the session, or come after what it has.
      event_ids: The events.
      digests: In parallel, of what they are to be in memory.
      given_ids: The events whose memories are given.
      memories: Those, in their order; their positions say nothing.
      config: The configuration of words without another.
      place: Where to write the first memory of a session that has none.
      model_id: The writer's embedder's; null if the new ones are left to others.
      claim: The writer's, who embeds them.
      lease_s: How long the claim is the writer's.

    Returns:
      ``answer``: null if more is to be done than to write new ones, as `plan` knows; else JSON.
      ``needed``: the events whose memories are needed, if some of them were not given, and then
      nothing was written. Else ``written``: the events whose memories were, and ``first``, where
      they begin; ``claimed_until``, when the writer's claim of them lapses, null if the app has
      another active model; ``others``, whether the user has more to embed.
    """


@_sql.query()
def insert_memories(
    *, app_name: str, user_id: str, memories: str, config: str
) -> Query[Answer[int]]:
    """Writes memories at their positions, with their words, and what is still to be done with them.

    A memory of an event that is stored already is left alone. The ``answer`` is how many were
    given. `config` is the configuration of words without another.
    """


@_sql.query()
def rewrite_memories(
    *, app_name: str, user_id: str, positions: list[int], memories: str, config: str
) -> Query[Nothing]:
    """Gives memories another text where they stand, with its words, once `forget_derived` ran.

    They keep their id, origin, provenance, attributes and time of creation, and wait for what their
    text is used for, whatever became of it before: a vector and, where the app wants it, facts
    drawn from them.
    """


@_sql.query()
def forget_derived(*, app_name: str, user_id: str, positions: list[int]) -> Query[Nothing]:
    """Deletes what was made of memories' texts: words, vectors, and what was drawn from them."""


@_sql.query()
def lock_free_positions(*, app_name: str, user_id: str, positions: list[int]) -> Query[Place]:
    """Locks some memories, except those that a writer holds."""


@_sql.query(text="erase_memories", which="m.memory_id = ANY (:memory_ids)", marked="true")
def delete_memories(*, app_name: str, user_id: str, memory_ids: list[str]) -> Query[Erased]:
    """Erases memories and what was drawn from them, so that they do not come back.

    A tombstone stays for each that came from an event.
    """


@_sql.query(text="erase_memories", which="m.position = ANY (:positions)", marked="true")
def erase_positions(*, app_name: str, user_id: str, positions: list[int]) -> Query[Erased]:
    """Erases memories as `delete_memories` does."""


@_sql.query(text="erase_memories", which="m.session_id = :session_id", marked="false")
def erase_session_memories(*, app_name: str, user_id: str, session_id: str) -> Query[Erased]:
    """Erases a session's memories and what was drawn from them; no mark stays."""


@_sql.query(
    text="erase_memories",
    which="m.session_id = :session_id AND m.event_id = :event_id",
    marked="true",
)
def erase_event(*, app_name: str, user_id: str, session_id: str, event_id: str) -> Query[Erased]:
    """Erases the memory of an event, as `delete_memories` does."""


@_sql.query()
def end_derived(
    *, app_name: str, user_id: str, origins: list[str], was: list[datetime | None]
) -> Query[Nothing]:
    """Ends facts and summaries with the first memory of their provenance, after some were changed.

    Those that were to end sooner of themselves keep their end. `was` says, in parallel with the
    memories that end at another time, when they were to end; null is never.
    """
