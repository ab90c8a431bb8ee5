"""The services as ADK makes them: from a URI, with keywords."""

from typing import Any, Literal

from adkpg.adk.databases import SharedDatabases
from adkpg.database import Database
from adkpg.memory.service import PgVectorMemoryService
from adkpg.remember.policy import Remember
from adkpg.sessions.service import DatabaseSessionService

# ADK makes the two services of a process apart from each other, and a services.yaml names nothing
# but classes: so this is where they meet. It keeps nothing alive.
_SHARED = SharedDatabases()


class SessionService(DatabaseSessionService):
    """`DatabaseSessionService` for ``--session_service_uri``.

    Shares the `Database` of its URI with the `MemoryService` of the same URI in this process. ADK
    closes neither; their connections end with the event loop that opened them.

    Args:
      uri: ``adkpg://`` (``ADKPG_DATABASE_URL``), ``adkpg://embedded``, or
        ``adkpg://user:password@host/database?options``.
      agents_dir: Given by ADK; not used.
      on_conflict: As for `DatabaseSessionService`.
      remember: As for `DatabaseSessionService`; it holds for the `MemoryService` too. A
        services.yaml says it by ``ADKPG_REMEMBER``.
      shared_events_mb: As for `DatabaseSessionService`.
      **engine_options: ``session_db_kwargs`` of ADK's ``get_fast_api_app``, as for
        `DatabaseSessionService`. They are for sessions only, so with any of them the service has
        a Database of its own.

    Raises:
      ConfigurationError: No database is named, or it cannot be read.
    """

    def __init__(
        self,
        uri: str,
        *,
        agents_dir: str | None = None,
        on_conflict: Literal["raise", "merge"] = "raise",
        remember: Remember | None = None,
        shared_events_mb: int | None = None,
        **engine_options: Any,
    ) -> None:
        self._of_memory = _SHARED.get(uri)  # kept, since the memory service finds the policy in it
        if remember:
            self._of_memory.remember_by(remember)
        super().__init__(
            Database(uri, **engine_options) if engine_options else self._of_memory,
            on_conflict=on_conflict,
            remember=remember,
            shared_events_mb=shared_events_mb,
        )


class MemoryService(PgVectorMemoryService):
    """`PgVectorMemoryService` for ``--memory_service_uri``, with the embedder of the settings.

    Shares the `Database` of its URI with the `SessionService` of the same URI in this process.

    Args:
      uri: As for `SessionService`.
      agents_dir: Given by ADK; not used.
      **options: As for `PgVectorMemoryService`.

    Raises:
      ConfigurationError: No database is named, or it or an option cannot be read.
    """

    def __init__(self, uri: str, *, agents_dir: str | None = None, **options: Any) -> None:
        super().__init__(_SHARED.get(uri), **options)
