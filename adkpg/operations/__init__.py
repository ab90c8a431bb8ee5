"""For operators: how much there is, and whether all is well."""

from adkpg.operations.figures import (
    AppFigures,
    Day,
    Statistics,
    TableFigures,
    UserFigures,
    growth,
    statistics,
)
from adkpg.operations.people import UserCount, UsersPage, list_users

__all__ = [
    "AppFigures",
    "Day",
    "Statistics",
    "TableFigures",
    "UserCount",
    "UserFigures",
    "UsersPage",
    "growth",
    "list_users",
    "statistics",
]
