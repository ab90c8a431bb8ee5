"""Queries that list apps and their users; their SQL is in people_statements.sql."""

from datetime import datetime
from typing import TypedDict

from adkpg.queries import Place, Queries, Query
from adkpg.rules import PERSONAL

_parts = Queries(__file__)


def _of_each_table(part: str) -> str:
    return ", ".join(_parts.text(part, table=rule.table.name) for rule in PERSONAL)


_sql = Queries(
    __file__, firsts=_of_each_table("first_app"), rows_of_user=_of_each_table("row_of_user")
)


class AppName(TypedDict):
    """An app."""

    app_name: str


class User(TypedDict):
    """A user, what they have, and the last one who was looked at, if there may be more.

    In the row of a page without users, `app_name` and `user_id` are null.
    """

    app_name: str | None
    user_id: str | None
    sessions: int
    updated_at: datetime | None
    memories: int
    reached_app: str | None
    reached: str | None


class AppOfUser(TypedDict):
    """An app that keeps a user, what of, and when they were last seen."""

    app_name: str
    sessions: int
    memories: int
    files: int
    seen_at: datetime | None


@_sql.query(place=Place.EACH_PART)
def select_app_names(*, limit: int) -> Query[AppName]:
    """Reads the first apps of which there is a session or a memory, by name."""


@_sql.query(place=Place.EACH_PART)
def select_users(
    *, app_name: str | None, first_app: str, first: str, part: str, walked: int, limit: int
) -> Query[User]:
    """Reads a page of users by app and id, and what each has; None is all apps.

    Each user is looked up after the one before: the first one at `first` of `first_app` or after
    it, up to `walked`. Those are returned whose id has the part, up to `limit`; there is always a
    row.
    """


@_sql.query()
def select_apps_of(*, user_id: str) -> Query[AppOfUser]:
    """Reads the apps that have a row of a user in any table of persons, by name."""
