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

__all__ = [
    "AppFigures",
    "Day",
    "Statistics",
    "TableFigures",
    "UserFigures",
    "growth",
    "statistics",
]
