"""For operators: how much there is, and whether all is well."""

from adkpg.operations.examining import examine
from adkpg.operations.figures import (
    AppFigures,
    Statistics,
    TableFigures,
    UserFigures,
    statistics,
    table_sizes,
)
from adkpg.operations.findings import Examination, Finding
from adkpg.operations.people import UserCount, list_users
from adkpg.operations.reporting import report, reporting

__all__ = [
    "AppFigures",
    "Examination",
    "Finding",
    "Statistics",
    "TableFigures",
    "UserCount",
    "UserFigures",
    "examine",
    "list_users",
    "report",
    "reporting",
    "statistics",
    "table_sizes",
]
