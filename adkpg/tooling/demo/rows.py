"""Rows: what the tables hold of a demo."""

from adkpg.database import Database
from adkpg.tooling.demo import statements
from adkpg.tooling.demo.line import Rows

APP = "adkpg_demo"
"""The app that every demo's rows belong to."""


async def count(database: Database, user_id: str) -> list[Rows]:
    """Returns how many rows of one user's demo each table holds."""
    rows = await database.run.fetch(statements.count_rows(), {"app_name": APP, "user_id": user_id})
    return [
        Rows(table=table.name, count=row["count"], comment=table.comment or "")
        for table, row in zip(statements.TABLES, rows, strict=True)
    ]
