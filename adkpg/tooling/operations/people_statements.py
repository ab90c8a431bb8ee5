"""Queries that list apps and their users; their SQL is in people_statements.sql."""

from datetime import datetime
from typing import TypedDict

from adkpg.queries import Place, Queries, Query

_sql = Queries(__file__)


class AppName(TypedDict):
    """An app."""

    app_name: str


class User(TypedDict):
    """A user, what they have, and the last one who was looked at, if there may be more.

    In the row of a page without users, `user_id` is null.
    """

    user_id: str | None
    sessions: int
    updated_at: datetime | None
    memories: int
    reached: str | None


@_sql.query(place=Place.EACH_PART)
def select_app_names(*, limit: int) -> Query[AppName]:
    """Reads the first apps of which there is a session or a memory, by name."""


@_sql.query(place=Place.EACH_PART)
def select_users(*, app_name: str, first: str, part: str, walked: int, limit: int) -> Query[User]:
    """Reads a page of an app's users by id, and what each has.

    Each user is looked up after the one before: the first one at `first` or after it, up to
    `walked`. Those are returned whose id has the part, up to `limit`; there is always a row.
    """
