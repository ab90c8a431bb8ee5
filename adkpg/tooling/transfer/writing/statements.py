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
    """An event of a session."""

    seq: int
    event_id: str


class Payload(TypedDict):
    """The payload of an event as JSON text, and its number."""

    seq: int
    payload: str


class Digest(SessionKey):
    """A session, whether its state is the given one, and a digest of some of its payloads."""

    revision: int
    same_state: bool
    digest: str


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
) -> Query[StoredEvent]:
    """Reads some events of each session, from a first number to a last one."""


@_sql.query()
def select_payloads(
    *, app_name: str, user_id: str, session_id: str, first: int, last: int
) -> Query[Payload]:
    """Reads the payloads of some events of a session, from a first number to a last one."""


@_sql.query()
def select_digests(
    *,
    app_names: list[str],
    user_ids: list[str],
    session_ids: list[str],
    firsts: list[int],
    lasts: list[int],
    states: list[str],
) -> Query[Digest]:
    """Compares sessions with given ones: their states, and some of their events by a digest.

    The digest is the SHA-256, in hex, of the payloads' SHA-256 digests one after another.
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
) -> Query[AppState]:
    """Merges states of apps into those that are stored, and returns them.

    If a key is in both, the later wins. A null time is not known.
    """


@_sql.query()
def merge_user_states(
    *,
    app_names: list[str],
    user_ids: list[str],
    states: list[str],
    updated: list[datetime | None],
) -> Query[UserState]:
    """Merges states of users into those that are stored, as `merge_app_states` does."""
