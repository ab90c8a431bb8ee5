"""The database: its address, its pools, its migrations, and what its errors mean."""

from adkpg.database.database import Database, Transaction, UsesDatabase

__all__ = ["Database", "Transaction", "UsesDatabase"]
