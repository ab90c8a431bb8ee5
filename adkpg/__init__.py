"""Postgres for agents built with Google's Agent Development Kit.

Each name is imported at its first use: ADK takes a second, which ``adkpg --help`` does without.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "AdkpgError",
    "Backlog",
    "Database",
    "DatabaseArtifactService",
    "DatabaseSessionService",
    "DeadJob",
    "FoundEvent",
    "Hit",
    "InMemoryVectorMemoryService",
    "Invocation",
    "Jobs",
    "Memory",
    "MemoryProfile",
    "Page",
    "PgVectorMemoryService",
    "Reason",
    "Remember",
    "RememberPolicy",
    "RetryableError",
    "SearchFilters",
    "SearchOptions",
    "SearchOverrides",
    "Settings",
    "StaleSession",
    "Users",
    "WatchedEvent",
    "every_scope",
    "redact_secrets",
    "scope",
    "set_text_search_config",
    "text_search_config",
]

if TYPE_CHECKING:
    from adkpg import (  # noqa: F401 - so that type checkers know adkpg.facts and its like
        a2a,
        adk,
        artifacts,
        documents,
        embedding,
        erasure,
        errors,
        facts,
        reranking,
        tools,
    )
    from adkpg.artifacts.service import DatabaseArtifactService
    from adkpg.database import Database
    from adkpg.errors import AdkpgError, RetryableError, StaleSession
    from adkpg.in_memory import InMemoryVectorMemoryService
    from adkpg.keys import Users
    from adkpg.memory.filters import SearchFilters
    from adkpg.memory.profile import MemoryProfile
    from adkpg.memory.queue.jobs import Backlog, DeadJob, Jobs
    from adkpg.memory.records import Memory
    from adkpg.memory.search.hits import Hit, Reason
    from adkpg.memory.search.options import SearchOptions, SearchOverrides
    from adkpg.memory.service import PgVectorMemoryService
    from adkpg.memory.write.configuration import set_text_search_config, text_search_config
    from adkpg.pages import Page
    from adkpg.remember.policy import Remember, RememberPolicy
    from adkpg.remember.secrets import redact_secrets
    from adkpg.scopes import every_scope, scope
    from adkpg.sessions.finding import FoundEvent
    from adkpg.sessions.invocations import Invocation
    from adkpg.sessions.service import DatabaseSessionService
    from adkpg.sessions.watching.watch import WatchedEvent
    from adkpg.settings import Settings
else:
    _MODULES = {
        "AdkpgError": "errors",
        "Backlog": "memory.queue.jobs",
        "Database": "database",
        "DatabaseArtifactService": "artifacts.service",
        "DatabaseSessionService": "sessions.service",
        "DeadJob": "memory.queue.jobs",
        "FoundEvent": "sessions.finding",
        "Hit": "memory.search.hits",
        "InMemoryVectorMemoryService": "in_memory",
        "Invocation": "sessions.invocations",
        "Jobs": "memory.queue.jobs",
        "Memory": "memory.records",
        "MemoryProfile": "memory.profile",
        "Page": "pages",
        "PgVectorMemoryService": "memory.service",
        "Reason": "memory.search.hits",
        "Remember": "remember.policy",
        "RememberPolicy": "remember.policy",
        "RetryableError": "errors",
        "SearchFilters": "memory.filters",
        "SearchOptions": "memory.search.options",
        "SearchOverrides": "memory.search.options",
        "Settings": "settings",
        "StaleSession": "errors",
        "Users": "keys",
        "WatchedEvent": "sessions.watching.watch",
        "every_scope": "scopes",
        "redact_secrets": "remember.secrets",
        "scope": "scopes",
        "set_text_search_config": "memory.write.configuration",
        "text_search_config": "memory.write.configuration",
    }
    _PACKAGES = (
        "a2a",
        "adk",
        "artifacts",
        "documents",
        "embedding",
        "erasure",
        "errors",
        "facts",
        "reranking",
        "tools",
    )

    def __getattr__(name):
        if name in _PACKAGES:
            return import_module(f"adkpg.{name}")
        if name not in _MODULES:
            raise AttributeError(f"module 'adkpg' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"adkpg.{_MODULES[name]}"), name)
        return found

    def __dir__():
        return [*__all__, *_PACKAGES]
