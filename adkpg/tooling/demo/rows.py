"""Rows: what the tables hold of a demo."""

from adkpg.database import Database
from adkpg.tables import metadata
from adkpg.tooling.demo import statements
from adkpg.tooling.demo.line import Rows

APP = "adkpg_demo"
"""The app that every demo's rows belong to."""


async def count(database: Database, user_id: str) -> list[Rows]:
    """Returns how many rows of one user's demo each table holds."""
    rows = await database.run.fetch(statements.count_rows(app_name=APP, user_id=user_id))
    counts = {row["name"]: row["rows"] for row in rows}
    return [
        Rows(table=table.name, count=counts[table.name], comment=table.comment or "")
        for table in metadata.tables.values()
        if "app_name" in table.c
    ]
