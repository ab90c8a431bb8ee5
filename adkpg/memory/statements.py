"""Statements that write memories, and read them by key. No I/O.

Positions are places in a user's history; see `adkpg.memory.ingestion`.
"""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Delete,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    literal,
    literal_column,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSON, REGCONFIG, TIMESTAMP, insert
from sqlalchemy.sql.selectable import TableValuedAlias

from adkpg.tables import (
    MEMORY_EVENT_KEY,
    events,
    memories,
    memory_lexemes,
    memory_tombstones,
    memory_vectors,
    pending_embeddings,
)

APP_NAME = bindparam("app_name", type_=Text)
USER_ID = bindparam("user_id", type_=Text)
CONFIG = cast(bindparam("config", type_=Text), REGCONFIG)
_SESSION_ID = bindparam("session_id", type_=Text)
_MEMORY_ID = bindparam("memory_id", type_=Text)
_POSITIONS = bindparam("positions", type_=ARRAY(BigInteger))
_MAX_LEXEME_BYTES = 512  # a key of app, user and lexeme must fit a B-tree entry


def in_scope(table: Any) -> ColumnElement[bool]:
    """The rows of one user of one app."""
    return and_(table.c.app_name == APP_NAME, table.c.user_id == USER_ID)


def given_rows(**arrays: Any) -> TableValuedAlias:
    """Rows from parallel array parameters, named after them."""
    binds = [bindparam(name, type_=ARRAY(kind)) for name, kind in arrays.items()]
    columns = [column(name, kind) for name, kind in arrays.items()]
    return func.unnest(*binds).table_valued(*columns, name="given").render_derived()


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
        .where(in_scope(memories), memories.c.session_id == _SESSION_ID)
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
def delete_positions() -> Delete:
    """Deletes memories with their words and vectors. Parameters: app_name, user_id, positions.

    Rows are locked by position, as `store_vectors` does, so that the two never deadlock.
    """
    locked = (
        select(memories.c.app_name, memories.c.user_id, memories.c.position)
        .where(in_scope(memories), memories.c.position == func.any(_POSITIONS))
        .order_by(memories.c.position)
        .with_for_update()
        .cte("locked")
    )
    return delete(memories).where(
        memories.c.app_name == locked.c.app_name,
        memories.c.user_id == locked.c.user_id,
        memories.c.position == locked.c.position,
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
        for table in (memory_lexemes, memory_vectors, pending_embeddings)
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
    """Writes memories with their words, and marks them as pending for the embedder.

    A memory of an event that is stored already is left alone. Words come from the body, and from
    the written-out date, which counts for the memory itself only. ADK calls every person ``user``:
    as an author that is no word, or a question about "the user" would find all that was ever said.

    Parameters: app_name, user_id, config, and in parallel arrays positions, memory_ids,
    session_ids, event_ids, authors, timestamps, contents, bodies, metadata, digests.
    Returns the number of memories written.
    """
    unnested = given_rows(
        positions=BigInteger,
        memory_ids=Text,
        session_ids=Text,
        event_ids=Text,
        authors=Text,
        timestamps=TIMESTAMP(timezone=True),
        contents=Text,
        bodies=Text,
        metadata=Text,
        digests=Text,
    )
    date = func.to_char(func.timezone("UTC", unnested.c.timestamps), "FMDD FMMonth YYYY")
    words_of = case(
        (unnested.c.authors == "user", func.substr(unnested.c.bodies, len("user: ") + 1)),
        else_=unnested.c.bodies,
    )
    given = select(
        *unnested.c,
        func.to_tsvector(CONFIG, words_of).label("words"),
        func.to_tsvector(CONFIG, date).label("date_words"),
    ).cte("given")
    body_words = _lexemes(given.c.words, "body_words")
    length = select(func.coalesce(func.sum(_occurrences(body_words)), 0)).select_from(body_words)
    inserted = (
        insert(memories)
        .from_select(
            [
                "app_name",
                "user_id",
                "position",
                "memory_id",
                "session_id",
                "event_id",
                "author",
                "timestamp",
                "content",
                "body",
                "length",
                "custom_metadata",
                "digest",
            ],
            select(
                APP_NAME,
                USER_ID,
                given.c.positions,
                given.c.memory_ids,
                given.c.session_ids,
                given.c.event_ids,
                given.c.authors,
                given.c.timestamps,
                cast(given.c.contents, JSON),
                given.c.bodies,
                length.scalar_subquery(),
                cast(given.c.metadata, JSON),
                given.c.digests,
            ),
        )
        .on_conflict_do_nothing(constraint=MEMORY_EVENT_KEY)
        .returning(memories.c.app_name, memories.c.user_id, memories.c.position)
        .cte("inserted")
    )
    own = _lexemes(given.c.words, "own")
    dated = _lexemes(given.c.date_words, "dated")
    words = (
        select(
            own.c.lexeme, _occurrences(own).label("frequency"), literal_column("0").label("date")
        )
        .union_all(select(dated.c.lexeme, literal_column("0"), _occurrences(dated)))
        .lateral("words")
    )
    posted = (
        insert(memory_lexemes)
        .from_select(
            ["app_name", "user_id", "lexeme", "position", "frequency", "date_frequency"],
            select(
                inserted.c.app_name,
                inserted.c.user_id,
                words.c.lexeme,
                inserted.c.position,
                func.sum(words.c.frequency),
                func.sum(words.c.date),
            )
            .select_from(
                inserted.join(given, given.c.positions == inserted.c.position).join(words, true())
            )
            .where(func.octet_length(words.c.lexeme) <= _MAX_LEXEME_BYTES)
            .group_by(inserted.c.app_name, inserted.c.user_id, words.c.lexeme, inserted.c.position),
        )
        .cte("posted")
    )
    pending = (
        insert(pending_embeddings)
        .from_select(
            ["app_name", "user_id", "position"],
            select(inserted.c.app_name, inserted.c.user_id, inserted.c.position),
        )
        .cte("pending")
    )
    return select(func.count().label("written")).select_from(inserted).add_cte(posted, pending)


@cache
def delete_memory() -> Select[Any]:
    """Deletes one memory and, if it came from an event, leaves a tombstone.

    Parameters: app_name, user_id, memory_id.
    """
    gone = (
        delete(memories)
        .where(in_scope(memories), memories.c.memory_id == _MEMORY_ID)
        .returning(
            memories.c.app_name, memories.c.user_id, memories.c.session_id, memories.c.event_id
        )
        .cte("gone")
    )
    buried = (
        insert(memory_tombstones)
        .from_select(
            ["app_name", "user_id", "session_id", "event_id"],
            select(gone).where(gone.c.event_id.is_not(None)),
        )
        .on_conflict_do_nothing()
        .cte("buried")
    )
    return select(func.count().label("deleted")).select_from(gone).add_cte(buried)


def _lexemes(vector: ColumnElement[Any], name: str) -> TableValuedAlias:
    return func.unnest(vector).table_valued(
        column("lexeme", Text), column("positions"), column("weights"), name=name
    )


def _occurrences(lexemes: TableValuedAlias) -> Any:
    return func.cardinality(lexemes.c.positions)
