"""For operators: how much there is, and whether all is well."""

from adkpg.tooling.operations.examining import examine
from adkpg.tooling.operations.figures import (
    AppFigures,
    Statistics,
    TableFigures,
    UserFigures,
    statistics,
    table_sizes,
)
from adkpg.tooling.operations.findings import Examination, Finding
from adkpg.tooling.operations.people import AppCount, UserCount, apps_of, list_users
from adkpg.tooling.operations.reporting import report, reporting

__all__ = [
    "AppCount",
    "AppFigures",
    "Examination",
    "Finding",
    "Statistics",
    "TableFigures",
    "UserCount",
    "UserFigures",
    "apps_of",
    "examine",
    "list_users",
    "report",
    "reporting",
    "statistics",
    "table_sizes",
]
