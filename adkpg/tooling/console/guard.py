"""Guard: who may ask the console for what, before any page is made."""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Collection
from html import escape
from typing import Any
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.tooling.console import forms

FIELDS = "adkpg.tooling.console.fields"
"""Where in a request's scope the fields of its form are."""

VISITOR = "adkpg.tooling.console.visitor"
"""Where in a request's scope the `Visitor` is."""

_LARGEST_FORM = 1_000_000
_SHORTEST_TOKEN = 16
_LONGEST_NAME = 100
_INVITATION_S = 600
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Visitor:
    """One browser: what its cookie says.

    Attributes:
      id: Random.
      name: Who it says that it is; ``""`` if it was not asked.
      admitted: Whether it has shown the token.
    """

    def __init__(self, id: str, name: str, *, admitted: bool) -> None:
        self.id = id
        self.name = name
        self.admitted = admitted


class Guard:
    """Middleware: hosts, the token, forged forms, the read-only mode, and headers of safety.

    Args:
      app: The pages.
      token: What a browser must show once; None admits every visitor.
      allowed_hosts: The names under which the console is asked for; None is any.
      read_only: Refuses everything that is no GET.
      secret: What cookies and forms are signed with.

    Attributes:
      closing: Set by its server when it is about to end: no page waits for news any longer.

    Raises:
      ConfigurationError: The token is too short to keep anybody out.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None,
        allowed_hosts: Collection[str] | None,
        read_only: bool,
        secret: str | None,
    ) -> None:
        if token is not None and len(token) < _SHORTEST_TOKEN:
            raise ConfigurationError(
                f"The console's token has {len(token)} characters; give at least "
                f"{_SHORTEST_TOKEN}, such as `openssl rand -hex 16` prints."
            )
        self.closing = False
        self._app = app
        self._token = None if token is None else token.encode()
        self._hosts = None if allowed_hosts is None else {each.lower() for each in allowed_hosts}
        self._read_only = read_only
        own = secret.encode() if secret is not None else secrets.token_bytes(32)
        # Another token makes all cookies void that the one before was shown for.
        self._key = hmac.digest(own, self._token or b"", hashlib.sha256)
        self._invitations: dict[str, tuple[float, Callable[[], None] | None]] = {}

    def invite(
        self, *, lasts_s: float = _INVITATION_S, used: Callable[[], None] | None = None
    ) -> str:
        """Returns a token for an address, ``?token=``: it lets in one browser, once.

        Args:
          lasts_s: For how long, in seconds.
          used: Is called when a browser has shown it.
        """
        token = secrets.token_urlsafe(24)
        # Looked up by its signature: how long that takes says nothing of the token.
        self._invitations[self._signed(f"invitation:{token}")] = time.monotonic() + lasts_s, used
        return token

    def _invited(self, token: str) -> bool:
        """Whether a token is an invitation, which it is no more from now on."""
        found = self._invitations.pop(self._signed(f"invitation:{token}"), None)
        if found is None or time.monotonic() >= found[0]:
            return False
        if found[1] is not None:
            found[1]()
        return True

    def form_token(self, visitor: Visitor) -> str:
        """Returns what only this visitor's forms carry."""
        return self._signed(f"form:{visitor.id}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or lets the pages answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        request = Request(scope, receive)
        visitor, known = self._visitor(request)
        scope[VISITOR] = visitor
        answer = await self._answer(request, visitor, known=known)
        cookie = None if known and answer is None else self._cookie(request, visitor)
        if not visitor.admitted and _is_foreign(request):
            cookie = None  # a browser keeps its own from other sites: this would replace it

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if cookie is not None:
                    headers.append("Set-Cookie", cookie)
            await send(message)

        await (answer or self._app)(scope, receive, sending)

    async def _answer(self, request: Request, visitor: Visitor, *, known: bool) -> Response | None:
        """Returns what is said without any page; None leaves it to the pages."""
        host = _split("//" + request.headers.get("host", "")).hostname or ""
        if self._hosts is not None and host.lower() not in self._hosts:
            return _refused(
                421,
                f"The console does not answer under the name {host[:100]!r}; use the address "
                "that it printed.",
            )
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        reads = request.method in ("GET", "HEAD")
        if reads and path.startswith("/static/"):
            return None
        login = path == "/login"
        given = request.query_params.get("token")
        if reads and given is not None and self._token is not None:
            once = request.method == "GET" and self._invited(given)
            if once or hmac.compare_digest(given.encode(), self._token):
                visitor.admitted = True
                # The token does not stay in the address, which is shown and kept.
                return RedirectResponse(request.url.remove_query_params("token").path or "/", 303)
            return _refused(
                403,
                "The token is wrong, or its address was opened before or is too old; log in with "
                "the console's token, or start the console again.",
            )
        if reads and not known and _is_foreign(request):
            return _own_step(request)
        fields: dict[str, str] = {}
        if not reads:
            refusal = await self._read_form(request, visitor, fields)
            if refusal is not None:
                return refusal
        if self._token is not None and not visitor.admitted:
            if not reads and login:
                name = fields.get("name", "").strip()[:_LONGEST_NAME]
                if not hmac.compare_digest(fields.get("token", "").encode(), self._token):
                    return _refused(403, "The token is wrong; go back and try again.")
                visitor.admitted, visitor.name = True, name
                return RedirectResponse(request.scope.get("root_path", "") + "/", 303)
            if not login:
                if reads:
                    return RedirectResponse(request.scope.get("root_path", "") + "/login", 303)
                return _refused(403, "The browser has shown no token; open the console again.")
        if not reads and self._read_only:
            return _refused(403, "The console is read-only; nothing was changed.")
        return None

    async def _read_form(
        self, request: Request, visitor: Visitor, fields: dict[str, str]
    ) -> Response | None:
        if request.method != "POST":
            return _refused(405, f"The console does not know {request.method}.")
        if _is_foreign(request):
            return _refused(403, "Another site sent the form; nothing was changed.")
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > _LARGEST_FORM:
                return _refused(413, "The form has more than 1 MB; nothing was changed.")
        try:
            fields.update(forms.pairs(body.decode()))
        except (UnicodeDecodeError, InvalidInput):
            return _refused(400, "The form cannot be read; go back and try again.")
        if not hmac.compare_digest(
            fields.get("form_token", "").encode(), self.form_token(visitor).encode()
        ):
            return _refused(
                403,
                "The form is out of date or not from this console; load the page again, "
                "then send it.",
            )
        request.scope[FIELDS] = fields
        return None

    def _visitor(self, request: Request) -> tuple[Visitor, bool]:
        """Returns who asks, and whether their cookie was ours."""
        # Starlette's reading: the standard library's gives all up for a strange one of another's.
        value, _, signature = request.cookies.get(_cookie_name(request), "").rpartition(".")
        if value and hmac.compare_digest(signature.encode(), self._signed(value).encode()):
            id, admitted, name = value.split(".")
            decoded = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
            return Visitor(id, decoded, admitted=admitted == "1"), True
        return Visitor(secrets.token_hex(16), "", admitted=False), False

    def _cookie(self, request: Request, visitor: Visitor) -> str:
        name = base64.urlsafe_b64encode(visitor.name.encode()).decode().rstrip("=")
        value = f"{visitor.id}.{int(visitor.admitted)}.{name}"
        path = request.scope.get("root_path", "") or "/"
        secure = "; Secure" if request.url.scheme == "https" else ""
        return (
            f"{_cookie_name(request)}={value}.{self._signed(value)}; Path={path}; HttpOnly; "
            f"SameSite=Strict{secure}"
        )

    def _signed(self, value: str) -> str:
        return hmac.digest(self._key, value.encode(), hashlib.sha256).hex()


def _cookie_name(request: Request) -> str:
    # Cookies know hosts and no ports: two consoles of one machine keep theirs apart.
    port = (request.scope.get("server") or ("", 0))[1]
    return f"adkpg_console_{port}"


def _is_foreign(request: Request) -> bool:
    site = request.headers.get("sec-fetch-site")
    if site is not None:  # a browser's own word, which no page can write; a proxy may change Host
        return site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    if origin is None:
        return False
    return _split(origin).netloc.lower() != request.headers.get("host", "").lower()


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:  # half an IPv6 address, and the like
        return urlsplit("")


def _own_step(request: Request) -> Response:
    """Leads to the same page by a step of the console's own, to which a browser adds the cookie."""
    query = request.scope["query_string"].decode("ascii", "replace")
    return HTMLResponse(f'<meta http-equiv="refresh" content="0;url=?{escape(query)}">')


def _refused(status: int, sentence: str) -> Response:
    return PlainTextResponse(sentence + "\n", status)


def is_script(headers: Headers) -> bool:
    """Whether the console's own script asks, which wants a part of a page."""
    return headers.get("x-console") == "1"


def visitor_of(scope: Any) -> Visitor:
    """Returns who asks."""
    found: Visitor = scope[VISITOR]
    return found
