"""The database: its address, its pools, its migrations, and what its errors mean."""

from adkpg.database.attempts import COMPARED, LOOK, WITHOUT_RACES
from adkpg.database.database import Database, UsesDatabase
from adkpg.database.replicas.seen import Subject
from adkpg.database.replicas.source import Prompt, Source
from adkpg.database.transaction import Transaction

__all__ = [
    "COMPARED",
    "LOOK",
    "WITHOUT_RACES",
    "Database",
    "Prompt",
    "Source",
    "Subject",
    "Transaction",
    "UsesDatabase",
]
