"""Statements on what demos left in the tables."""

from functools import cache
from typing import TypedDict

from sqlalchemy import ColumnElement, Table, and_, delete, func, literal, or_, select, union_all

from adkpg.sql import APP_NAME, USER_ID, Statement
from adkpg.tables import metadata

TABLES = [table for table in metadata.tables.values() if "app_name" in table.c]
"""Those whose rows belong to apps."""


class OwnerParameters(TypedDict):
    """Whose rows: a user's, or all of the app's."""

    app_name: str
    user_id: str | None


@cache
def count_rows() -> Statement[OwnerParameters]:
    """Counts the rows of each table in `TABLES`, in their order."""
    counts = (
        select(literal(place).label("place"), func.count().label("count"))
        .select_from(table)
        .where(_owned(table))
        for place, table in enumerate(TABLES)
    )
    return Statement(union_all(*counts).order_by("place"))


@cache
def delete_rows() -> tuple[Statement[OwnerParameters], ...]:
    """Deletes them, children first."""
    children_first = sorted(TABLES, key=metadata.sorted_tables.index, reverse=True)
    return tuple(Statement(delete(table).where(_owned(table))) for table in children_first)


def _owned(table: Table) -> ColumnElement[bool]:
    own = table.c.user_id == USER_ID if "user_id" in table.c else literal(True)
    return and_(table.c.app_name == APP_NAME, or_(USER_ID.is_(None), own))
