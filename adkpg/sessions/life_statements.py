"""Queries on what is done to sessions besides conversing: forks, shared states, a search.

Their SQL is in life_statements.sql.
"""

from datetime import datetime, timedelta
from typing import TypedDict

from adkpg.queries import Answer, Nothing, Queries, Query

_sql = Queries(__file__)


class InitialState(TypedDict):
    """A state as JSON text; null is ``{}``."""

    state: str | None


class Found(TypedDict):
    """An event with its JSON text."""

    session_id: str
    seq: int
    timestamp: datetime
    payload: str


class Opened(TypedDict):
    """How many events a session has, and the first ones in append order.

    NULL stands for a payload that is longer than an opening.
    """

    user_id: str
    session_id: str
    events: int
    payloads: list[str | None] | None


@_sql.query()
def select_initial_state(
    *, app_name: str, user_id: str, session_id: str, incarnation: str
) -> Query[InitialState]:
    """Reads a session's own state as it was before its first event; no row if it is another."""


@_sql.query()
def fork_session(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    incarnation: str,
    revision: int,
    fork_id: str,
    fork_incarnation: str,
    state: str,
    initial_state: str | None,
    state_limit: int,
    timestamp: datetime,
    updated_at: datetime,
    ttl: timedelta | None,
    expires_at: datetime | None,
) -> Query[Nothing]:
    """Copies a session with its events up to a revision, each with a token of its own.

    No row if it is another session now, or if one of the new id exists. A second run finds the copy
    of the first by its incarnation, which the caller gives.
    """


@_sql.query()
def merge_states(
    *,
    app_name: str,
    user_id: str,
    app_delta: str | None,
    user_delta: str | None,
    state_limit: int,
    writer_limit: int,
) -> Query[Answer[list[str | None]]]:
    """Merges deltas into the shared states; the answer has the app's and the user's after it.

    The deltas are JSON text, None where a scope has none.
    """


@_sql.query()
def find_events(
    *,
    app_name: str,
    user_id: str,
    patterns: list[str],
    after: datetime | None,
    before: datetime | None,
    last_time: datetime | None,
    last_session_id: str | None,
    last_seq: int | None,
    limit: int,
) -> Query[Found]:
    """Reads events of a user's sessions whose payloads match all patterns, newest first.

    There is a pattern for each of the words that are looked for. A payload is JSON text: what it
    matches may be no word that was said, so the caller looks again. They come after the place of
    the last one found.
    """


@_sql.query()
def find_events_of_session(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    patterns: list[str],
    after: datetime | None,
    before: datetime | None,
    last_time: datetime | None,
    last_session_id: str | None,
    last_seq: int | None,
    limit: int,
) -> Query[Found]:
    """Reads events like `find_events`, but only of one session."""


@_sql.query()
def select_openings(*, app_name: str, user_ids: list[str], session_ids: list[str]) -> Query[Opened]:
    """Counts the events of some of an app's sessions, and reads the first ones of each.

    The sessions are each of the ids with each of the users. One without events has no row.
    """
