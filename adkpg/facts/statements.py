"""Statements of facts: what they were drawn from, and what replaced them. No I/O."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Delete,
    Insert,
    Integer,
    Select,
    Text,
    Update,
    and_,
    bindparam,
    cast,
    column,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by, insert

from adkpg.sql import conditions, given_rows, in_scope, live, stored_columns
from adkpg.tables import app_settings, memories, memory_jobs, memory_provenance

_APP_NAME = bindparam("app_name", type_=Text)
_SESSION_ID = bindparam("session_id", type_=Text)
_MEMORY_ID = bindparam("memory_id", type_=Text)
_MEMORY_IDS = bindparam("memory_ids", type_=ARRAY(Text))
_ON = bindparam("on", type_=Boolean)
_FACT: ColumnElement[str] = literal_column("'fact'")
_SUMMARY: ColumnElement[str] = literal_column("'summary'")
_TURN: ColumnElement[str] = literal_column("'turn'")
_EXTRACT: ColumnElement[str] = literal_column("'extract'")


def _provenance() -> Any:
    """The ids of what a memory was drawn from, as an array."""
    return (
        select(
            func.coalesce(
                func.array_agg(
                    aggregate_order_by(memory_provenance.c.origin_id, memory_provenance.c.origin_id)
                ),
                cast([], ARRAY(Text)),
            )
        )
        .where(
            memory_provenance.c.memory_id == memories.c.memory_id,
            memory_provenance.c.app_name == memories.c.app_name,
            memory_provenance.c.user_id == memories.c.user_id,
        )
        .scalar_subquery()
    )


@cache
def select_facts() -> Select[Any]:
    """Reads all facts of a user, live or not, by time. Parameters: app_name, user_id."""
    return (
        select(
            memories.c.memory_id,
            memories.c.position,
            memories.c.body,
            cast(memories.c.topics, Text).label("topics"),
            memories.c.importance,
            memories.c.timestamp,
            memories.c.superseded_by,
            # A transaction that waited has a now() before what it waited for.
            and_(live(), memories.c.superseded_by.is_(None)).label("live"),
            _provenance().label("provenance"),
        )
        .where(in_scope(memories), memories.c.kind == _FACT)
        .order_by(memories.c.timestamp, memories.c.position)
    )


@cache
def select_context() -> Select[Any]:
    """Reads the live turns of one session at and before some positions, by position.

    Parameters: app_name, user_id, session_id, positions, reach (how many before each).
    """
    asked = given_rows(positions=BigInteger)
    near = exists(
        select(asked.c.positions).where(
            memories.c.position <= asked.c.positions,
            memories.c.position >= asked.c.positions - bindparam("reach", type_=Integer),
        )
    )
    return (
        _turns()
        .where(in_scope(memories), memories.c.session_id == _SESSION_ID, live(), near)
        .order_by(memories.c.position)
    )


@cache
def select_session_turns() -> Select[Any]:
    """Reads the live turns of one session, by position.

    Parameters: app_name, user_id, session_id.
    """
    return (
        _turns()
        .where(in_scope(memories), memories.c.session_id == _SESSION_ID, live())
        .order_by(memories.c.position)
    )


def _turns() -> Select[Any]:
    return select(
        memories.c.memory_id,
        memories.c.position,
        memories.c.event_id,
        memories.c.author,
        memories.c.timestamp,
        memories.c.body,
        memories.c.digest,
    ).where(memories.c.kind == _TURN)


@cache
def select_summary() -> Select[Any]:
    """Reads a session's summary and its provenance. Parameters: app_name, user_id, session_id."""
    return select(*stored_columns(), memories.c.position, _provenance().label("provenance")).where(
        in_scope(memories), memories.c.session_id == _SESSION_ID, memories.c.kind == _SUMMARY
    )


@cache
def select_session_ids() -> Select[Any]:
    """Reads which sessions memories came from, in order. Parameters: app_name, user_id, memory_ids.

    Whoever erases or replaces what came from one holds the session's lock (`lock_session`)
    from an earlier statement on, and so sees what was drawn meanwhile from what is to go.
    """
    return (
        select(memories.c.session_id)
        .distinct()
        .where(in_scope(memories), memories.c.memory_id == func.any(_MEMORY_IDS))
        .order_by(memories.c.session_id)
    )


@cache
def lock_memories() -> Select[Any]:
    """Keeps memories from being changed or erased, to the transaction's end.

    By position, as all who lock several do. Parameters: app_name, user_id, memory_ids. Returns for
    each that is there its position, digest, and whether facts are still to be drawn from it.
    """
    waiting = exists(
        select(memory_jobs.c.position).where(
            memory_jobs.c.app_name == memories.c.app_name,
            memory_jobs.c.user_id == memories.c.user_id,
            memory_jobs.c.position == memories.c.position,
            memory_jobs.c.task == _EXTRACT,
        )
    )
    return (
        select(
            memories.c.memory_id,
            memories.c.position,
            memories.c.digest,
            waiting.label("waiting"),
        )
        .where(in_scope(memories), memories.c.memory_id == func.any(_MEMORY_IDS))
        .order_by(memories.c.position)
        .with_for_update()
    )


@cache
def insert_provenance() -> Insert:
    """Says what memories were drawn from; what is said already stays.

    Parameters: app_name, user_id, and in parallel arrays memory_ids, origin_ids.
    """
    given = given_rows(memory_ids=Text, origin_ids=Text)
    return (
        insert(memory_provenance)
        .from_select(
            ["app_name", "user_id", "memory_id", "origin_id"],
            select(
                _APP_NAME,
                bindparam("user_id", type_=Text),
                given.c.memory_ids,
                given.c.origin_ids,
            ),
        )
        .on_conflict_do_nothing()
    )


@cache
def supersede() -> Update:
    """Marks facts as superseded, as of now.

    Parameters: app_name, user_id, and in parallel arrays memory_ids, by_ids.
    """
    given = given_rows(memory_ids=Text, by_ids=Text)
    return (
        update(memories)
        .where(
            in_scope(memories),
            memories.c.memory_id == given.c.memory_ids,
            memories.c.kind == _FACT,
        )
        .values(superseded_by=given.c.by_ids, expires_at=func.now())
    )


@cache
def select_profile(*, asked: frozenset[str]) -> Select[Any]:
    """Reads a user's live facts, the most important and then the latest first.

    Parameters: app_name, user_id, limit, and those of `SearchFilters`.
    """
    return (
        select(*stored_columns())
        .where(in_scope(memories), memories.c.kind == _FACT, live(), *conditions(asked))
        .order_by(
            memories.c.importance.desc(), memories.c.timestamp.desc(), memories.c.position.desc()
        )
        .limit(bindparam("limit", type_=Integer))
    )


@cache
def select_provenance() -> Select[Any]:
    """Reads what memories were drawn from, by time, each with ``of_memory_id``.

    Parameters: app_name, user_id, memory_ids.
    """
    return (
        select(*stored_columns(), memory_provenance.c.memory_id.label("of_memory_id"))
        .join_from(
            memory_provenance,
            memories,
            and_(
                memories.c.memory_id == memory_provenance.c.origin_id,
                memories.c.app_name == memory_provenance.c.app_name,
                memories.c.user_id == memory_provenance.c.user_id,
            ),
        )
        .where(in_scope(memory_provenance), memory_provenance.c.memory_id == func.any(_MEMORY_IDS))
        .order_by(memories.c.timestamp, memories.c.position)
    )


@cache
def count_topics() -> Select[Any]:
    """Counts the live memories of each topic, most first. Parameters: app_name, user_id."""
    topic = (
        func.jsonb_array_elements_text(memories.c.topics)
        .table_valued(column("topic", Text), name="each")
        .render_derived()
    )
    return (
        select(topic.c.topic, func.count().label("memories"))
        .select_from(memories.join(topic, true()))
        .where(in_scope(memories), live())
        .group_by(topic.c.topic)
        .order_by(func.count().desc(), topic.c.topic)
    )


@cache
def select_history() -> Select[Any]:
    """Reads a fact, what replaced it, and what they replaced, in the order of their time.

    Parameters: app_name, user_id, memory_id.
    """
    chain = (
        select(memories.c.memory_id, memories.c.superseded_by)
        .where(in_scope(memories), memories.c.memory_id == _MEMORY_ID, memories.c.kind == _FACT)
        .cte("chain", recursive=True)
    )
    chain = chain.union(
        select(memories.c.memory_id, memories.c.superseded_by).where(
            in_scope(memories),
            memories.c.kind == _FACT,
            or_(
                memories.c.memory_id == chain.c.superseded_by,
                memories.c.superseded_by == chain.c.memory_id,
            ),
        )
    )
    return (
        select(*stored_columns())
        .where(in_scope(memories), memories.c.memory_id.in_(select(chain.c.memory_id)))
        .order_by(memories.c.timestamp, memories.c.position)
    )


@cache
def switch() -> Select[Any]:
    """Switches an app's extraction on or off; waiting work ends when it goes off.

    Parameters: app_name, on, past. Switched on with ``past``, the live turns that no fact was
    drawn from are put into the queue. Returns how many were; nothing happens if it was so already.
    """
    wanted = insert(app_settings).values(app_name=_APP_NAME, extract_facts=_ON)
    switched = (
        wanted.on_conflict_do_update(
            index_elements=[app_settings.c.app_name],
            set_={"extract_facts": wanted.excluded.extract_facts, "updated_at": func.now()},
            where=app_settings.c.extract_facts != wanted.excluded.extract_facts,
        )
        .returning(app_settings.c.app_name, app_settings.c.extract_facts)
        .cte("switched")
    )
    drawn_from = exists(
        select(memory_provenance.c.memory_id)
        .join_from(
            memory_provenance,
            _drawn,
            and_(
                _drawn.c.memory_id == memory_provenance.c.memory_id,
                _drawn.c.app_name == memory_provenance.c.app_name,
                _drawn.c.user_id == memory_provenance.c.user_id,
                _drawn.c.kind == _FACT,
            ),
        )
        .where(
            memory_provenance.c.origin_id == memories.c.memory_id,
            memory_provenance.c.app_name == memories.c.app_name,
            memory_provenance.c.user_id == memories.c.user_id,
        )
    )
    queued = (
        insert(memory_jobs)
        .from_select(
            ["app_name", "user_id", "position", "task"],
            select(memories.c.app_name, memories.c.user_id, memories.c.position, _EXTRACT).where(
                memories.c.app_name == _APP_NAME,
                memories.c.kind == _TURN,
                live(),
                ~drawn_from,
                bindparam("past", type_=Boolean),
                exists(select(switched.c.app_name).where(switched.c.extract_facts)),
            ),
        )
        .on_conflict_do_nothing()
        .returning(literal_column("1"))
        .cte("queued")
    )
    ended = _end_jobs(switched).cte("ended")
    return select(func.count().label("queued")).select_from(queued).add_cte(ended)


_drawn = memories.alias("drawn")


def _end_jobs(switched: Any) -> Delete:
    return delete(memory_jobs).where(
        memory_jobs.c.app_name == _APP_NAME,
        memory_jobs.c.task == _EXTRACT,
        exists(select(switched.c.app_name).where(~switched.c.extract_facts)),
    )
