"""Queued runs: ADK's own server lets the runs of a session take turns."""

from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adkpg.errors import AdkpgError, InvalidInput
from adkpg.sessions.doors import Door, app_of
from adkpg.sessions.invocations import LARGEST_RESULT, require_key

_READS = ("GET", "HEAD", "OPTIONS", "DELETE")
_KEY = "Idempotency-Key"
_NOT_KEPT = (
    "This request was answered before, and the answer was too large to be kept; read the session."
)
_FAILED = b'data: {"error": '  # an event of ADK's, at the end of a stream whose run has raised
_MOST_BYTES = LARGEST_RESULT // 2  # as JSON text it is longer


class QueuedRuns:
    """Middleware for ADK's server: one run at a time in a session, by whatever door.

    ::

        register()
        app = get_fast_api_app(agents_dir="agents", session_service_uri="adkpg://", web=True)
        app.add_middleware(QueuedRuns)

    The session that a request asks a `DatabaseSessionService` for first is the one that it runs in.
    The request waits for those before it, in other processes too, and holds the session until its
    run has ended. That holds for ``/run``, ``/run_sse``, ``/run_live``, A2A and your own routes,
    also for sessions that the request makes. ``GET`` and ``DELETE`` never wait. If the turn does
    not come, the request is answered 503.

    One of the requests with the same ``Idempotency-Key`` runs. The others get its answer, for a
    day. The key belongs to the session. Answers above 0.5 MB are not kept: then the others get a
    409.

    Args:
      app: The app.
      timeout_s: Longest wait for the turn, in seconds; None is ``ADKPG_INVOCATION_TIMEOUT_S``.
    """

    def __init__(self, app: ASGIApp, *, timeout_s: float | None = None) -> None:
        self._app = app
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"QueuedRuns(timeout_s={self._timeout_s})"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request, as ASGI says."""
        is_http = scope["type"] == "http"
        if (not is_http and scope["type"] != "websocket") or scope.get("method") in _READS:
            await self._app(scope, receive, send)
            return
        key = Headers(scope=scope).get(_KEY)
        if key is not None and not await _may_be_kept(key, scope, receive, send):
            return
        door = Door(timeout_s=self._timeout_s, key=key, path=scope["path"])
        answer = _Answer(send, door, kept=key is not None)
        try:
            with door.opened():
                await self._app(scope, receive, answer.send)
        except AdkpgError:  # the door's own refusal, which ADK's routes let through
            if answer.started or not door.is_shut:
                raise
        finally:
            await door.close(finished=answer.is_kept, answer=answer.result())
        if door.is_shut and not answer.started:
            await _instead(door)(scope, receive, send)


async def _may_be_kept(key: str, scope: Scope, receive: Receive, send: Send) -> bool:
    """Refuses a key that cannot be, one of a WebSocket, which has many answers, and one of A2A."""
    if scope["type"] == "websocket":
        await receive()  # that it connects
        reason = f"{_KEY} is for requests with one answer; leave it out."
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
        return False
    if app_of(scope["path"]) is not None:
        refusal = {"detail": f"{_KEY} is not for A2A, whose peers read the task instead."}
        await JSONResponse(refusal, 400)(scope, receive, send)
        return False
    try:
        require_key(key)
    except InvalidInput as exc:
        await JSONResponse({"detail": f"{_KEY}: {exc}"}, 400)(scope, receive, send)
        return False
    return True


def _instead(door: Door) -> Response:
    """Returns what is answered to a request that has no turn, or was answered before."""
    if door.refusal is not None:
        return JSONResponse({"detail": door.refusal.public}, 503, {"Retry-After": "5"})
    if door.result is None:
        return JSONResponse({"detail": _NOT_KEPT}, 409)
    return Response(door.result["body"], 200, media_type=door.result["type"])


class _Answer:
    """The app's answer on its way to the client, and what is kept of it.

    Args:
      send: As ASGI says.
      door: The request.
      kept: Whether a retry is given the answer.

    Attributes:
      started: Whether the client has the beginning of it.
    """

    def __init__(self, send: Send, door: Door, *, kept: bool) -> None:
        self.started = False
        self._send = send
        self._door = door
        self._kept = kept
        self._head: Message | None = None
        self._type: str | None = None
        self._body = bytearray()
        self._is_whole = False

    async def send(self, message: Message) -> None:
        """Passes a message on, unless the door answers.

        A stream may ask for its session when it has begun already; so its head waits for its first
        event.
        """
        kind = message["type"]
        if kind == "http.response.start":
            self._type = Headers(raw=message["headers"]).get("content-type")
            self._kept = self._kept and message["status"] == 200
            if (self._type or "").startswith("text/event-stream") and not self._door.has_turn:
                self._head = message
                return
        elif kind == "http.response.body":
            if self._head is not None:
                if self._door.is_shut:
                    return
                self.started = True
                await self._send(self._head)
                self._head = None
            self._keep(message)
        self.started = True
        await self._send(message)

    @property
    def is_kept(self) -> bool:
        """Whether it is the whole answer of a run that ended well."""
        return self._kept and self._is_whole

    def result(self) -> Any:
        """Returns what a retry is answered with; None if that is too large."""
        if len(self._body) > _MOST_BYTES:
            return None
        return {"type": self._type, "body": self._body.decode("utf-8", "replace")}

    def _keep(self, message: Message) -> None:
        body: bytes = message.get("body", b"")
        self._kept = self._kept and not body.startswith(_FAILED)
        if self._kept and len(self._body) <= _MOST_BYTES:
            self._body += body
        self._is_whole = not message.get("more_body", False)
