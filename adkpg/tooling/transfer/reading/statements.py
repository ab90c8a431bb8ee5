"""Queries of what an app, a user or a session has, in pages by key; their SQL is in statements.sql.

Those ``of_app`` are about everybody of an app, and those ``of_user`` about one user, or about one
session if `session_id` is not null. A page comes after a key.
"""

from datetime import datetime
from typing import TypedDict

from adkpg.memory.records import StoredMemory
from adkpg.queries import Queries, Query

_sql = Queries(__file__)


class Settings(TypedDict):
    """An app's settings; `model` and `dimensions` are null if no model is active."""

    text_search_config: str | None
    extract_facts: bool
    model: str | None
    dimensions: int | None


class State(TypedDict):
    """A state as JSON text, and when it changed."""

    state: str
    updated_at: datetime


class UserState(State):
    """A user's state."""

    user_id: str


class Tombstone(TypedDict):
    """The mark of a deleted memory."""

    user_id: str
    session_id: str
    event_id: str
    needed_at: datetime


class StoredSession(TypedDict):
    """A session; its states are JSON text."""

    user_id: str
    session_id: str
    state: str
    revision: int
    created_at: datetime
    updated_at: datetime
    memory_position: int | None
    initial_state: str | None
    ttl_s: float | None
    expires_at: datetime | None


class StoredEvent(TypedDict):
    """An event, its payload as JSON text."""

    user_id: str
    session_id: str
    seq: int
    payload: str


class PlacedMemory(StoredMemory):
    """A memory with its place and all that a writer gives; its content is never null."""

    user_id: str
    position: int
    invocation_id: str | None
    digest: str
    created_at: datetime
    extracted_at: datetime | None


class StoredArtifact(TypedDict):
    """A version of a file, without its bytes; JSON is text."""

    user_id: str
    session_id: str
    name: str
    version: int
    artifact_id: str
    part: str
    mime_type: str | None
    custom_metadata: str
    size: int
    location: str | None
    created_at: datetime


class Origin(TypedDict):
    """A memory, and one that it was drawn from."""

    memory_id: str
    origin_id: str


@_sql.query()
def select_settings(*, app_name: str) -> Query[Settings]:
    """Reads an app's settings."""


@_sql.query()
def select_app_state(*, app_name: str) -> Query[State]:
    """Reads an app's state."""


@_sql.query()
def select_user_states(*, app_name: str, first_user: str, limit: int) -> Query[UserState]:
    """Reads the states of an app's users from a user on, by user; a user's id may be empty."""


@_sql.query()
def select_user_state(*, app_name: str, user_id: str) -> Query[UserState]:
    """Reads the state of one user."""


@_sql.query()
def select_tombstones_of_app(
    *, app_name: str, after_user: str, after_session: str, after_event: str, limit: int
) -> Query[Tombstone]:
    """Reads marks of deleted memories of an app."""


@_sql.query()
def select_tombstones_of_user(
    *,
    app_name: str,
    user_id: str,
    session_id: str | None,
    after_user: str,
    after_session: str,
    after_event: str,
    limit: int,
) -> Query[Tombstone]:
    """Reads marks of deleted memories of a user or a session."""


@_sql.query()
def select_sessions_of_app(
    *, app_name: str, after_user: str, after_session: str, limit: int
) -> Query[StoredSession]:
    """Reads an app's sessions."""


@_sql.query()
def select_sessions_of_user(
    *,
    app_name: str,
    user_id: str,
    session_id: str | None,
    after_user: str,
    after_session: str,
    limit: int,
) -> Query[StoredSession]:
    """Reads a user's sessions, or one of them."""


@_sql.query()
def select_events(
    *,
    app_name: str,
    after_user: str,
    after_session: str,
    after_seq: int,
    last_user: str,
    last_session: str,
    limit: int,
) -> Query[StoredEvent]:
    """Reads events of the sessions up to one, after an event of the first of them."""


@_sql.query()
def select_memories_of_app(
    *, app_name: str, derived: bool, after_user: str, after_position: int, limit: int
) -> Query[PlacedMemory]:
    """Reads an app's memories: what was said and written, or what was drawn from it (`derived`)."""


@_sql.query()
def select_memories_of_user(
    *,
    app_name: str,
    user_id: str,
    session_id: str | None,
    derived: bool,
    after_user: str,
    after_position: int,
    limit: int,
) -> Query[PlacedMemory]:
    """Reads a user's memories: what was said and written, or what was drawn from it (`derived`).

    Of a session come its own, and what was drawn from them.
    """


@_sql.query()
def select_artifacts_of_app(
    *,
    app_name: str,
    after_user: str,
    after_session: str,
    after_name: str,
    after_version: int,
    limit: int,
) -> Query[StoredArtifact]:
    """Reads versions of an app's files."""


@_sql.query()
def select_artifacts_of_user(
    *,
    app_name: str,
    user_id: str,
    session_id: str | None,
    after_user: str,
    after_session: str,
    after_name: str,
    after_version: int,
    limit: int,
) -> Query[StoredArtifact]:
    """Reads versions of a user's or a session's files."""


@_sql.query()
def select_origins(*, app_name: str, user_id: str, memory_ids: list[str]) -> Query[Origin]:
    """Reads what memories of a user were drawn from, by memory and origin."""
