"""Queries that write sessions, and what tells why one was not; their SQL is in statements.sql."""

from datetime import datetime, timedelta
from typing import TypedDict

from adkpg.queries import Answer, Nothing, Queries, Query

_sql = Queries(__file__)


class Head(TypedDict):
    """Where a session stands.

    `found_held` says whether the holder has it, and `lacks_last` whether the caller's last event is
    not stored. `went_back` says whether storage lost the caller's revision: there is none, or
    another one of that number. The last three are of the event that is asked for, null if it is not
    stored.
    """

    found_incarnation: str
    found_revision: int
    found_token: str | None
    found_held: bool | None
    updated_at: datetime
    last_event_id: str | None
    lacks_last: bool
    went_back: bool | None
    stored_seq: int | None
    stored_token: str | None
    stored_payload: str | None


@_sql.query()
def create_session(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    incarnation: str,
    session_state: str,
    initial_state: str | None,
    app_delta: str | None,
    user_delta: str | None,
    state_limit: int,
    writer_limit: int,
    timestamp: datetime,
    ttl: timedelta | None,
    expires_at: datetime | None,
) -> Query[Answer[list[str | None] | None]]:
    """Inserts a session and merges the shared states it starts with.

    A second run finds the session of the first by its incarnation, which the caller gives. The
    deltas are JSON text, None where a scope has none; `initial_state` is null for `{}`. The answer
    is the session's state, the app's and the user's, after the merge; null if the session exists.
    """


@_sql.query()
def append_event(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    event_id: str,
    timestamp: datetime,
    payload: str,
    session_delta: str | None,
    app_delta: str | None,
    user_delta: str | None,
    state_limit: int,
    writer_limit: int,
    incarnation: str,
    revision: int,
    revision_token: str | None,
    token: str,
    merge: bool,
    holder: str | None,
    place: int | None = None,
    memories: str | None = None,
    config: str | None = None,
) -> Query[Answer[int | None]]:
    """Appends an event where the session is as expected and the event is new; else nothing.

    The session is moved to its next revision, which is the event's ``seq``; a scope's state is
    merged (``state || delta``) only where there is a delta, which is JSON text. A state has at most
    `state_limit` bytes. `incarnation`, `revision` and `revision_token` are as `Marker` says, and
    `token` is to be the token of the revision that this append makes.

    With `merge` any later revision than the expected one will do, too, if the expected one is part
    of its history. With `memories` the event's memory, its words and its place in the queue are
    written, after the session's last memory. With a `holder` it is appended only while that one has
    the session.

    The answer is the revision; null if nothing was written, and `select_head` tells why.
    """


@_sql.query()
def select_head(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    event_id: str,
    revision: int | None,
    revision_token: str | None,
    last_event_id: str | None,
    holder: str | None,
) -> Query[Head]:
    """Reads where a session stands: its marker, its last event's id, and one event if stored.

    The caller says where its object stands, and its last event; None if it does not. No row if the
    session does not exist.
    """


@_sql.query()
def await_append(*, app_name: str, user_id: str, session_id: str) -> Query[Nothing]:
    """Returns when an append to a session that is being committed has ended.

    While a commit waits for a synchronous standby the primary does not show it, and other standbys
    may: a caller that was answered there knows more than the primary says.
    """


@_sql.query()
def delete_expired_session(*, app_name: str, user_id: str, session_id: str) -> Query[Nothing]:
    """Deletes a session that has expired, so that another may have its id."""
