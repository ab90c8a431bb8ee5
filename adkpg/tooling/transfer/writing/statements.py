"""Queries that write sessions, events and shared states of elsewhere, in batches.

Their SQL is in statements.sql. Rows are given in parallel arrays, JSON as text. They come in a
transaction that holds the rows of the sessions that are there already, so each may be run again,
because what it wrote is then found.
"""

from datetime import datetime
from typing import TypedDict

from adkpg.keys import SessionKey
from adkpg.queries import Nothing, Queries, Query

_sql = Queries(__file__)


class StoredSession(SessionKey):
    """A session, its state as JSON text."""

    revision: int
    state: str


class StoredEvent(SessionKey):
    """An event of a session, its payload as JSON text."""

    seq: int
    event_id: str
    payload: str | None


class EventId(TypedDict):
    """The id of an event."""

    event_id: str


class AppState(TypedDict):
    """The state of an app as JSON text, and when it changed."""

    app_name: str
    state: str
    updated_at: datetime


class UserState(AppState):
    """The state of a user."""

    user_id: str


@_sql.query()
def select_sessions(
    *, app_names: list[str], user_ids: list[str], session_ids: list[str]
) -> Query[StoredSession]:
    """Reads those of the sessions that are stored."""


@_sql.query()
def hold_sessions(
    *, app_names: list[str], user_ids: list[str], session_ids: list[str]
) -> Query[StoredSession]:
    """Locks those of the sessions that are stored, in the order of their keys, and reads them."""


@_sql.query()
def select_windows(
    *,
    app_names: list[str],
    user_ids: list[str],
    session_ids: list[str],
    firsts: list[int],
    lasts: list[int],
    payloads: bool,
) -> Query[StoredEvent]:
    """Reads some events of each session, from a first number to a last one.

    Payloads are null unless they are asked for.
    """


@_sql.query()
def select_known(
    *, app_name: str, user_id: str, session_id: str, event_ids: list[str], before: int
) -> Query[EventId]:
    """Reads which of some event ids a session has before a number."""


@_sql.query()
def insert_sessions(
    *,
    app_names: list[str],
    user_ids: list[str],
    session_ids: list[str],
    states: list[str],
    revisions: list[int],
    created: list[datetime],
    updated: list[datetime],
    places: list[int | None],
    sizes: list[int],
    initials: list[str | None],
    ttls: list[float | None],
    ends: list[datetime | None],
) -> Query[SessionKey]:
    """Creates sessions; returns those that it created."""


@_sql.query()
def advance_sessions(
    *,
    app_names: list[str],
    user_ids: list[str],
    session_ids: list[str],
    states: list[str],
    revisions: list[int],
    updated: list[datetime],
    places: list[int | None],
    sizes: list[int],
    ttls: list[float | None],
    ends: list[datetime | None],
) -> Query[Nothing]:
    """Moves sessions, which the transaction holds, to the revision of their new last event."""


@_sql.query()
def insert_events(
    *,
    app_names: list[str],
    user_ids: list[str],
    session_ids: list[str],
    seqs: list[int],
    event_ids: list[str],
    timestamps: list[datetime],
    payloads: list[str],
) -> Query[Nothing]:
    """Writes events of sessions that the transaction holds or created."""


@_sql.query()
def merge_app_states(
    *, app_names: list[str], states: list[str], updated: list[datetime | None]
) -> Query[Nothing]:
    """Merges states of apps into those that are stored; of a key in both, the later wins.

    A null time is not known.
    """


@_sql.query()
def merge_user_states(
    *,
    app_names: list[str],
    user_ids: list[str],
    states: list[str],
    updated: list[datetime | None],
) -> Query[Nothing]:
    """Merges states of users into those that are stored, as `merge_app_states` does."""


@_sql.query()
def select_app_states(*, app_names: list[str]) -> Query[AppState]:
    """Reads the states of apps."""


@_sql.query()
def select_user_states(*, app_names: list[str], user_ids: list[str]) -> Query[UserState]:
    """Reads the states of users."""
