"""Rows: what the tables hold of a demo, and their removal."""

from sqlalchemy import ColumnElement, Table, delete, func, literal, select, union_all

from adkpg.database import Database
from adkpg.demo.line import Rows
from adkpg.tables import metadata

APP = "adkpg_demo"
"""The app that every demo's rows belong to."""

_TABLES = [table for table in metadata.sorted_tables if "app_name" in table.c]


async def count(database: Database, user_id: str | None = None) -> list[Rows]:
    """Returns how many rows of demos each table that has apps holds, of one user or of all."""
    statement = union_all(
        *(
            select(literal(place).label("place"), func.count().label("count"))
            .select_from(table)
            .where(*_of_demo(table, user_id))
            for place, table in enumerate(_TABLES)
        )
    ).order_by("place")
    rows = await database.fetch(statement, {})
    return [
        Rows(table=table.name, count=row["count"], comment=table.comment or "")
        for table, row in zip(_TABLES, rows, strict=True)
    ]


async def forget(database: Database) -> None:
    """Deletes what demos left in the database, of all their users."""
    async with database.transaction() as transaction:
        for table in reversed(_TABLES):
            await transaction.fetch(delete(table).where(*_of_demo(table, None)), {})


def _of_demo(table: Table, user_id: str | None) -> list[ColumnElement[bool]]:
    of_user = user_id is not None and "user_id" in table.c
    return [table.c.app_name == APP, *([table.c.user_id == user_id] if of_user else [])]
