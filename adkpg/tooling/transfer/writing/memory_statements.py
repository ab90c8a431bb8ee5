"""Statements that write memories of an export, and what belongs to them. No I/O."""

from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    table,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP, insert

from adkpg.keys import AppKey, ScopeKey, SessionKey
from adkpg.memory.vectors.statements import ModelKey, model_number
from adkpg.memory.write.statements import buried
from adkpg.sql import APP_NAME, SESSION_ID, USER_ID, Statement, given_rows, in_scope
from adkpg.tables import (
    app_settings,
    memories,
    memory_jobs,
    memory_provenance,
    memory_tombstones,
)

_TIME = TIMESTAMP(timezone=True)
_EVENT_ID = bindparam("event_id", type_=Text)


class IdsParameters(ScopeKey):
    """Memories by their ids."""

    memory_ids: list[str]


class PositionsParameters(ScopeKey):
    """Places."""

    positions: list[int]


class BarredParameters(IdsParameters):
    """Memories with their events, in parallel."""

    session_ids: list[str]
    event_ids: list[str]


class ExtrasParameters(IdsParameters):
    """What a writer of memories does not say, in parallel arrays."""

    created: list[datetime | None]
    superseded: list[str | None]
    extracted: list[datetime | None]


class OriginsParameters(IdsParameters):
    """Memories and what they were drawn from, in parallel."""

    origin_ids: list[str]


class EventParameters(SessionKey):
    """One event of a session."""

    event_id: str


class TombstoneParameters(EventParameters):
    """The mark of one event's memory."""

    needed_at: datetime


class SettingsParameters(AppKey):
    """Settings of an app."""

    text_search_config: str | None
    extract_facts: bool


class ModelParameters(AppKey, ModelKey):
    """The model that an app is searched with."""


@cache
def select_stored() -> Statement[IdsParameters]:
    """Reads where memories are, what they were made of, and their attributes as JSON text."""
    return Statement(
        select(
            memories.c.memory_id,
            memories.c.position,
            memories.c.digest,
            cast(memories.c.custom_metadata, Text).label("custom_metadata"),
            cast(memories.c.topics, Text).label("topics"),
            memories.c.importance,
            memories.c.expires_at,
        ).where(
            in_scope(memories),
            memories.c.memory_id == func.any(bindparam("memory_ids", type_=ARRAY(Text))),
        )
    )


@cache
def select_taken() -> Statement[PositionsParameters]:
    """Reads which of some places are taken."""
    return Statement(
        select(memories.c.position).where(
            in_scope(memories),
            memories.c.position == func.any(bindparam("positions", type_=ARRAY(BigInteger))),
        )
    )


@cache
def select_barred() -> Statement[BarredParameters]:
    """Reads those of some events that have a mark, or another memory than the given one.

    Returns session_id, event_id.
    """
    given = given_rows(session_ids=Text, event_ids=Text, memory_ids=Text)
    marked = exists(
        select(memory_tombstones.c.event_id).where(
            in_scope(memory_tombstones),
            memory_tombstones.c.session_id == given.c.session_ids,
            memory_tombstones.c.event_id == given.c.event_ids,
        )
    )
    remembered = exists(
        select(memories.c.memory_id).where(
            in_scope(memories),
            memories.c.session_id == given.c.session_ids,
            memories.c.event_id == given.c.event_ids,
            memories.c.memory_id != given.c.memory_ids,
        )
    )
    return Statement(
        select(given.c.session_ids.label("session_id"), given.c.event_ids.label("event_id")).where(
            or_(marked, remembered)
        )
    )


@cache
def complete_memories() -> Statement[ExtrasParameters]:
    """Gives memories what their writer does not say; facts are not drawn again where they were."""
    given = given_rows(memory_ids=Text, created=_TIME, superseded=Text, extracted=_TIME)
    own = and_(in_scope(memories), memories.c.memory_id == given.c.memory_ids)
    completed = (
        update(memories)
        .where(own)
        .values(
            created_at=func.coalesce(given.c.created, memories.c.created_at),
            superseded_by=given.c.superseded,
            extracted_at=given.c.extracted,
        )
        .returning(memories.c.position, memories.c.extracted_at)
        .cte("completed")
    )
    return Statement(
        delete(memory_jobs).where(
            in_scope(memory_jobs),
            memory_jobs.c.task == literal_column("'extract'"),
            memory_jobs.c.position == completed.c.position,
            completed.c.extracted_at.is_not(None),
        )
    )


@cache
def insert_origins() -> Statement[OriginsParameters]:
    """Writes what memories were drawn from, where both are stored."""
    given = given_rows(memory_ids=Text, origin_ids=Text)
    drawn, origin = memories.alias("drawn"), memories.alias("origin")
    rows: Any = (
        select(drawn.c.app_name, drawn.c.user_id, given.c.memory_ids, given.c.origin_ids)
        .select_from(given)
        .join(drawn, and_(in_scope(drawn), drawn.c.memory_id == given.c.memory_ids))
        .join(origin, and_(in_scope(origin), origin.c.memory_id == given.c.origin_ids))
    )
    return Statement(
        insert(memory_provenance)
        .from_select(["app_name", "user_id", "memory_id", "origin_id"], rows)
        .on_conflict_do_nothing()
    )


@cache
def bury_event() -> Statement[EventParameters]:
    """Erases the memory of an event for good, with what was drawn from it."""
    its: ColumnElement[bool] = and_(
        memories.c.session_id == SESSION_ID, memories.c.event_id == _EVENT_ID
    )
    return Statement(buried(its))


@cache
def insert_tombstone() -> Statement[TombstoneParameters]:
    """Writes the mark of a deleted memory, or keeps the later of two times of it."""
    statement = insert(memory_tombstones).values(
        app_name=APP_NAME,
        user_id=USER_ID,
        session_id=SESSION_ID,
        event_id=_EVENT_ID,
        needed_at=bindparam("needed_at", type_=_TIME),
    )
    later = func.greatest(memory_tombstones.c.needed_at, statement.excluded.needed_at)
    return Statement(
        statement.on_conflict_do_update(
            index_elements=["app_name", "user_id", "session_id", "event_id"],
            set_={"needed_at": later},
        )
    )


@cache
def settle_app() -> Statement[SettingsParameters]:
    """Gives an app settings that it has none of; says as ``known`` whether Postgres can have them.

    Words are not derived again, so an app whose memories have words by another rule keeps it.
    """
    config = bindparam("text_search_config", type_=Text)
    configs = table("pg_ts_config", column("cfgname", Text))
    known = or_(
        config.is_(None),
        exists(select(literal_column("1")).select_from(configs).where(configs.c.cfgname == config)),
    )
    has_memories = exists(select(memories.c.memory_id).where(memories.c.app_name == APP_NAME))
    statement = insert(app_settings).from_select(
        ["app_name", "text_search_config", "extract_facts"],
        select(
            APP_NAME,
            case((and_(known, ~has_memories), config)),
            cast(bindparam("extract_facts", type_=Boolean), Boolean),
        ),
    )
    settled = statement.on_conflict_do_nothing().returning(app_settings.c.app_name).cte("settled")
    return Statement(select(known.label("known")).add_cte(settled))


@cache
def activate_model() -> Statement[ModelParameters]:
    """Makes a model the active one of an app that has none."""
    return Statement(
        update(app_settings)
        .where(app_settings.c.app_name == APP_NAME, app_settings.c.model_id.is_(None))
        .values(model_id=model_number().scalar_subquery())
    )
