"""Queries of tasks; their SQL is in statements.sql."""

from datetime import datetime
from typing import TypedDict

from a2a.types import TaskState

from adkpg.a2a.task import FINAL, RUNNING
from adkpg.queries import Nothing, Queries, Query

_STATES = {
    name: f"({', '.join(repr(TaskState.Name(each)) for each in sorted(states))})"
    for name, states in (("final", FINAL), ("running", RUNNING))
}
_parts = Queries(__file__, **_STATES)
_sql = Queries(
    __file__,
    **_STATES,
    **{name: _parts.text(name) for name in ("saved", "advanced")},
)


class Saved(TypedDict):
    """The revision that a save made; no row if what it compares is not so."""

    revision: int


class User(TypedDict):
    """A user."""

    user_id: str


class Standing(TypedDict):
    """Where a task stands, and the token of the save that brought it there."""

    state: str
    token: str


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
    lapsed: bool
    events: list[str]


class ListedTask(TypedDict):
    """A task of a page, and how many there are; without a payload if the page has none.

    `lapsed` says whether the process of any of the user's tasks is gone.
    """

    total: int
    lapsed: bool
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
def renew(*, app_name: str, user_id: str, task_id: str, lease_s: float) -> Query[Standing]:
    """Says that a task has its process still, if it runs; no row if it is gone."""


@_sql.query()
def fail_lapsed(*, app_name: str, user_id: str, task_id: str | None, reason: str) -> Query[Nothing]:
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
def delete_task(*, app_name: str, user_id: str, task_id: str) -> Query[Nothing]:
    """Deletes a task with its events."""
