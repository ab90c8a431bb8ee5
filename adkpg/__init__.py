"""Postgres for agents built with Google's Agent Development Kit.

Each name is imported at its first use: ADK takes a second, which ``adkpg --help`` does without.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Backlog",
    "Database",
    "DatabaseSessionService",
    "EventsPage",
    "Hit",
    "InMemoryVectorMemoryService",
    "Jobs",
    "ListedSessions",
    "MemoriesPage",
    "Memory",
    "PgVectorMemoryService",
    "Reason",
    "Remember",
    "RememberPolicy",
    "SearchFilters",
    "SearchOptions",
    "SearchOverrides",
    "SessionsPage",
    "Settings",
    "redact_secrets",
    "set_text_search_config",
    "text_search_config",
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
    from adkpg.memory.pages import MemoriesPage as MemoriesPage
    from adkpg.memory.queue.jobs import Backlog as Backlog
    from adkpg.memory.queue.jobs import Jobs as Jobs
    from adkpg.memory.records import Memory as Memory
    from adkpg.memory.search.hits import Hit as Hit
    from adkpg.memory.search.hits import Reason as Reason
    from adkpg.memory.search.options import SearchOptions as SearchOptions
    from adkpg.memory.search.options import SearchOverrides as SearchOverrides
    from adkpg.memory.service import PgVectorMemoryService as PgVectorMemoryService
    from adkpg.memory.write.configuration import set_text_search_config as set_text_search_config
    from adkpg.memory.write.configuration import text_search_config as text_search_config
    from adkpg.remember.policy import Remember as Remember
    from adkpg.remember.policy import RememberPolicy as RememberPolicy
    from adkpg.remember.secrets import redact_secrets as redact_secrets
    from adkpg.sessions.pages import EventsPage as EventsPage
    from adkpg.sessions.pages import ListedSessions as ListedSessions
    from adkpg.sessions.pages import SessionsPage as SessionsPage
    from adkpg.sessions.service import DatabaseSessionService as DatabaseSessionService
    from adkpg.settings import Settings as Settings
else:
    _MODULES = {
        "Backlog": "memory.queue.jobs",
        "Database": "database",
        "DatabaseSessionService": "sessions.service",
        "EventsPage": "sessions.pages",
        "Hit": "memory.search.hits",
        "InMemoryVectorMemoryService": "in_memory",
        "Jobs": "memory.queue.jobs",
        "ListedSessions": "sessions.pages",
        "MemoriesPage": "memory.pages",
        "Memory": "memory.records",
        "PgVectorMemoryService": "memory.service",
        "Reason": "memory.search.hits",
        "Remember": "remember.policy",
        "RememberPolicy": "remember.policy",
        "SearchFilters": "memory.filters",
        "SearchOptions": "memory.search.options",
        "SearchOverrides": "memory.search.options",
        "SessionsPage": "sessions.pages",
        "Settings": "settings",
        "redact_secrets": "remember.secrets",
        "set_text_search_config": "memory.write.configuration",
        "text_search_config": "memory.write.configuration",
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
