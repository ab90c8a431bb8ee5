"""For operators: how much there is, and whether all is well."""

from adkpg.operations.examining import examine
from adkpg.operations.figures import (
    AppFigures,
    Day,
    Statistics,
    TableFigures,
    UserFigures,
    growth,
    statistics,
    table_sizes,
)
from adkpg.operations.findings import Examination, Finding
from adkpg.operations.people import UserCount, list_users
from adkpg.operations.reporting import report, reporting
from adkpg.operations.searches import PastSearches, RunningSearch, SlowSearches, slow_searches

__all__ = [
    "AppFigures",
    "Day",
    "Examination",
    "Finding",
    "PastSearches",
    "RunningSearch",
    "SlowSearches",
    "Statistics",
    "TableFigures",
    "UserCount",
    "UserFigures",
    "examine",
    "growth",
    "list_users",
    "report",
    "reporting",
    "slow_searches",
    "statistics",
    "table_sizes",
]
