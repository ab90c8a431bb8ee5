"""Queries of tasks; their SQL is in statements.sql."""

from datetime import datetime
from typing import TypedDict

from adkpg.queries import Queries, Query

_STATES = {
    "final": "('TASK_STATE_COMPLETED', 'TASK_STATE_CANCELED', 'TASK_STATE_FAILED',"
    " 'TASK_STATE_REJECTED')",
    "running": "('TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING')",
}
_parts = Queries(__file__, **_STATES)
_sql = Queries(
    __file__,
    **_STATES,
    **{name: _parts.text(name) for name in ("saved", "compared", "ends_at")},
)


class Saved(TypedDict):
    """The revision that a save made; no row if what it compares is not so."""

    revision: int


class TaskKey(TypedDict):
    """The id of a task."""

    task_id: str


class User(TypedDict):
    """A user."""

    user_id: str


class Failed(TypedDict):
    """How many tasks were found without their process."""

    failed: int


class StoredTask(TypedDict):
    """A task: its payload, and the events since. It is `lapsed` if its process is gone."""

    revision: int
    token: str
    payload: str
    lapsed: bool
    events: list[str]


class News(TypedDict):
    """Where a task stands, and its events after a revision."""

    state: str
    revision: int
    payload_revision: int
    lapsed: bool
    events: list[str]


class ListedTask(TypedDict):
    """A task of a page, and how many there are; without a payload if the page has none."""

    total: int
    lapsed: int
    payload: str | None
    events: list[str]


@_sql.query()
def insert_task(
    *,
    app_name: str,
    user_id: str,
    task_id: str,
    session_id: str,
    state: str,
    status_at: datetime | None,
    payload: str,
    token: str,
    lease_s: float,
) -> Query[Saved]:
    """Writes a task that is not there; no row if it is."""


@_sql.query()
def replace_task(
    *,
    app_name: str,
    user_id: str,
    task_id: str,
    session_id: str,
    state: str,
    status_at: datetime | None,
    payload: str,
    token: str,
    lease_s: float,
    revision: int | None,
    before: str | None,
) -> Query[Saved]:
    """Writes a task that is at a revision and has not ended, as a whole."""


@_sql.query()
def add_event(
    *,
    app_name: str,
    user_id: str,
    task_id: str,
    state: str,
    status_at: datetime | None,
    payload: str,
    token: str,
    lease_s: float,
    revision: int | None,
    before: str | None,
) -> Query[Saved]:
    """Writes what an event makes of a task that is at a revision, or at any, and has not ended."""


@_sql.query()
def renew(*, app_name: str, user_id: str, task_id: str, lease_s: float) -> Query[TaskKey]:
    """Says that a running task has its process still; no row if it has ended or is gone."""


@_sql.query()
def fail_lapsed(*, app_name: str, user_id: str, task_id: str | None, reason: str) -> Query[Failed]:
    """Ends a user's running tasks whose process is gone: one, or all."""


@_sql.query()
def select_task(*, app_name: str, user_id: str, task_id: str) -> Query[StoredTask]:
    """Reads a task."""


@_sql.query()
def select_anonymous_user(*, app_name: str, task_id: str) -> Query[User]:
    """Reads which caller without a name a task is of."""


@_sql.query()
def select_news(*, app_name: str, user_id: str, task_id: str, revision: int) -> Query[News]:
    """Reads where a task stands, and its events after a revision."""


@_sql.query()
def select_page(
    *,
    app_name: str,
    user_id: str,
    session_id: str | None,
    state: str | None,
    since: datetime | None,
    after_at: datetime | None,
    after_id: str | None,
    limit: int,
) -> Query[ListedTask]:
    """Reads some of a user's tasks, the latest status first, after a place; at least one row."""


@_sql.query()
def delete_task(*, app_name: str, user_id: str, task_id: str) -> Query[TaskKey]:
    """Deletes a task with its events."""
