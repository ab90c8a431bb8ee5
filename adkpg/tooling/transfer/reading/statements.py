"""Statements that read what an app, a user or a session has, in pages by key. No I/O."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Integer,
    Text,
    and_,
    bindparam,
    cast,
    exists,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY

from adkpg.keys import AppKey, ScopeKey
from adkpg.memory.drafts import COLUMNS
from adkpg.sql import APP_NAME, SESSION_ID, USER_ID, Statement, stored_content
from adkpg.tables import (
    app_settings,
    app_states,
    artifacts,
    embedding_models,
    events,
    memories,
    memory_provenance,
    memory_tombstones,
    sessions,
    user_states,
)

_LIMIT = bindparam("limit", type_=Integer)
_AFTER_USER = bindparam("after_user", type_=Text)
_AFTER_SESSION = bindparam("after_session", type_=Text)


class UsersPageParameters(AppKey):
    """A page of an app's rows, or of one user's; null if not asked for."""

    user_id: str | None
    after_user: str
    limit: int


class PageParameters(UsersPageParameters):
    """A page of an app's rows, or of one user's or session's; both are null if not asked for."""

    session_id: str | None


class SessionsPageParameters(PageParameters):
    """Sessions after one."""

    after_session: str


class TombstonesPageParameters(SessionsPageParameters):
    """Marks after one."""

    after_event: str


class EventsPageParameters(AppKey):
    """Events of the sessions up to one, after an event of the first of them."""

    after_user: str
    after_session: str
    after_seq: int
    last_user: str
    last_session: str
    limit: int


class MemoriesPageParameters(PageParameters):
    """Memories after a place."""

    after_position: int


class OriginsParameters(ScopeKey):
    """Memories of a user."""

    memory_ids: list[str]


def _of(table: Any, *, user: bool, session: bool = False) -> list[ColumnElement[bool]]:
    conditions = [table.c.app_name == APP_NAME]
    if user:
        conditions.append(table.c.user_id == USER_ID)
    if session:
        conditions.append(table.c.session_id == SESSION_ID)
    return conditions


@cache
def select_settings() -> Statement[AppKey]:
    """Reads an app's settings: text_search_config, extract_facts, model, dimensions."""
    return Statement(
        select(
            app_settings.c.text_search_config,
            app_settings.c.extract_facts,
            embedding_models.c.name.label("model"),
            embedding_models.c.dimensions,
        )
        .select_from(
            app_settings.outerjoin(
                embedding_models, embedding_models.c.model_id == app_settings.c.model_id
            )
        )
        .where(app_settings.c.app_name == APP_NAME)
    )


@cache
def select_app_state() -> Statement[AppKey]:
    """Reads an app's state as JSON text, and when it changed."""
    state = cast(app_states.c.state, Text).label("state")
    return Statement(
        select(state, app_states.c.updated_at).where(app_states.c.app_name == APP_NAME)
    )


@cache
def select_user_states(*, user: bool, first: bool) -> Statement[UsersPageParameters]:
    """Reads the states of users: user_id, state (JSON text), updated_at.

    The first page has the user whose id is empty, too.
    """
    after = [] if first else [user_states.c.user_id > _AFTER_USER]
    return Statement(
        select(
            user_states.c.user_id,
            cast(user_states.c.state, Text).label("state"),
            user_states.c.updated_at,
        )
        .where(*_of(user_states, user=user), *after)
        .order_by(user_states.c.user_id)
        .limit(_LIMIT)
    )


@cache
def select_tombstones(*, user: bool, session: bool) -> Statement[TombstonesPageParameters]:
    """Reads marks of deleted memories: user_id, session_id, event_id, needed_at."""
    key = (
        memory_tombstones.c.user_id,
        memory_tombstones.c.session_id,
        memory_tombstones.c.event_id,
    )
    after = tuple_(_AFTER_USER, _AFTER_SESSION, bindparam("after_event", type_=Text))
    return Statement(
        select(*key, memory_tombstones.c.needed_at)
        .where(*_of(memory_tombstones, user=user, session=session), tuple_(*key) > after)
        .order_by(*key)
        .limit(_LIMIT)
    )


@cache
def select_sessions(*, user: bool, session: bool) -> Statement[SessionsPageParameters]:
    """Reads sessions; their states are JSON text."""
    key = (sessions.c.user_id, sessions.c.session_id)
    return Statement(
        select(
            *key,
            cast(sessions.c.state, Text).label("state"),
            sessions.c.revision,
            sessions.c.created_at,
            sessions.c.updated_at,
            sessions.c.memory_position,
            cast(sessions.c.initial_state, Text).label("initial_state"),
            cast(func.extract("epoch", sessions.c.ttl), Double).label("ttl_s"),
            sessions.c.expires_at,
        )
        .where(
            *_of(sessions, user=user, session=session),
            tuple_(*key) > tuple_(_AFTER_USER, _AFTER_SESSION),
        )
        .order_by(*key)
        .limit(_LIMIT)
    )


@cache
def select_events() -> Statement[EventsPageParameters]:
    """Reads events of consecutive sessions: user_id, session_id, seq, payload (JSON text)."""
    key = (events.c.user_id, events.c.session_id, events.c.seq)
    after = tuple_(_AFTER_USER, _AFTER_SESSION, bindparam("after_seq", type_=BigInteger))
    last = tuple_(bindparam("last_user", type_=Text), bindparam("last_session", type_=Text))
    return Statement(
        select(*key, cast(events.c.payload, Text).label("payload"))
        .where(
            events.c.app_name == APP_NAME,
            tuple_(*key) > after,
            tuple_(events.c.user_id, events.c.session_id) <= last,
        )
        .order_by(*key)
        .limit(_LIMIT)
    )


@cache
def select_memories(
    *, derived: bool, user: bool, session: bool
) -> Statement[MemoriesPageParameters]:
    """Reads memories: what was said and written, or with `derived` what was drawn from it.

    Of a session come its own, and what was drawn from them.
    """
    key = (memories.c.user_id, memories.c.position)
    after = tuple_(_AFTER_USER, bindparam("after_position", type_=BigInteger))
    kinds = memories.c.kind.in_([literal_column("'fact'"), literal_column("'summary'")])
    conditions = [*_of(memories, user=user), kinds if derived else ~kinds]
    if session:
        own = memories.c.session_id == SESSION_ID
        conditions.append(or_(own, _drawn_from_session()) if derived else own)
    columns = [
        stored_content().label(name)
        if name == "content"
        else cast(memories.c[name], Text).label(name)
        if name in ("custom_metadata", "artifacts", "topics")
        else memories.c[name]
        for name in COLUMNS
    ]
    return Statement(
        select(
            *key,
            *columns,
            memories.c.created_at,
            memories.c.superseded_by,
            memories.c.extracted_at,
        )
        .where(*conditions, tuple_(*key) > after)
        .order_by(*key)
        .limit(_LIMIT)
    )


def _drawn_from_session() -> ColumnElement[bool]:
    origin = memories.alias("origin")
    same = and_(
        origin.c.app_name == memory_provenance.c.app_name,
        origin.c.user_id == memory_provenance.c.user_id,
        origin.c.memory_id == memory_provenance.c.origin_id,
    )
    return exists(
        select(memory_provenance.c.origin_id)
        .join_from(memory_provenance, origin, same)
        .where(
            memory_provenance.c.app_name == memories.c.app_name,
            memory_provenance.c.user_id == memories.c.user_id,
            memory_provenance.c.memory_id == memories.c.memory_id,
            origin.c.session_id == SESSION_ID,
        )
        .correlate(memories)
    )


class ArtifactsPageParameters(SessionsPageParameters):
    """Versions of files after one."""

    after_name: str
    after_version: int


@cache
def select_artifacts(*, user: bool, session: bool) -> Statement[ArtifactsPageParameters]:
    """Reads versions of files, without their bytes; JSON as text."""
    key = (artifacts.c.user_id, artifacts.c.session_id, artifacts.c.name, artifacts.c.version)
    after = tuple_(
        _AFTER_USER,
        _AFTER_SESSION,
        bindparam("after_name", type_=Text),
        bindparam("after_version", type_=Integer),
    )
    return Statement(
        select(
            *key,
            cast(artifacts.c.artifact_id, Text).label("artifact_id"),
            cast(artifacts.c.part, Text).label("part"),
            artifacts.c.mime_type,
            cast(artifacts.c.custom_metadata, Text).label("custom_metadata"),
            artifacts.c.size,
            artifacts.c.location,
            artifacts.c.created_at,
        )
        .where(*_of(artifacts, user=user, session=session), tuple_(*key) > after)
        .order_by(*key)
        .limit(_LIMIT)
    )


@cache
def select_origins() -> Statement[OriginsParameters]:
    """Reads what memories were drawn from: memory_id, origin_id."""
    return Statement(
        select(memory_provenance.c.memory_id, memory_provenance.c.origin_id)
        .where(
            memory_provenance.c.app_name == APP_NAME,
            memory_provenance.c.user_id == USER_ID,
            memory_provenance.c.memory_id == func.any(bindparam("memory_ids", type_=ARRAY(Text))),
        )
        .order_by(memory_provenance.c.memory_id, memory_provenance.c.origin_id)
    )
