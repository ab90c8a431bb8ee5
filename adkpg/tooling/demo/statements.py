"""Statements on what demos left in the tables."""

from functools import cache

from sqlalchemy import ColumnElement, Table, and_, func, literal, select, union_all

from adkpg.keys import ScopeKey
from adkpg.sql import APP_NAME, USER_ID, Statement
from adkpg.tables import metadata

TABLES = [table for table in metadata.tables.values() if "app_name" in table.c]
"""Those whose rows belong to apps."""


@cache
def count_rows() -> Statement[ScopeKey]:
    """Counts the rows of each table in `TABLES`, in their order."""
    counts = (
        select(literal(place).label("place"), func.count().label("count"))
        .select_from(table)
        .where(_owned(table))
        for place, table in enumerate(TABLES)
    )
    return Statement(union_all(*counts).order_by("place"))


def _owned(table: Table) -> ColumnElement[bool]:
    own = table.c.user_id == USER_ID if "user_id" in table.c else literal(True)
    return and_(table.c.app_name == APP_NAME, own)
