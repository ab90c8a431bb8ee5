"""Probes: ``/livez`` and ``/readyz``, for whatever starts and restarts a process."""

import asyncio
import logging
from collections.abc import Sequence

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from adkpg.adk.services import databases_of_services
from adkpg.database import Database
from adkpg.errors import AdkpgError, DatabaseUnavailable

logger = logging.getLogger(__name__)

_LIVE, _READY = "/livez", "/readyz"


class Probes:
    """Middleware that answers ``/livez`` and ``/readyz`` before an app, such as ADK's server.

    ::

        register()
        app = get_fast_api_app(agents_dir="agents", session_service_uri="adkpg://", web=True)
        app.add_middleware(Probes)

    ``/livez`` is 200 as long as the event loop turns. It is for the supervisor that restarts a
    process. ``/readyz`` is 200 if every database answers and has this version's tables, or makes
    them at its first use (embedded, ``auto_upgrade``), else 503. It is for the load balancer. Both
    answer without authentication, so they tell only the kind of error, such as ``SchemaError``. The
    whole message, which names server and role, is in the log, once for each change.

    Args:
      app: The app.
      databases: Those that it needs; None is those that ADK's services were made with in this
        process, by their ``adkpg://`` URIs.
      timeout_s: How long a database may take to answer, in seconds.
    """

    def __init__(
        self, app: ASGIApp, *, databases: Sequence[Database] | None = None, timeout_s: float = 2
    ) -> None:
        self._app = app
        self._databases = databases
        self._timeout_s = timeout_s
        self._logged: str | None = None

    def __repr__(self) -> str:
        return f"Probes(databases={self._databases!r}, timeout_s={self._timeout_s:g})"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request, as ASGI says."""
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        asked = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if not asked or path not in (_LIVE, _READY):
            await self._app(scope, receive, send)
            return
        error = None if path == _LIVE else await self._unready()
        answer = JSONResponse(
            {"status": "ok"} if error is None else {"status": "unavailable", "error": error},
            200 if error is None else 503,
            {"Cache-Control": "no-store"},
        )
        await answer(scope, receive, send)

    async def _unready(self) -> str | None:
        """Returns the kind of error that keeps it from working, which it logs; None if it can."""
        databases = databases_of_services() if self._databases is None else self._databases
        found: AdkpgError | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                for database in databases:
                    await database.installation.require_serving()
        except TimeoutError:
            found = DatabaseUnavailable(
                f"The database does not answer within {self._timeout_s:g} s; see to its load."
            )
        except AdkpgError as exc:
            found = exc
        sentence = None if found is None else str(found)
        if sentence != self._logged:
            self._logged = sentence
            if sentence is None:
                logger.warning("Ready again.")
            else:
                logger.warning("Not ready: %s", sentence)
        return None if found is None else type(found).__name__
