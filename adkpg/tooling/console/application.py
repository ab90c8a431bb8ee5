"""Application: the console's addresses, and what is said when something fails."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from adkpg.database import Database
from adkpg.errors import (
    AdkpgError,
    ConfigurationError,
    InvalidInput,
    PermissionDenied,
    RetryableError,
    SchemaError,
    ScopeMissing,
    SessionNotFound,
)
from adkpg.memory.service import PgVectorMemoryService
from adkpg.tooling.console import lab, masks, operating, overview, people, sessions
from adkpg.tooling.console.guard import Guard, is_script
from adkpg.tooling.console.page import HERE, Console

logger = logging.getLogger(__name__)

Handler = Callable[[Console, Request], Awaitable[Response]]

_PAGES: dict[str, Handler] = {
    "/": overview.overview,
    "/app": overview.app,
    "/session": sessions.session,
    "/session/live": sessions.live,
    "/session/preload": sessions.preload,
    "/person": people.show,
    "/memory": people.memory,
    "/export": people.download,
    "/forget": people.preview,
    "/lab": lab.show,
    "/lab/questions.json": lab.file,
    "/operations": operating.show,
    "/audit": operating.audit,
}
_ACTIONS: dict[str, Handler] = {
    "/memory/update": people.update,
    "/memory/delete": people.delete,
    "/forget/now": people.erase,
    "/lab/save": lab.save,
    "/lab/delete": lab.unsave,
    "/operations/retry": operating.retry,
    "/operations/retry-all": operating.retry_all,
}


def create_console(
    database: Database,
    *,
    memory: PgVectorMemoryService | None = None,
    compared: Mapping[str, PgVectorMemoryService] | None = None,
    token: str | None = None,
    read_only: bool = False,
    actor: Callable[[Request], str] | None = None,
    allowed_hosts: Collection[str] | None = None,
    secret: str | None = None,
) -> ASGIApp:
    """Returns the console, to be served or mounted: an ASGI app.

    Every visitor of it sees and changes what all users have said, so mount it behind your own
    authentication, or give a token. It works on any number of event loops, and never closes the
    database.

    Args:
      database: What is looked at. With row-level security its role must be one for work, except for
        the pages of one person.
      memory: The agents' memory service, whose embedder answers searches; None makes one with
        ``ADKPG_EMBEDDER``.
      compared: Further memory services by name, of other models or rerankers, which the search lab
        puts beside that one. The vectors of both models are compared, also those that the app is
        not searched with.
      token: What a browser must show once, at least 16 characters: at its login, or as ``?token=``
        in the first address. None admits all who reach it, other accounts of the machine too.
      read_only: Whether nothing can be changed.
      actor: Returns who makes a request, as the application that it is mounted in knows it: that is
        what the audit says. None is the name given at the login, or ``console``.
      allowed_hosts: The host names under which it answers; None is any. Without a token name
        ``localhost`` and the like, so that no other site can have its name lead here.
      secret: What cookies and forms are signed with; several processes that serve one console need
        the same. None is a random one.

    Raises:
      ConfigurationError: The token is too short, a service in `compared` has the name of the
        agents' model, or this ADK cannot mask credentials.
    """
    masks.require()
    console = Console(
        database,
        memory=memory if memory is not None else PgVectorMemoryService(database),
        compared=compared or {},
        actor=actor,
        read_only=read_only,
    )
    pages = Starlette(
        routes=[
            *(Route(path, _answering(console, page)) for path, page in _PAGES.items()),
            *(
                Route(path, _answering(console, action), methods=["POST"])
                for path, action in _ACTIONS.items()
            ),
            Route("/login", _answering(console, _login), methods=["GET", "POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        exception_handlers={HTTPException: _not_there(console)},
    )
    console.guard = Guard(
        pages, token=token, allowed_hosts=allowed_hosts, read_only=read_only, secret=secret
    )
    return console.guard


async def _login(console: Console, request: Request) -> Response:
    return console.page(request, "login.html")


def _not_there(console: Console) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, exc: Exception) -> Response:
        status = exc.status_code if isinstance(exc, HTTPException) else 500
        return _failure(console, request, status, "Not here", "The console has no such page.")

    return answer


def _answering(console: Console, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await handler(console, request)
        except AdkpgError as exc:
            status, title = _status(exc)
            # The whole message: who uses the console operates the service.
            return _failure(console, request, status, title, str(exc))
        except Exception:
            logger.exception("A page of the console failed.")
            return _failure(
                console,
                request,
                500,
                "A defect",
                "The console met a defect of its own; its log has the details.",
            )

    return answer


def _status(exc: AdkpgError) -> tuple[int, str]:
    if isinstance(exc, (RetryableError, SchemaError)):
        return 503, "The database does not answer as it should"
    if isinstance(exc, SessionNotFound):
        return 404, "Not found"
    if isinstance(exc, (PermissionDenied, ScopeMissing)):
        return 403, "Not allowed"
    if isinstance(exc, (InvalidInput, ConfigurationError)):
        return 400, "This cannot be done"
    return 502, "This failed"


def _failure(
    console: Console, request: Request, status: int, title: str, sentence: str
) -> Response:
    # A page that was asked for comes by itself once the database is back; a form is not sent again.
    again = status == 503 and request.method == "GET"
    if is_script(request.headers):
        return Response(sentence.encode(errors="replace"), status, media_type="text/plain")
    return console.page(
        request, "failure.html", status, title=title, sentence=sentence, again=again
    )
