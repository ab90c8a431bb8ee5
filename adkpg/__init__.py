"""Postgres for agents built with Google's Agent Development Kit.

Each name is imported at its first use: ADK takes a second, which ``adkpg --help`` does without.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Database",
    "DatabaseSessionService",
    "InMemoryVectorMemoryService",
    "Memory",
    "PgVectorMemoryService",
    "RememberPolicy",
    "SearchFilters",
    "Settings",
    "redact_secrets",
]

if TYPE_CHECKING:
    from adkpg import adk as adk
    from adkpg import documents as documents
    from adkpg import embedding as embedding
    from adkpg import erasure as erasure
    from adkpg import errors as errors
    from adkpg import facts as facts
    from adkpg import models as models
    from adkpg import tools as tools
    from adkpg.database import Database as Database
    from adkpg.in_memory import InMemoryVectorMemoryService as InMemoryVectorMemoryService
    from adkpg.memory.filters import SearchFilters as SearchFilters
    from adkpg.memory.records import Memory as Memory
    from adkpg.memory.service import PgVectorMemoryService as PgVectorMemoryService
    from adkpg.remember.policy import RememberPolicy as RememberPolicy
    from adkpg.remember.secrets import redact_secrets as redact_secrets
    from adkpg.sessions.service import DatabaseSessionService as DatabaseSessionService
    from adkpg.settings import Settings as Settings
else:
    _MODULES = {
        "Database": "database",
        "DatabaseSessionService": "sessions.service",
        "InMemoryVectorMemoryService": "in_memory",
        "Memory": "memory.records",
        "PgVectorMemoryService": "memory.service",
        "RememberPolicy": "remember.policy",
        "SearchFilters": "memory.filters",
        "Settings": "settings",
        "redact_secrets": "remember.secrets",
    }
    _PACKAGES = {
        *("adk", "documents", "embedding", "erasure", "errors", "facts", "models", "tools"),
    }

    def __getattr__(name):
        if name in _PACKAGES:
            return import_module(f"adkpg.{name}")
        if name not in _MODULES:
            raise AttributeError(f"module 'adkpg' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"adkpg.{_MODULES[name]}"), name)
        return found

    def __dir__():
        return [*_MODULES, *_PACKAGES]
