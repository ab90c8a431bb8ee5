"""Statements of the session service that write. Each is built once per shape and does no I/O.

Every call of the service is one of these or of `reading_statements`: one round trip. Row locks are
taken in the order session, app state, user state, and the order is forced by data: each step reads
what the one before returned, since Postgres runs sibling CTEs in whatever order the outer SELECT
pulls them.
"""

from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    false,
    func,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import INTERVAL, JSONB, TIMESTAMP, UUID

from adkpg.keys import SessionKey
from adkpg.memory.write.capture import CaptureParameters
from adkpg.sql import APP_NAME, SESSION_ID, USER_ID, Call, Statement, in_scope
from adkpg.tables import app_states, events, memory_tombstones, sessions, user_states

EVENT_ID = bindparam("event_id", type_=Text)

CHANNEL = "adkpg"
"""On which appends to watched sessions tell the listeners."""


class CreateParameters(SessionKey):
    """The deltas are JSON text, None where a scope has none; `initial_state` is null for `{}`."""

    incarnation: str
    session_state: str
    initial_state: str | None
    app_delta: str | None
    user_delta: str | None
    state_limit: int
    writer_limit: int
    timestamp: datetime
    ttl: timedelta | None
    expires_at: datetime | None


class EventParameters(SessionKey):
    """Of statements on one event of a session."""

    event_id: str


class AppendParameters(EventParameters, CaptureParameters):
    """The deltas are JSON text, None where a scope has none; the marker is as `Marker` says.

    `state_limit` is in bytes. `token` is to be the token of the revision that this append makes.
    """

    merge: bool
    holder: str | None
    timestamp: datetime
    payload: str
    session_delta: str | None
    app_delta: str | None
    user_delta: str | None
    state_limit: int
    writer_limit: int
    incarnation: str
    revision: int
    revision_token: str | None
    token: str


class HeadParameters(EventParameters):
    """Where the caller's object stands, and its last event; None if the caller does not say."""

    revision: int | None
    revision_token: str | None
    last_event_id: str | None
    holder: str | None


HOLDER = cast(bindparam("holder", type_=Text), UUID)
"""The token of an invocation."""


def held() -> ColumnElement[bool]:
    """Whether the holder has the session; one whose lease lapsed has it until another begins."""
    return and_(
        sessions.c.invocation_holder == HOLDER, sessions.c.invocation_expires_at.is_not(None)
    )


def time(name: str) -> BindParameter[Any]:
    """A time given as a parameter."""
    return bindparam(name, type_=TIMESTAMP(timezone=True))


def _json(name: str) -> ColumnElement[Any]:
    return cast(bindparam(name, type_=Text), JSONB)


def _merged(state: str, delta: ColumnElement[Any]) -> ColumnElement[Any]:
    return literal_column(state, JSONB).op("||")(delta)


def limited(state: ColumnElement[Any]) -> ColumnElement[Any]:
    """A state, or null if it has more than `state_limit` bytes: its column refuses that.

    So the statement ends, whoever merged what meanwhile. It is made once and measured.
    """
    made = select(state.label("state")).offset(literal_column("0")).subquery("made")
    small = func.pg_column_size(made.c.state) <= bindparam("state_limit", type_=Integer)
    return select(case((small, made.c.state))).scalar_subquery()


def this_session() -> ColumnElement[bool]:
    """The session's row."""
    return and_(
        sessions.c.app_name == APP_NAME,
        sessions.c.user_id == USER_ID,
        sessions.c.session_id == SESSION_ID,
    )


def unexpired(session: Any = sessions) -> ColumnElement[bool]:
    """Sessions that are seen: those without an end, and those before it."""
    return or_(session.c.expires_at.is_(None), session.c.expires_at > func.now())


def live_session() -> ColumnElement[bool]:
    """The session's row, if it has not expired."""
    return and_(this_session(), unexpired())


def its_events() -> ColumnElement[bool]:
    """The session's events."""
    return and_(
        events.c.app_name == APP_NAME,
        events.c.user_id == USER_ID,
        events.c.session_id == SESSION_ID,
    )


def token_of(session: Any) -> ColumnElement[Any]:
    """The token of a session's revision: its last event's; null without one.

    Args:
      session: The table `sessions`, or a part of its rows.
    """
    its = and_(
        events.c.app_name == session.c.app_name,
        events.c.user_id == session.c.user_id,
        events.c.session_id == session.c.session_id,
    )
    last = _at(session.c.revision, its, session).correlate(session).scalar_subquery()
    return cast(last, Text).label("revision_token")


def _at(revision: ColumnElement[int], its: ColumnElement[bool], *outer: Any) -> Select[Any]:
    """The token of the event of a revision, read in the order of the primary key.

    Before a first ANALYZE Postgres finds the index of event ids as good, and reads all of them.
    """
    first = (
        select(events.c.seq, events.c.revision_token)
        .where(its, events.c.seq >= revision)
        .order_by(events.c.seq)
        .limit(literal_column("1"))
        .correlate(*outer)
        .subquery("first")
    )
    return select(first.c.revision_token).where(first.c.seq == revision)


_PAYLOAD = bindparam("payload", type_=Text)
REVISION = bindparam("revision", type_=BigInteger)
REVISION_TOKEN = cast(bindparam("revision_token", type_=Text), UUID)

# The token that the event of the caller's revision has now.
TOKEN_THERE = _at(REVISION, its_events()).scalar_subquery()


def expected(*, later: bool) -> ColumnElement[bool]:
    """The session is where the caller has seen it, or with `later` anywhere after that.

    The event of the revision that the caller has seen has its token still; one that was deleted
    since contradicts nobody.
    """
    revision = sessions.c.revision
    return and_(
        sessions.c.incarnation == cast(bindparam("incarnation", type_=Text), UUID),
        revision >= REVISION if later else revision == REVISION,
        (TOKEN_THERE == REVISION_TOKEN).is_not(false()),
    )


APP_STATE = (
    select(cast(app_states.c.state, Text))
    .where(app_states.c.app_name == APP_NAME)
    .scalar_subquery()
)
"""The app's state as JSON text."""


def user_state(user_id: ColumnElement[str]) -> Any:
    """A user's state as JSON text."""
    return (
        select(cast(user_states.c.state, Text))
        .where(user_states.c.app_name == APP_NAME, user_states.c.user_id == user_id)
        .scalar_subquery()
    )


def version_of(table: Any) -> ColumnElement[int]:
    """Which version of its row a state is: each change makes another one, the same on standbys."""
    xmin: ColumnElement[Any] = literal_column(f"{table.name}.xmin")
    return cast(cast(xmin, Text), BigInteger)


APP_STATE_VERSION = (
    select(version_of(app_states)).where(app_states.c.app_name == APP_NAME).scalar_subquery()
)
"""The version of the app's state."""


def user_state_version(user_id: ColumnElement[str]) -> Any:
    """The version of a user's state."""
    return (
        select(version_of(user_states))
        .where(user_states.c.app_name == APP_NAME, user_states.c.user_id == user_id)
        .scalar_subquery()
    )


def end_of_session() -> dict[str, ColumnElement[Any]]:
    """When a session that is created ends by itself."""
    ttl = bindparam("ttl", type_=INTERVAL)
    expires_at = func.coalesce(func.now() + ttl, time("expires_at"))
    return {"ttl": ttl, "expires_at": expires_at, "expires": expires_at.is_not(None)}


@cache
def create_session(*, app: bool) -> Statement[CreateParameters]:
    """Inserts a session and merges the shared states it starts with.

    A second run finds the session of the first by its incarnation, which the caller gives.

    Args:
      app: Whether there is a delta of the app's state.

    Returns:
      ``answer``: the session's state, the app's and the user's, after the merge; null if the
      session exists.
    """
    return Call(
        "create_session_1",
        *("app_name", "user_id", "session_id", "incarnation", "session_state", "initial_state"),
        *(
            "app_delta",
            "user_delta",
            "state_limit",
            "writer_limit",
            "timestamp",
            "ttl",
            "expires_at",
        ),
        of_app=app,
    )


def watch_key(session: Any) -> ColumnElement[Any]:
    """What appends tell the listeners of a session: a digest of its key."""
    return func.md5(
        cast(
            func.jsonb_build_array(session.c.app_name, session.c.user_id, session.c.session_id),
            Text,
        )
    )


@cache
def append_event(*, app: bool) -> Statement[AppendParameters]:
    """Appends an event where the session is as expected and the event is new; else nothing.

    The session is moved to its next revision, which is the event's ``seq``; a scope's state is
    merged (``state || delta``) only where there is a delta. With ``merge`` any later revision than
    the expected one will do, too, if the expected one is part of its history. With ``memories`` the
    event's memory, its words and its place in the queue are written, after the session's last
    memory. With a ``holder`` it is appended only while that one has the session.

    Args:
      app: Whether there is a delta of the app's state.

    Returns:
      ``answer``: the revision; null if nothing was written, and `select_head` tells why.
    """
    return Call(
        "append_event_1",
        *("app_name", "user_id", "session_id", "event_id", "timestamp", "payload"),
        *("session_delta", "app_delta", "user_delta", "state_limit", "writer_limit"),
        *("incarnation", "revision", "revision_token", "token", "merge", "holder"),
        *("place", "memories", "config"),
        of_app=app,
    )


@cache
def select_head(*, fenced: bool = False) -> Statement[HeadParameters]:
    """Reads where a session stands: its marker, its last event's id, and one event if stored.

    ``went_back`` says whether storage lost the caller's revision: there is none, or another one of
    that number. ``lacks_last``: the caller's last event is not stored. `fenced` asks whether the
    holder has it.

    No row if the session does not exist.
    """
    last = (
        select(events.c.event_id)
        .where(its_events())
        .order_by(events.c.seq.desc())
        .limit(1)
        .scalar_subquery()
    )
    stored = (
        select(
            events.c.seq.label("stored_seq"),
            cast(events.c.revision_token, Text).label("stored_token"),
            cast(events.c.payload, Text).label("stored_payload"),
        )
        .where(its_events(), events.c.event_id == EVENT_ID)
        .subquery("stored")
    )
    last_event_id = bindparam("last_event_id", type_=Text)
    its_last = exists(select(events.c.seq).where(its_events(), events.c.event_id == last_event_id))
    head = (
        select(
            cast(sessions.c.incarnation, Text).label("found_incarnation"),
            sessions.c.revision.label("found_revision"),
            token_of(sessions).label("found_token"),
            (held() if fenced else true()).label("found_held"),
            sessions.c.updated_at,
            last.label("last_event_id"),
            and_(last_event_id.is_not(None), ~its_last).label("lacks_last"),
            or_(sessions.c.revision < REVISION, REVISION_TOKEN != TOKEN_THERE).label("went_back"),
            stored,
        )
        .select_from(sessions.outerjoin(stored, true()))
        .where(live_session())
    )
    return Statement(head)


@cache
def await_append() -> Statement[SessionKey]:
    """Returns when an append to a session that is being committed has ended.

    While a commit waits for a synchronous standby the primary does not show it, and other standbys
    may: whoever was answered there knows more than the primary says.
    """
    locked = select(sessions.c.revision).where(this_session()).with_for_update(read=True)
    return Statement(locked)


@cache
def delete_expired_session() -> Statement[SessionKey]:
    """Deletes a session that has expired, so that another may have its id."""
    return Statement(delete(sessions).where(this_session(), ~unexpired()))


@cache
def delete_session() -> Statement[SessionKey]:
    """Deletes a session; its events go with it.

    The marks of memories that were deleted from it stay for a while: whoever still has the session
    may add it to memory once again.
    """
    ending = (
        update(memory_tombstones)
        .where(
            in_scope(memory_tombstones),
            memory_tombstones.c.session_id == SESSION_ID,
        )
        .values(needed_at=func.now())
        .cte("ending")
    )
    return Statement(delete(sessions).where(this_session()).add_cte(ending))
