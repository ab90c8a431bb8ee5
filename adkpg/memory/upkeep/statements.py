"""Queries that find and erase what has expired or is over; their SQL is in statements.sql.

Superseded facts have ended, too, and are kept for audit.
"""

from datetime import datetime
from typing import TypedDict

from adkpg.keys import ScopeKey, SessionKey
from adkpg.queries import Queries, Query

_sql = Queries(__file__)


class Expired(ScopeKey):
    """An expired memory."""

    expires_at: datetime
    position: int
    session_id: str


class Position(TypedDict):
    """A memory's position."""

    position: int


class Erased(TypedDict):
    """How many memories went, what was drawn from them included."""

    erased: int


class TombstoneKey(SessionKey):
    """The mark of a deleted memory."""

    event_id: str


class ResultKey(SessionKey):
    """What an invocation left."""

    idempotency_key: str


class AuditKey(ScopeKey):
    """An entry of the audit."""

    audit_id: str


class Ended(TypedDict):
    """A row that a sweep came to, and whether it is gone."""

    gone: bool


@_sql.query()
def select_expired(
    *,
    after_expires_at: datetime | None,
    after_app_name: str | None,
    after_user_id: str | None,
    after_position: int | None,
    limit: int,
) -> Query[Expired]:
    """Reads a batch of expired memories of everybody, after one, the first to expire first."""


@_sql.query()
def lock_free_positions(*, app_name: str, user_id: str, positions: list[int]) -> Query[Position]:
    """Locks those of some memories that nobody is writing to."""


@_sql.query()
def erase_expired_positions(*, app_name: str, user_id: str, positions: list[int]) -> Query[Erased]:
    """Erases those of some memories that have expired, and what was drawn from them."""


@_sql.query()
def select_expired_sessions(
    *, after_app_name: str, after_user_id: str, after_session_id: str, limit: int
) -> Query[SessionKey]:
    """Reads a batch of everybody's expired sessions, after one, in the order of their index."""


@_sql.query()
def delete_expired_sessions(
    *, app_names: list[str], user_ids: list[str], session_ids: list[str]
) -> Query[SessionKey]:
    """Deletes those of some sessions that are still expired, with their events and files."""


@_sql.query()
def select_over_tombstones(*, days: float, limit: int, passed: int) -> Query[TombstoneKey]:
    """Reads marks that nobody has needed for so long, the oldest first; locks none.

    Args:
      days: How long a mark stays.
      limit: Most rows.
      passed: How many of the oldest were passed over.
    """


@_sql.query()
def end_tombstones(
    *,
    app_names: list[str],
    user_ids: list[str],
    session_ids: list[str],
    event_ids: list[str],
    days: float,
) -> Query[Ended]:
    """Deletes those of some marks that are over, or renews them; passes over what others hold."""


@_sql.query()
def select_over_results(*, limit: int, passed: int) -> Query[ResultKey]:
    """Reads results of invocations whose key has expired, the oldest first; locks none."""


@_sql.query()
def end_results(
    *,
    app_names: list[str],
    user_ids: list[str],
    session_ids: list[str],
    idempotency_keys: list[str],
) -> Query[Ended]:
    """Deletes those of some results that are over; passes over what others hold."""


@_sql.query()
def select_over_audit(*, days: float, limit: int, passed: int) -> Query[AuditKey]:
    """Reads entries of the audit that are older than so many days, the oldest first."""


@_sql.query()
def end_audit(
    *, app_names: list[str], user_ids: list[str], audit_ids: list[str], days: float
) -> Query[Ended]:
    """Deletes those of some entries that are over; passes over what others hold."""
