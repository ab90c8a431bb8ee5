"""Statements on the tables of ADK's schema v1, as ADK's own models have them. No I/O."""

from collections.abc import Sequence
from typing import Any

from google.adk.sessions.schemas import v1
from sqlalchemy import Insert, Select, Update, insert, select, update

_APPS: Any = v1.StorageAppState.__table__
_USERS: Any = v1.StorageUserState.__table__
_SESSIONS: Any = v1.StorageSession.__table__
_EVENTS: Any = v1.StorageEvent.__table__


def select_app_state(app_name: str) -> Select[Any]:
    """Reads the state of an app."""
    return select(_APPS.c.state).where(_APPS.c.app_name == app_name)


def select_user_state(app_name: str, user_id: str) -> Select[Any]:
    """Reads the state of a user."""
    return select(_USERS.c.state).where(_USERS.c.app_name == app_name, _USERS.c.user_id == user_id)


def insert_app_state() -> Insert:
    """Writes the state of an app that has none."""
    return insert(_APPS)


def insert_user_state() -> Insert:
    """Writes the state of a user who has none."""
    return insert(_USERS)


def update_app_state(app_name: str) -> Update:
    """Changes the state of an app."""
    return update(_APPS).where(_APPS.c.app_name == app_name)


def update_user_state(app_name: str, user_id: str) -> Update:
    """Changes the state of a user."""
    return update(_USERS).where(_USERS.c.app_name == app_name, _USERS.c.user_id == user_id)


def _session(app_name: str, user_id: str, session_id: str) -> tuple[Any, ...]:
    return (
        _SESSIONS.c.app_name == app_name,
        _SESSIONS.c.user_id == user_id,
        _SESSIONS.c.id == session_id,
    )


def select_session(app_name: str, user_id: str, session_id: str) -> Select[Any]:
    """Reads when a session was updated; no row if there is none."""
    return select(_SESSIONS.c.update_time).where(*_session(app_name, user_id, session_id))


def insert_session() -> Insert:
    """Writes a session that is not there."""
    return insert(_SESSIONS)


def update_session(app_name: str, user_id: str, session_id: str) -> Update:
    """Changes a session."""
    return update(_SESSIONS).where(*_session(app_name, user_id, session_id))


def select_known(
    app_name: str, user_id: str, session_id: str, event_ids: Sequence[str]
) -> Select[Any]:
    """Reads which of some events a session has."""
    return select(_EVENTS.c.id).where(
        _EVENTS.c.id.in_(event_ids),
        _EVENTS.c.app_name == app_name,
        _EVENTS.c.user_id == user_id,
        _EVENTS.c.session_id == session_id,
    )


def insert_events() -> Insert:
    """Writes events that are not there."""
    return insert(_EVENTS)
