"""The services as ADK makes them: from a URI, with keywords."""

import threading
from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl
from weakref import WeakValueDictionary

from google.adk.cli.service_registry import get_service_registry

from adkpg.adk.refused import Refused
from adkpg.artifacts.service import DatabaseArtifactService
from adkpg.database import Database
from adkpg.errors import ConfigurationError, InvalidArtifact, InvalidInput, in_public
from adkpg.interface.internal import internal
from adkpg.memory.service import PgVectorMemoryService
from adkpg.remember.policy import Remember
from adkpg.sessions.service import DatabaseSessionService
from adkpg.settings import Settings

ClassT = TypeVar("ClassT", bound=type)

SCHEME = "adkpg"

# ADK makes the services of a process apart from each other, and a services.yaml names nothing
# but classes: so this is where they meet. A Database lives and dies with the services made from it.
_shared: WeakValueDictionary[tuple[str, Settings], Database] = WeakValueDictionary()
_sharing = threading.Lock()


def _database_of(uri: str) -> Database:
    """Returns the one Database of a URI, which is made the first time; no I/O.

    The environment's settings belong to the key: ``adkpg://`` is another database once
    ``ADKPG_DATABASE_URL`` is another.
    """
    key = (uri.strip(), Settings())
    with _sharing:
        database = _shared.get(key)
        if database is None:
            database = Database(key[0], settings=key[1])
            try:
                database.connections.require_named()  # a server without a database does not start
            except ConfigurationError as exc:
                raise ConfigurationError(
                    "No database is named; set ADKPG_DATABASE_URL in the environment, such as "
                    "postgresql://user:password@host/database or embedded (ADK's servers read an "
                    "agent's .env too late)."
                ) from exc
            _shared[key] = database
    return database


def databases_of_services() -> list[Database]:
    """Returns the Databases that services of this process were made with, by their URIs."""
    with _sharing:
        return list(_shared.values())


def _answering(service: ClassT) -> ClassT:
    """Has a service raise errors in their public words, and refusals as `Refused`.

    ADK's servers answer clients with the words of what was raised: in bodies of HTTP, server-sent
    events, reasons of WebSockets, tasks of A2A. All of them come by here.
    """

    def in_public_words(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        async def made(*args: Any, **kwargs: Any) -> Any:
            try:
                with in_public():
                    return await method(*args, **kwargs)
            except InvalidInput as exc:
                if isinstance(exc, (InvalidArtifact, Refused)):  # ADK has an answer of its own
                    raise
                raise Refused(str(exc)) from exc

        return internal(made)  # in the interface it is its parent's

    for name in dir(service):
        method = getattr(service, name)
        if not name.startswith("_") and iscoroutinefunction(method):
            setattr(service, name, in_public_words(method))
    return service


@_answering
class SessionService(DatabaseSessionService):
    """`DatabaseSessionService` for ``--session_service_uri``.

    Its errors say their ``public`` sentence, since ADK's servers answer with it; the log has the
    whole message. So do those of `MemoryService` and `ArtifactService`.

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
        shared_events_mb: int = 0,
        **engine_options: Any,
    ) -> None:
        self._of_memory = _database_of(uri)  # kept, since the memory service finds the policy in it
        if remember:
            self._of_memory.remember_by(remember)
        super().__init__(
            Database(uri, **engine_options) if engine_options else self._of_memory,
            on_conflict=on_conflict,
            remember=remember,
            shared_events_mb=shared_events_mb,
        )


@_answering
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
        super().__init__(_database_of(uri), **options)


@_answering
class ArtifactService(DatabaseArtifactService):
    """`DatabaseArtifactService` for ``--artifact_service_uri``.

    Shares the `Database` of its URI with the other services of the same URI in this process.

    Args:
      uri: As for `SessionService`.
      agents_dir: Given by ADK; not used.
      **options: As for `DatabaseArtifactService`.

    Raises:
      ConfigurationError: No database is named, or it or an option cannot be read.
    """

    def __init__(self, uri: str, *, agents_dir: str | None = None, **options: Any) -> None:
        super().__init__(_database_of(uri), **options)


def task_store(uri: str, **_: Any) -> Any:
    """Returns the `DatabaseTaskStore` of ``task_store_uri`` of ADK's ``get_fast_api_app``.

    Shares the `Database` of its URI with the other services of the same URI in this process.

    Args:
      uri: As for `SessionService`; with ``app_name=alpha`` among its options all tasks are of that
        app. Without, each request tells it: see `adkpg.a2a.lifespan`.

    Raises:
      ConfigurationError: No database is named, or it cannot be read.
      ImportError: ``adkpg[a2a]`` is not installed.
    """
    from adkpg.a2a import DatabaseTaskStore  # noqa: PLC0415 - which needs adkpg[a2a]

    place, query = uri.strip().partition("?")[::2]
    given = dict(parse_qsl(query)).get("app_name")
    others = [each for each in query.split("&") if not each.startswith("app_name=")]
    uri = "?".join(each for each in (place, "&".join(others)) if each)
    return DatabaseTaskStore(_database_of(uri), app_name=given)


def register() -> None:
    """Makes ``adkpg://`` URIs known to ADK's commands: sessions, memory, artifacts, A2A's tasks.

    Does no I/O and opens no connection. Idempotent. Tables are migrated at first use for
    ``adkpg://embedded``, elsewhere with ``ADKPG_AUTO_UPGRADE=true`` only: a database that lacks
    them answers with the sentence that names ``adkpg db upgrade``.
    """
    registry = get_service_registry()
    registry.register_session_service(SCHEME, SessionService)
    registry.register_memory_service(SCHEME, MemoryService)
    registry.register_artifact_service(SCHEME, ArtifactService)
    registry._register_task_store_service(SCHEME, task_store)
