"""Queries of the audit table; their SQL is in statements.sql."""

from datetime import datetime
from typing import TypedDict

from adkpg.queries import Nothing, Queries, Query

_sql = Queries(__file__)


class Entry(TypedDict):
    """One change."""

    app_name: str
    user_id: str
    audit_id: str
    changed_at: datetime
    actor: str
    action: str
    subject: str | None
    outcome: str


@_sql.query()
def insert_entry(
    *,
    app_name: str,
    user_id: str,
    audit_id: str,
    actor: str,
    action: str,
    subject: str | None,
    outcome: str,
) -> Query[Nothing]:
    """Notes a change that is about to be made, or is made along with it; again, it does nothing."""


@_sql.query()
def end_entry(*, app_name: str, user_id: str, audit_id: str, outcome: str) -> Query[Nothing]:
    """Notes what became of a change; nothing, if its person was forgotten meanwhile."""


@_sql.query()
def select_entries(
    *,
    of_app: str | None,
    of_user: str | None,
    after_time: datetime | None,
    after_id: str | None,
    limit: int,
) -> Query[Entry]:
    """Reads the newest entries, or those after a place; null asks for those of all."""


@_sql.query()
def select_entries_of_user(
    *, app_name: str, user_id: str, after_time: datetime | None, after_id: str | None, limit: int
) -> Query[Entry]:
    """Reads the newest entries of a user of an app, or those after a place."""
