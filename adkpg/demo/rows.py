"""Rows: what the tables hold of a demo, and their removal."""

from sqlalchemy import ColumnElement, Table, delete, func, literal, select, union_all

from adkpg.database import Database
from adkpg.demo.line import Rows
from adkpg.tables import metadata

APP = "adkpg_demo"
"""The app that every demo's rows belong to."""


async def count(database: Database, user_id: str) -> list[Rows]:
    """Returns how many rows of a user of the demo each table holds, tables without users whole."""
    tables = list(metadata.tables.values())
    statement = union_all(
        *(
            select(literal(place).label("place"), func.count().label("count"))
            .select_from(table)
            .where(*_of_demo(table), *_of_user(table, user_id))
            for place, table in enumerate(tables)
        )
    ).order_by("place")
    rows = await database.fetch(statement, {})
    return [
        Rows(table=table.name, count=row["count"], comment=table.comment or "")
        for table, row in zip(tables, rows, strict=True)
    ]


async def forget(database: Database) -> int:
    """Deletes what demos left in the database, of all their users.

    Returns:
      How many rows it deleted.
    """
    deleted = 0
    async with database.transaction() as transaction:
        # Children first, so that no row goes uncounted by a cascade.
        for table in reversed(metadata.sorted_tables):
            if of_demo := _of_demo(table):
                gone = delete(table).where(*of_demo).returning(literal(1)).cte("gone")
                statement = select(func.count().label("count")).select_from(gone)
                rows = await transaction.fetch(statement, {})
                deleted += rows[0]["count"]
    return deleted


def _of_demo(table: Table) -> list[ColumnElement[bool]]:
    return [table.c.app_name == APP] if "app_name" in table.c else []


def _of_user(table: Table, user_id: str) -> list[ColumnElement[bool]]:
    return [table.c.user_id == user_id] if "user_id" in table.c else []
