"""Postgres for agents built with Google's Agent Development Kit."""

from adkpg.database import Database
from adkpg.in_memory import InMemoryVectorMemoryService
from adkpg.memory.filters import SearchFilters
from adkpg.memory.policy import RememberPolicy
from adkpg.memory.service import PgVectorMemoryService
from adkpg.sessions.service import DatabaseSessionService
from adkpg.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "Database",
    "DatabaseSessionService",
    "InMemoryVectorMemoryService",
    "PgVectorMemoryService",
    "RememberPolicy",
    "SearchFilters",
    "Settings",
]
