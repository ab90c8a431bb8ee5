"""The database: its address, its pools, its migrations, and what its errors mean."""

from adkpg.database.database import Database, Transaction, UsesDatabase
from adkpg.database.replicas.known import Floor, Known, Need
from adkpg.database.replicas.source import Prompt, Source

__all__ = [
    "Database",
    "Floor",
    "Known",
    "Need",
    "Prompt",
    "Source",
    "Transaction",
    "UsesDatabase",
]
