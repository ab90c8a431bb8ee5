"""Statements of facts, their provenance, and the queue of turns to read. No I/O."""

from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    column,
    delete,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP, aggregate_order_by, distinct_on, insert

from adkpg.keys import AppKey, ScopeKey, SessionKey
from adkpg.memory.write.statements import IdsParameters, MemoryParameters
from adkpg.sql import (
    APP_NAME,
    SESSION_ID,
    USER_ID,
    Statement,
    given_rows,
    in_scope,
    live,
    stored_columns,
)
from adkpg.tables import app_settings, memories, memory_jobs, memory_lexemes, memory_provenance

_MEMORY_ID = bindparam("memory_id", type_=Text)
_MEMORY_IDS = bindparam("memory_ids", type_=ARRAY(Text))
_LIMIT = bindparam("limit", type_=Integer)
_FACT: ColumnElement[str] = literal_column("'fact'")
_SUMMARY: ColumnElement[str] = literal_column("'summary'")
_TURN: ColumnElement[str] = literal_column("'turn'")
_RARE = 3  # of a user's turns at most have a word that tells where it came from
_EXTRACT: ColumnElement[str] = literal_column("'extract'")


class KnownParameters(ScopeKey):
    """Facts by their ids, None being all, at most `limit`."""

    memory_ids: list[str] | None
    limit: int


class MergeParameters(ScopeKey):
    """Past facts count if they are as new as `since`, or ended in the last `within_s` seconds."""

    since: datetime
    within_s: float


class TurnsParameters(SessionKey):
    """Positions of turns, and how many before each."""

    positions: list[int]
    reach: int


class RelatedParameters(IdsParameters):
    """Memories, and the others that they are to be related to."""

    related_ids: list[str]


class AppJobsParameters(AppKey):
    """At most `limit` of an app's jobs."""

    limit: int


class QueueParameters(AppJobsParameters):
    """Those after a place."""

    after_user_id: str
    after_position: int


def _joined(derived: Any, memory: Any, *, by: str) -> ColumnElement[bool]:
    """Whether rows of provenance are of a fact (by memory_id), or of what it was drawn from."""
    return and_(
        derived.c[by] == memory.c.memory_id,
        derived.c.app_name == memory.c.app_name,
        derived.c.user_id == memory.c.user_id,
    )


def _provenance() -> Any:
    """The ids of a memory's provenance, as an array."""
    ids = memory_provenance.c.origin_id
    return (
        select(func.coalesce(func.array_agg(aggregate_order_by(ids, ids)), cast([], ARRAY(Text))))
        .where(_joined(memory_provenance, memories, by="memory_id"))
        .scalar_subquery()
    )


def _facts(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Facts of a user, by time."""
    return (
        select(
            memories.c.memory_id,
            memories.c.position,
            memories.c.body,
            cast(memories.c.topics, Text).label("topics"),
            memories.c.importance,
            memories.c.timestamp,
            memories.c.superseded_by,
            memories.c.expires_at,
            _is_live().label("live"),
            _provenance().label("provenance"),
        )
        .where(in_scope(memories), memories.c.kind == _FACT, *conditions)
        .order_by(memories.c.timestamp, memories.c.position)
    )


def _is_live() -> ColumnElement[bool]:
    # A transaction that waited has a now() before what it waited for.
    return and_(live(), memories.c.superseded_by.is_(None))


@cache
def select_known() -> Statement[KnownParameters]:
    """Reads live facts of a user, by time."""
    named = or_(_MEMORY_IDS.is_(None), memories.c.memory_id == func.any(_MEMORY_IDS))
    return Statement(_facts(_is_live(), named).limit(_LIMIT))


@cache
def select_to_merge() -> Statement[MergeParameters]:
    """Reads a user's live facts, and those past ones that new ones could repeat, by time."""
    since = bindparam("since", type_=TIMESTAMP(timezone=True))
    just_now = func.now() - func.make_interval(
        0, 0, 0, 0, 0, 0, bindparam("within_s", type_=Double)
    )
    return Statement(
        _facts(or_(_is_live(), memories.c.timestamp >= since, memories.c.expires_at >= just_now))
    )


@cache
def select_turns(*, near: bool) -> Statement[TurnsParameters]:
    """Reads the live turns of one session, by position.

    Args:
      near: Those at some positions, and `reach` before each; else all.
    """
    asked = given_rows(positions=BigInteger)
    before = exists(
        select(asked.c.positions).where(
            memories.c.position <= asked.c.positions,
            memories.c.position >= asked.c.positions - bindparam("reach", type_=Integer),
        )
    )
    return Statement(
        select(
            memories.c.memory_id,
            memories.c.position,
            memories.c.event_id,
            memories.c.author,
            memories.c.timestamp,
            memories.c.body,
            memories.c.digest,
        )
        .where(
            in_scope(memories),
            memories.c.session_id == SESSION_ID,
            memories.c.kind == _TURN,
            live(),
            *([before] if near else []),
        )
        .order_by(memories.c.position)
    )


@cache
def select_summary() -> Statement[SessionKey]:
    """Reads a session's summary and its provenance."""
    return Statement(
        select(*stored_columns(), memories.c.position, _provenance().label("provenance")).where(
            in_scope(memories), memories.c.session_id == SESSION_ID, memories.c.kind == _SUMMARY
        )
    )


@cache
def select_session_ids() -> Statement[IdsParameters]:
    """Reads which sessions memories came from, in order.

    A writer that erases or replaces memories of one holds the session's lock (`lock_session`) from
    an earlier statement on, and so sees the facts that were drawn from them meanwhile.
    """
    return Statement(
        select(memories.c.session_id)
        .distinct()
        .where(in_scope(memories), memories.c.memory_id == func.any(_MEMORY_IDS))
        .order_by(memories.c.session_id)
    )


@cache
def lock_memories() -> Statement[IdsParameters]:
    """Keeps memories from being changed or erased, to the transaction's end.

    By position, as all who lock several do. Returns for each that is there its position, digest,
    and whether facts are still to be drawn from it.
    """
    waiting = exists(
        select(memory_jobs.c.position).where(
            memory_jobs.c.app_name == memories.c.app_name,
            memory_jobs.c.user_id == memories.c.user_id,
            memory_jobs.c.position == memories.c.position,
            memory_jobs.c.task == _EXTRACT,
        )
    )
    return Statement(
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
def mark_extracted() -> Statement[IdsParameters]:
    """Says that facts were drawn from turns, so that nobody reads them again."""
    return Statement(
        update(memories)
        .where(in_scope(memories), memories.c.memory_id == func.any(_MEMORY_IDS))
        .values(extracted_at=func.now())
    )


@cache
def insert_provenance() -> Statement[RelatedParameters]:
    """Adds provenance to memories, over what they have; both arrays are parallel."""
    given = given_rows(memory_ids=Text, related_ids=Text)
    return Statement(
        insert(memory_provenance)
        .from_select(
            ["app_name", "user_id", "memory_id", "origin_id"],
            select(APP_NAME, USER_ID, given.c.memory_ids, given.c.related_ids),
        )
        .on_conflict_do_nothing()
    )


@cache
def insert_repeated() -> Statement[RelatedParameters]:
    """Adds to facts' provenance turns whose words they repeat without having named them.

    So erasing the turn that told a name or a number leaves it in no fact. A word counts if none of
    the named turns has it and at most three turns of the user do; the latest of those joins.

    ``memory_ids`` are facts that are written, ``related_ids`` the turns that they may repeat.
    """
    fact, turn, named, other = (memories.alias(each) for each in ("fact", "turn", "named", "other"))
    told, said, explained, held = (
        memory_lexemes.alias(each) for each in ("told", "said", "explained", "held")
    )

    def words(lexemes: Any, memory: Any) -> ColumnElement[bool]:
        return and_(
            in_scope(lexemes), lexemes.c.position == memory.c.position, lexemes.c.frequency > 0
        )

    # Each read once: as one join, a user new to the server's statistics takes minutes.
    known = (
        select(memory_provenance.c.memory_id, explained.c.lexeme)
        .join_from(memory_provenance, named, _joined(memory_provenance, named, by="origin_id"))
        .join(explained, words(explained, named))
        .where(in_scope(memory_provenance), memory_provenance.c.memory_id == func.any(_MEMORY_IDS))
        .cte("known")
        .prefix_with("MATERIALIZED")
    )
    tells = (
        select(fact.c.app_name, fact.c.user_id, fact.c.memory_id, told.c.lexeme)
        .join_from(fact, told, words(told, fact))
        .where(in_scope(fact), fact.c.memory_id == func.any(_MEMORY_IDS))
        .cte("tells")
        .prefix_with("MATERIALIZED")
    )
    given = bindparam("related_ids", type_=ARRAY(Text))
    says = (
        select(turn.c.memory_id, turn.c.timestamp, turn.c.position, said.c.lexeme)
        .join_from(turn, said, words(said, turn))
        .where(in_scope(turn), turn.c.memory_id == func.any(given))
        .cte("says")
        .prefix_with("MATERIALIZED")
    )
    is_named = exists(
        select(known.c.lexeme).where(
            known.c.memory_id == tells.c.memory_id, known.c.lexeme == tells.c.lexeme
        )
    )
    is_common = exists(
        select(other.c.position)
        .join_from(other, held, words(held, other))
        .where(in_scope(other), other.c.kind == _TURN, held.c.lexeme == tells.c.lexeme)
        .offset(_RARE)
    )
    repeated = (
        select(tells.c.app_name, tells.c.user_id, tells.c.memory_id, says.c.memory_id)
        .ext(distinct_on(tells.c.memory_id, tells.c.lexeme))
        .join_from(tells, says, says.c.lexeme == tells.c.lexeme)
        .where(~is_named, ~is_common)
        .order_by(
            tells.c.memory_id, tells.c.lexeme, says.c.timestamp.desc(), says.c.position.desc()
        )
        .cte("repeated")
    )
    return Statement(
        insert(memory_provenance)
        .from_select(
            ["app_name", "user_id", "memory_id", "origin_id"],
            select(*repeated.c),
        )
        .on_conflict_do_nothing()
    )


@cache
def end_with_provenance() -> Statement[IdsParameters]:
    """Ends facts and summaries when the first memory of their provenance ends.

    One of their own that was to end sooner keeps its end.
    """
    origins = memories.alias("origins")
    first = (
        select(func.min(origins.c.expires_at))
        .select_from(origins)
        .join(memory_provenance, _joined(memory_provenance, origins, by="origin_id"))
        .where(_joined(memory_provenance, memories, by="memory_id"))
        .scalar_subquery()
    )
    return Statement(
        update(memories)
        .where(
            in_scope(memories),
            memories.c.memory_id == func.any(_MEMORY_IDS),
            memories.c.superseded_by.is_(None),
        )
        .values(expires_at=func.least(memories.c.expires_at, first))
    )


@cache
def supersede() -> Statement[RelatedParameters]:
    """Marks facts as superseded by others, in parallel, as of now."""
    given = given_rows(memory_ids=Text, related_ids=Text)
    return Statement(
        update(memories)
        .where(
            in_scope(memories),
            memories.c.memory_id == given.c.memory_ids,
            memories.c.kind == _FACT,
        )
        .values(superseded_by=given.c.related_ids, expires_at=func.now())
    )


@cache
def select_provenance() -> Statement[IdsParameters]:
    """Reads the provenance of memories, by time, each row with ``of_memory_id``."""
    return Statement(
        select(*stored_columns(), memory_provenance.c.memory_id.label("of_memory_id"))
        .join_from(
            memory_provenance, memories, _joined(memory_provenance, memories, by="origin_id")
        )
        .where(in_scope(memory_provenance), memory_provenance.c.memory_id == func.any(_MEMORY_IDS))
        .order_by(memories.c.timestamp, memories.c.position)
    )


@cache
def count_topics() -> Statement[ScopeKey]:
    """Counts the live memories of each topic, most first."""
    topic = (
        func.jsonb_array_elements_text(memories.c.topics)
        .table_valued(column("topic", Text), name="each")
        .render_derived()
    )
    return Statement(
        select(topic.c.topic, func.count().label("memories"))
        .select_from(memories.join(topic, true()))
        .where(in_scope(memories), live())
        .group_by(topic.c.topic)
        .order_by(func.count().desc(), topic.c.topic)
    )


@cache
def select_history() -> Statement[MemoryParameters]:
    """Reads a fact, what replaced it, and what they replaced, in the order of their time."""
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
    return Statement(
        select(*stored_columns())
        .where(in_scope(memories), memories.c.memory_id.in_(select(chain.c.memory_id)))
        .order_by(memories.c.timestamp, memories.c.position)
    )


@cache
def switch(*, on: bool) -> Statement[AppKey]:
    """Switches an app's extraction on or off."""
    wanted = insert(app_settings).values(app_name=APP_NAME, extract_facts=literal(on))
    return Statement(
        wanted.on_conflict_do_update(
            index_elements=[app_settings.c.app_name],
            set_={
                "extract_facts": wanted.excluded.extract_facts,
                "updated_at": wanted.excluded.updated_at,
            },
            where=app_settings.c.extract_facts != wanted.excluded.extract_facts,
        )
    )


@cache
def queue_unread() -> Statement[QueueParameters]:
    """Puts turns that nobody drew facts from into the queue, by place; nothing if it is off.

    Returns the user_id and position of each, and whether it is ``new`` to the queue.
    """
    # Switching it off waits for this, and then ends these jobs too.
    wanted = (
        select(app_settings.c.app_name)
        .where(app_settings.c.app_name == APP_NAME, app_settings.c.extract_facts)
        .with_for_update(read=True)
        .cte("wanted")
    )
    place = tuple_(memories.c.user_id, memories.c.position)
    after = tuple_(
        bindparam("after_user_id", type_=Text), bindparam("after_position", type_=BigInteger)
    )
    unread = (
        select(memories.c.app_name, memories.c.user_id, memories.c.position)
        .where(
            memories.c.app_name == APP_NAME,
            memories.c.kind == _TURN,
            memories.c.extracted_at.is_(None),
            live(),
            place > after,
            exists(select(wanted.c.app_name)),
        )
        .order_by(memories.c.user_id, memories.c.position)
        .limit(_LIMIT)
        .cte("unread")
    )
    queued = (
        insert(memory_jobs)
        .from_select(["app_name", "user_id", "position", "task"], select(unread, _EXTRACT))
        .on_conflict_do_nothing()
        .returning(memory_jobs.c.user_id, memory_jobs.c.position)
        .cte("queued")
    )
    return Statement(
        select(unread.c.user_id, unread.c.position, queued.c.position.is_not(None).label("new"))
        .select_from(
            unread.outerjoin(
                queued,
                and_(queued.c.user_id == unread.c.user_id, queued.c.position == unread.c.position),
            )
        )
        .order_by(unread.c.user_id, unread.c.position)
    )


@cache
def end_waiting() -> Statement[AppJobsParameters]:
    """Ends an app's waiting extraction, unless it was switched on again; returns what it ended."""
    key = (
        memory_jobs.c.app_name,
        memory_jobs.c.user_id,
        memory_jobs.c.position,
        memory_jobs.c.task,
    )
    wanted = select(app_settings.c.app_name).where(
        app_settings.c.app_name == APP_NAME, app_settings.c.extract_facts
    )
    chosen = (
        select(*key)
        .where(memory_jobs.c.app_name == APP_NAME, memory_jobs.c.task == _EXTRACT, ~exists(wanted))
        .limit(_LIMIT)
    )
    return Statement(delete(memory_jobs).where(tuple_(*key).in_(chosen)).returning(*key))
