"""The database: its address, its pools, its migrations, and what its errors mean."""

import adkpg.database.alembic_log  # noqa: F401 - before Alembic is imported, which it keeps quiet
from adkpg.database.database import Database, Transaction, UsesDatabase

__all__ = ["Database", "Transaction", "UsesDatabase"]
