"""Queries of what demos left in the tables; their SQL is in statements.sql."""

from typing import TypedDict

from adkpg.queries import Queries, Query

_sql = Queries(__file__)


class Counted(TypedDict):
    """A table, and how many rows it has of one user."""

    name: str
    rows: int


@_sql.query()
def count_rows(*, app_name: str, user_id: str) -> Query[Counted]:
    """Counts a user's rows of each table, and an app's of those without users; in no order."""
