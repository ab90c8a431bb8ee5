"""Statements that write memories. No I/O.

Positions are places in a user's history; see `adkpg.memory.write.plan`.
"""

from functools import cache
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Delete,
    Double,
    Select,
    Text,
    Update,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    literal,
    literal_column,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSON, JSONB, REAL, TIMESTAMP, insert

from adkpg.memory.write.postings import length_of, posted_words, word_vectors
from adkpg.sql import APP_NAME, USER_ID, given_rows, in_scope, stored_columns, to_be_extracted
from adkpg.tables import (
    MEMORY_EVENT_KEY,
    events,
    memories,
    memory_jobs,
    memory_lexemes,
    memory_provenance,
    memory_tombstones,
    memory_vectors,
    sessions,
)

_SESSION_ID = bindparam("session_id", type_=Text)

_MEMORY_ID = bindparam("memory_id", type_=Text)

_POSITIONS = bindparam("positions", type_=ARRAY(BigInteger))


@cache
def lock_session() -> Select[Any]:
    """Makes writers of one session's memories wait for each other, to the transaction's end.

    Parameters: app_name, user_id, session_id.
    """
    key = func.hashtextextended(
        func.jsonb_build_array(APP_NAME, USER_ID, _SESSION_ID).cast(Text), literal(0, BigInteger)
    )
    return select(func.pg_advisory_xact_lock(key))


@cache
def lock_stored_session() -> Select[Any]:
    """Makes appends that remember wait too, to the transaction's end; no row if it is not stored.

    Parameters: app_name, user_id, session_id.
    """
    return (
        select(sessions.c.memory_position)
        .where(in_scope(sessions), sessions.c.session_id == _SESSION_ID)
        .with_for_update(key_share=True)
    )


@cache
def place_next_memory() -> Update:
    """Says where a session's next memory goes. Parameters: app_name, user_id, session_id, next."""
    return (
        update(sessions)
        .where(in_scope(sessions), sessions.c.session_id == _SESSION_ID)
        .values(memory_position=bindparam("next", type_=BigInteger))
    )


@cache
def select_session_memories() -> Select[Any]:
    """Reads what a session has in memory, by position.

    Parameters: app_name, user_id, session_id.
    """
    still_there = exists(
        select(events.c.seq).where(
            in_scope(events),
            events.c.session_id == memories.c.session_id,
            events.c.event_id == memories.c.event_id,
        )
    )
    return (
        select(
            memories.c.event_id,
            memories.c.position,
            memories.c.memory_id,
            memories.c.digest,
            still_there.label("in_session"),
        )
        .where(
            in_scope(memories),
            memories.c.session_id == _SESSION_ID,
            memories.c.event_id.is_not(None),
        )
        .order_by(memories.c.position)
    )


@cache
def select_tombstones() -> Select[Any]:
    """Reads the event ids that must not come back. Parameters: app_name, user_id, session_id."""
    return select(memory_tombstones.c.event_id).where(
        in_scope(memory_tombstones), memory_tombstones.c.session_id == _SESSION_ID
    )


@cache
def select_by_ids() -> Select[Any]:
    """Reads where memories are. Parameters: app_name, user_id, memory_ids."""
    return select(
        memories.c.memory_id,
        memories.c.position,
        memories.c.session_id,
        memories.c.event_id,
        memories.c.digest,
    ).where(
        in_scope(memories),
        memories.c.memory_id == func.any(bindparam("memory_ids", type_=ARRAY(Text))),
    )


@cache
def lock_memory() -> Select[Any]:
    """Reads one memory and keeps other writers from it, to the transaction's end.

    Parameters: app_name, user_id, memory_id. Returns its columns and position.
    """
    return (
        select(*stored_columns(), memories.c.position)
        .where(in_scope(memories), memories.c.memory_id == _MEMORY_ID)
        .with_for_update()
    )


@cache
def update_facets() -> Update:
    """Changes what is stored beside a memory's content.

    Parameters: app_name, user_id, memory_id, metadata, topics, importance, expires_at, digest.
    """
    return (
        update(memories)
        .where(in_scope(memories), memories.c.memory_id == _MEMORY_ID)
        .values(
            custom_metadata=cast(bindparam("metadata", type_=Text), JSONB),
            topics=cast(bindparam("topics", type_=Text), JSONB),
            importance=cast(bindparam("importance", type_=Double), REAL),
            expires_at=bindparam("expires_at", type_=TIMESTAMP(timezone=True)),
            digest=bindparam("digest", type_=Text),
        )
    )


@cache
def delete_positions() -> Delete:
    """Deletes memories with all that hangs on them. Parameters: app_name, user_id, positions.

    Rows are locked by position, as `store_vectors` does, so that the two never deadlock.
    """
    locked = (
        select(memories.c.app_name, memories.c.user_id, memories.c.memory_id)
        .where(in_scope(memories), memories.c.position == func.any(_POSITIONS))
        .order_by(memories.c.position)
        .with_for_update()
        .cte("locked")
    )
    return erased(locked)


def erased(chosen: CTE) -> Delete:
    """Deletes memories, and the facts and summaries that were drawn from them.

    Words, vectors and jobs go with their memory, by a trigger and foreign keys.

    Args:
      chosen: Their app_name, user_id and memory_id.
    """
    drawn = select(
        memory_provenance.c.app_name, memory_provenance.c.user_id, memory_provenance.c.memory_id
    ).join_from(
        memory_provenance,
        chosen,
        and_(
            memory_provenance.c.origin_id == chosen.c.memory_id,
            memory_provenance.c.app_name == chosen.c.app_name,
            memory_provenance.c.user_id == chosen.c.user_id,
        ),
    )
    direct = select(chosen.c.app_name, chosen.c.user_id, chosen.c.memory_id)
    gone = union_all(direct, drawn).cte("gone")
    return delete(memories).where(
        memories.c.memory_id == gone.c.memory_id,
        memories.c.app_name == gone.c.app_name,
        memories.c.user_id == gone.c.user_id,
    )


@cache
def move_positions() -> Select[Any]:
    """Moves memories with their words and vectors, in one statement.

    Foreign keys are checked at its end, when parents and children have moved alike; so none needs
    ON UPDATE CASCADE, which tables distributed by user could not have.

    Parameters: app_name, user_id, froms, tos. Returns how many memories moved.
    """
    given = (
        select(given_rows(froms=BigInteger, tos=BigInteger))
        .cte("given")
        .prefix_with("MATERIALIZED")
    )
    children = [
        update(table)
        .where(in_scope(table), table.c.position == given.c.froms)
        .values(position=given.c.tos)
        .cte(f"moved_{table.name}")
        for table in (memory_lexemes, memory_vectors, memory_jobs)
    ]
    moved = (
        update(memories)
        .where(in_scope(memories), memories.c.position == given.c.froms)
        .values(position=given.c.tos)
        .returning(memories.c.position)
        .cte("moved")
    )
    return select(func.count().label("moved")).select_from(moved).add_cte(*children)


@cache
def insert_memories() -> Select[Any]:
    """Writes memories with their words, and what is still to be done with them.

    A memory of an event that is stored already is left alone.

    Parameters: app_name, user_id, config, and in parallel arrays those of `drafts.insertion`.
    Returns the number of memories written.
    """
    unnested = given_rows(
        positions=BigInteger,
        memory_ids=Text,
        kinds=Text,
        session_ids=Text,
        event_ids=Text,
        authors=Text,
        timestamps=TIMESTAMP(timezone=True),
        contents=Text,
        bodies=Text,
        words=Text,
        scripts=Text,
        metadata=Text,
        sources=Text,
        artifacts=Text,
        topics=Text,
        importances=Double,
        expiries=TIMESTAMP(timezone=True),
        digests=Text,
    )
    given = select(
        APP_NAME.label("app_name"),
        USER_ID.label("user_id"),
        unnested.c.positions.label("position"),
        unnested.c.memory_ids.label("memory_id"),
        unnested.c.kinds.label("kind"),
        unnested.c.session_ids.label("session_id"),
        unnested.c.event_ids.label("event_id"),
        unnested.c.authors.label("author"),
        unnested.c.timestamps.label("timestamp"),
        unnested.c.contents.label("content"),
        unnested.c.bodies.label("body"),
        unnested.c.words,
        unnested.c.scripts.label("script"),
        unnested.c.metadata.label("custom_metadata"),
        unnested.c.sources.label("source"),
        unnested.c.artifacts,
        unnested.c.topics,
        unnested.c.importances.label("importance"),
        unnested.c.expiries.label("expires_at"),
        unnested.c.digests.label("digest"),
    ).select_from(unnested)
    inserted, *others = written(given)
    return select(func.count().label("written")).select_from(inserted).add_cte(*others)


def written(rows: Select[Any]) -> tuple[CTE, CTE, CTE]:
    """The steps that write memories, for a statement to hang on to: memories, words, jobs.

    Words come from the text that the caller prepared, and from the written-out date, which counts
    for the memory itself only.

    Args:
      rows: The memories' columns, and their words and script.
    """
    source = rows.subquery("source")
    given = select(
        *(each for each in source.c if each.key not in ("words", "script")), *word_vectors(source)
    ).cte("given")
    values: dict[str, ColumnElement[Any]] = {
        each.key: each for each in given.c if each.key not in ("words", "date_words")
    }
    values |= {
        "content": cast(given.c.content, JSON),
        "length": length_of(given.c.words),
        "custom_metadata": cast(given.c.custom_metadata, JSONB),
        "artifacts": cast(given.c.artifacts, JSONB),
        "topics": cast(given.c.topics, JSONB),
        "importance": cast(given.c.importance, REAL),
    }
    inserted = (
        insert(memories)
        .from_select(list(values), select(*values.values()))
        .on_conflict_do_nothing(constraint=MEMORY_EVENT_KEY)
        .returning(memories.c.app_name, memories.c.user_id, memories.c.position, memories.c.kind)
        .cte("inserted")
    )
    posted = posted_words(inserted, given, given.c.position == inserted.c.position)
    to_embed = select(
        inserted.c.app_name, inserted.c.user_id, inserted.c.position, literal_column("'embed'")
    )
    to_extract = select(
        inserted.c.app_name, inserted.c.user_id, inserted.c.position, literal_column("'extract'")
    ).where(to_be_extracted(inserted.c.kind))
    queued = (
        insert(memory_jobs)
        .from_select(["app_name", "user_id", "position", "task"], to_embed.union_all(to_extract))
        .cte("queued")
    )
    return inserted, posted, queued


@cache
def delete_memory() -> Select[Any]:
    """Deletes one memory for good. Parameters: app_name, user_id, memory_id. See `buried`."""
    return buried(memories.c.memory_id == _MEMORY_ID)


def buried(which: ColumnElement[bool]) -> Select[Any]:
    """Erases memories of a user and what was drawn from them, so that they do not come back.

    Of those that came from an event a tombstone stays. Returns ``erased``, how many memories went,
    what was drawn included.

    Args:
      which: Tells them from the user's other memories.
    """
    chosen = (
        select(
            memories.c.app_name,
            memories.c.user_id,
            memories.c.memory_id,
            memories.c.session_id,
            memories.c.event_id,
        )
        .where(in_scope(memories), which)
        .order_by(memories.c.position)
        .with_for_update()
        .cte("chosen")
    )
    tombstones = (
        insert(memory_tombstones)
        .from_select(
            ["app_name", "user_id", "session_id", "event_id"],
            select(
                chosen.c.app_name, chosen.c.user_id, chosen.c.session_id, chosen.c.event_id
            ).where(chosen.c.event_id.is_not(None)),
        )
        .on_conflict_do_nothing()
        .cte("tombstones")
    )
    gone = erased(chosen).returning(memories.c.memory_id).cte("gone_for_good")
    return select(func.count().label("erased")).select_from(gone).add_cte(tombstones)
