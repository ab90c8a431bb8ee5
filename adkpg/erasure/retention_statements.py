"""Queries that delete old sessions, or old events of sessions; SQL in retention_statements.sql."""

from datetime import datetime

from adkpg.keys import ScopeKey, SessionKey
from adkpg.queries import Queries, Query

_sql = Queries(__file__)


class OldSession(SessionKey):
    """A session, and how many of its events go."""

    events: int


@_sql.query()
def select_old(
    *,
    app_name: str | None,
    of_user: str | None,
    before: datetime,
    after_app_name: str,
    after_user_id: str,
    after_session_id: str,
    limit: int,
) -> Query[OldSession]:
    """Reads a page of sessions that are old or have expired, in the order of the key, after one.

    They are those of one app or user where a name is given. A session is old if its last event and
    its creation are. The first page is after three times ``""``.
    """


@_sql.query()
def select_with_old_events(
    *,
    app_name: str | None,
    of_user: str | None,
    before: datetime,
    after_app_name: str,
    after_user_id: str,
    after_session_id: str,
    limit: int,
) -> Query[OldSession]:
    """Reads a page of sessions that have old events, as `select_old` does; these alone count."""


@_sql.query()
def delete_old_sessions(
    *, app_names: list[str], user_ids: list[str], session_ids: list[str], before: datetime
) -> Query[OldSession]:
    """Deletes those of some sessions that are still old, with their events and files.

    Those that somebody writes to are passed over. The marks of memories that were deleted from them
    stay for a while, as when a session is deleted.
    """


@_sql.query()
def delete_old_events(
    *,
    app_names: list[str],
    user_ids: list[str],
    session_ids: list[str],
    before: datetime,
    limit: int,
) -> Query[SessionKey]:
    """Deletes old events of some sessions, up to a limit; returns the session of each."""


@_sql.query()
def select_nobodys_states(
    *, app_name: str | None, of_user: str | None, before: datetime
) -> Query[ScopeKey]:
    """Reads whose state is old and without any session, of one app or user if one is given."""


@_sql.query()
def delete_nobodys_states(
    *, app_name: str | None, of_user: str | None, before: datetime, limit: int
) -> Query[ScopeKey]:
    """Deletes a batch of such states; those that somebody writes to are passed over."""
