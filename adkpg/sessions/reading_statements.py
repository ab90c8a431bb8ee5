"""Queries of the session service that read; their SQL is in reading_statements.sql."""

from datetime import datetime
from typing import TypedDict

from adkpg.queries import Place, Queries, Query

# Of a session's events read together. One counts 4 kB besides its payload, so 1,000 always fill it.
_PAGE_EVENTS = 1_000
_PAGE_BYTES = 4_000_000

_sql = Queries(
    __file__,
    page_events=_PAGE_EVENTS,
    page_bytes=_PAGE_BYTES,
    event_bytes=_PAGE_BYTES // _PAGE_EVENTS,
)


class EventsPage(TypedDict):
    """Payloads in append order; `next_seq` is the first event that there was no room for."""

    payloads: list[str]
    next_seq: int | None


class _Stored(TypedDict):
    user_id: str
    session_id: str
    incarnation: str
    revision: int
    updated_at: datetime
    revision_token: str | None
    state: str
    app_state: str | None
    user_state: str | None
    app_state_version: int | None


class StoredSession(_Stored, EventsPage):
    """A session's row and the shared states, with their versions, and its events."""

    user_state_version: int | None


class StoredSessionAgain(StoredSession):
    """`had` is true if the caller has the events before these still."""

    had: bool | None


class ListedSession(_Stored):
    """A session of a listing; each shared state travels once, on its first row.

    Each session is given with its states and the shared ones, so all of these count for its `size`
    in bytes. `number` goes from 1 on, and `listed` says how many there would be.
    """

    created_at: datetime
    size: int
    number: int
    listed: int


class StoredEvent(TypedDict):
    """An event as JSON text."""

    seq: int
    payload: str


class UserState(TypedDict):
    """A state as JSON text."""

    state: str


@_sql.query(long=True)
def select_session(
    *, app_name: str, user_id: str, session_id: str, after: datetime | None
) -> Query[StoredSession]:
    """Reads a session, the shared states and its events, in one snapshot and one row.

    The events are those at or after a time, or all. No row if the session does not exist.
    """


@_sql.query(long=True)
def select_recent_session(
    *, app_name: str, user_id: str, session_id: str, after: datetime | None, limit: int
) -> Query[StoredSession]:
    """Reads a session like `select_session`, but of its events only the last ones."""


@_sql.query(long=True)
def select_session_again(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    incarnation: str | None,
    revision: int | None,
    revision_token: str | None,
    count: int | None,
) -> Query[StoredSessionAgain]:
    """Reads a session like `select_session`, but only the events that the caller lacks.

    The caller has so many up to a revision, or none. It has them still, and ``had`` is true, if the
    session is the same incarnation, the event of that revision has the same token, and none of
    those events was deleted. (A restored database or a standby may have another history.) Else
    ``had`` is not true and ``payloads`` are all events.
    """


@_sql.query()
def select_further_events(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    incarnation: str,
    revision: int,
    revision_token: str | None,
    next_seq: int,
    after: datetime | None,
) -> Query[EventsPage]:
    """Reads the events that a session's row had no room for, from `next_seq` on.

    No row if the session is no more the one that was read: it is that anywhere after its revision.
    """


@_sql.query()
def list_sessions(
    *,
    app_name: str,
    user_id: str,
    after_time: datetime | None,
    after_session_id: str | None,
    limit: int,
    most_bytes: int,
) -> Query[ListedSession]:
    """Reads a user's sessions: newest update first, then by id, backwards.

    It begins after the last session of the page before, or with the newest. It ends at the limit,
    and where they are too many bytes together, after one session at least.
    """


@_sql.query(place=Place.EACH_PART)
def list_sessions_of_app(*, app_name: str, limit: int, most_bytes: int) -> Query[ListedSession]:
    """Reads the sessions of an app: newest update first, then by user and id, backwards.

    Any of them, if there are more than the limit. It ends where they are too many bytes together,
    after one session at least.
    """


@_sql.query(place=Place.EACH_PART)
def list_newest_sessions_of_app(
    *,
    app_name: str,
    after_time: datetime | None,
    after_user_id: str | None,
    after_session_id: str | None,
    limit: int,
    most_bytes: int,
) -> Query[ListedSession]:
    """Reads the sessions of an app: newest creation first, then by user and id, backwards.

    It begins and ends as `list_sessions` does.
    """


@_sql.query()
def list_events_page(
    *, app_name: str, user_id: str, session_id: str, after_seq: int, limit: int
) -> Query[StoredEvent]:
    """Reads one page of a session's events in append order; the first one is after 0."""


@_sql.query()
def select_user_state(*, app_name: str, user_id: str) -> Query[UserState]:
    """Reads a user's state; no row if there is none."""
