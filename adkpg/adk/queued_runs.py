"""Queued runs: ADK's own server lets the runs of a session take turns."""

import os
from contextlib import AsyncExitStack

from google.adk.cli.utils.common import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adkpg.errors import RetryableError, SessionNotFound, in_public
from adkpg.sessions.service import DatabaseSessionService

_PATHS = ("/run", "/run_sse")


class _Asked(BaseModel):
    """What ADK's ``RunAgentRequest`` says of the session, under either of its names."""

    app_name: str | None = None
    user_id: str
    session_id: str


class QueuedRuns:
    """Middleware for the app of ADK's ``get_fast_api_app``: one run at a time in a session.

    ::

        register()
        app = get_fast_api_app(agents_dir="agents", session_service_uri="adkpg://", web=True)
        app.add_middleware(QueuedRuns, sessions=SessionService("adkpg://"))

    A request to ``/run`` or ``/run_sse`` waits for those before it, in other processes too, and
    holds the session until its answer has ended. One whose turn does not come, or of which the
    database does not answer now, is answered 503.

    Args:
      app: The app.
      sessions: A service on the database that the app's own session service uses.
      timeout_s: Longest wait for the turn, in seconds.
    """

    def __init__(
        self, app: ASGIApp, *, sessions: DatabaseSessionService, timeout_s: float = 60
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"QueuedRuns(sessions={self._sessions!r}, timeout_s={self._timeout_s:g})"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request, as ASGI says."""
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or path not in _PATHS:
            await self._app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        unread = [body]

        async def receive_again() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await receive()

        async with AsyncExitStack() as stack:
            try:
                asked = _Asked.model_validate_json(body)
                with in_public():
                    await stack.enter_async_context(
                        self._sessions.invocation(
                            app_name=asked.app_name or os.environ.get("ADK_DEFAULT_APP_NAME", ""),
                            user_id=asked.user_id,
                            session_id=asked.session_id,
                            timeout_s=self._timeout_s,
                        )
                    )
            except RetryableError as exc:
                refusal = JSONResponse({"detail": exc.public}, 503, {"Retry-After": "5"})
                await refusal(scope, receive, send)
                return
            except (ValueError, SessionNotFound):
                pass  # ADK answers what it makes of these
            await self._app(scope, receive_again, send)
