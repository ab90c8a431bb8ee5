"""Statements that delete old sessions, or old events of sessions, in batches. No I/O."""

from datetime import datetime
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import TIMESTAMP

from adkpg.sql import SESSION_KEY, Statement, deleted_sessions, given_rows, locked_sessions
from adkpg.tables import events, sessions, user_states

_BEFORE = bindparam("before", type_=TIMESTAMP(timezone=True))
_LIMIT = bindparam("limit", type_=Integer)


class BeforeParameters(TypedDict):
    """What is older than this."""

    before: datetime


class OldParameters(BeforeParameters):
    """A page of sessions, of one app or user where a name is given, after another."""

    app_name: str | None
    user_id: str | None
    limit: int
    after_app_name: str | None
    after_user_id: str | None
    after_session_id: str | None


class GivenParameters(BeforeParameters):
    """Some sessions, in parallel."""

    app_names: list[str]
    user_ids: list[str]
    session_ids: list[str]


class BatchParameters(GivenParameters):
    """Most events that one run deletes."""

    limit: int


class UsersParameters(BeforeParameters):
    """A page of users, of one app or user where a name is given."""

    app_name: str | None
    user_id: str | None
    limit: int


def _old() -> ColumnElement[bool]:
    """Whose last event and creation are older; and what has expired."""
    since = func.greatest(sessions.c.updated_at, sessions.c.created_at)
    return or_(since < _BEFORE, sessions.c.expires_at <= func.now())


def _its_old_events() -> ColumnElement[bool]:
    return and_(
        *(events.c[column.name] == column for column in SESSION_KEY), events.c.timestamp < _BEFORE
    )


def _asked(table: Any, *, app: bool, user: bool) -> list[ColumnElement[bool]]:
    asked: list[ColumnElement[bool]] = []
    if app:
        asked.append(table.c.app_name == bindparam("app_name", type_=Text))
    if user:
        asked.append(table.c.user_id == bindparam("user_id", type_=Text))
    return asked


@cache
def select_old(*, whole: bool, app: bool, user: bool, after: bool) -> Statement[OldParameters]:
    """Reads a page of sessions that are old, or that have old events, in the order of the key.

    Returns ``app_name``, ``user_id``, ``session_id`` and ``events``, how many would go.
    """
    counted = select(func.count()).select_from(events)
    if whole:
        counted = counted.where(*(events.c[column.name] == column for column in SESSION_KEY))
        wanted = _old()
    else:
        counted = counted.where(_its_old_events())
        wanted = exists(select(events.c.seq).where(_its_old_events()))
    page = (
        select(*SESSION_KEY, counted.scalar_subquery().label("events"))
        .where(wanted, *_asked(sessions, app=app, user=user))
        .order_by(*SESSION_KEY)
        .limit(_LIMIT)
    )
    if after:
        last = (bindparam(f"after_{column.name}", type_=Text) for column in SESSION_KEY)
        page = page.where(tuple_(*SESSION_KEY) > tuple_(*last))
    return Statement(page)


def _given() -> Any:
    return given_rows(app_names=Text, user_ids=Text, session_ids=Text)


@cache
def delete_old_sessions() -> Statement[GivenParameters]:
    """Deletes those of some sessions that are still old, with their events and files.

    Those that somebody writes to are passed over. The marks of memories that were deleted from them
    stay for a while, as when a session is deleted.

    Returns the key of each, and ``events``, how many it had.
    """
    locked = locked_sessions(_old())
    counted = (
        select(func.count())
        .select_from(events)
        .where(*(events.c[column.name] == locked.c[column.name] for column in SESSION_KEY))
        .correlate(locked)
        .scalar_subquery()
    )
    counts = select(*locked.c, counted.label("events")).cte("counts")
    return Statement(deleted_sessions(counts))


@cache
def delete_old_events() -> Statement[BatchParameters]:
    """Deletes old events of some sessions, up to a limit; returns the key and seq of each."""
    given = _given()
    old: Select[Any] = (
        select(events.c.app_name, events.c.user_id, events.c.session_id, events.c.seq)
        .join_from(
            events,
            given,
            tuple_(events.c.app_name, events.c.user_id, events.c.session_id) == tuple_(*given.c),
        )
        .where(events.c.timestamp < _BEFORE)
        .limit(_LIMIT)
    )
    chosen = old.cte("chosen")
    gone = (
        delete(events)
        .where(*(events.c[column.key] == column for column in chosen.c))
        .returning(events.c.app_name, events.c.user_id, events.c.session_id)
    )
    return Statement(gone)


def _nobodys(*, app: bool, user: bool) -> ColumnElement[bool]:
    """States that are old, of users who have no session."""
    theirs = select(sessions.c.session_id).where(
        sessions.c.app_name == user_states.c.app_name, sessions.c.user_id == user_states.c.user_id
    )
    return and_(
        user_states.c.updated_at < _BEFORE,
        ~exists(theirs),
        *_asked(user_states, app=app, user=user),
    )


@cache
def select_nobodys_states(*, app: bool, user: bool) -> Statement[UsersParameters]:
    """Reads whose state is old and without any session: ``app_name`` and ``user_id``."""
    key = (user_states.c.app_name, user_states.c.user_id)
    return Statement(select(*key).where(_nobodys(app=app, user=user)).order_by(*key).limit(_LIMIT))


@cache
def delete_nobodys_states(*, app: bool, user: bool) -> Statement[UsersParameters]:
    """Deletes a batch of such states; returns ``app_name`` and ``user_id`` of each."""
    key = (user_states.c.app_name, user_states.c.user_id)
    chosen = (
        select(*key)
        .where(_nobodys(app=app, user=user))
        .limit(_LIMIT)
        .with_for_update(skip_locked=True)
        .cte("chosen")
    )
    return Statement(
        delete(user_states)
        .where(*(column == chosen.c[column.name] for column in key))
        .returning(*key)
    )
