"""Page: what every page of the console needs: services, who asks, links, and templates."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from adkpg import __version__
from adkpg.artifacts.service import DatabaseArtifactService
from adkpg.audit import Audit, acting_as
from adkpg.database import Database
from adkpg.errors import ConfigurationError
from adkpg.facts import Facts
from adkpg.memory.service import PgVectorMemoryService
from adkpg.scopes import every_scope, scope
from adkpg.sessions.service import DatabaseSessionService
from adkpg.tooling.console import forms
from adkpg.tooling.console.guard import FIELDS, Guard, visitor_of
from adkpg.tooling.console.transcript import moment
from adkpg.tooling.evaluation import SavedQuestions
from adkpg.tooling.models import Models

HERE = Path(__file__).parent

_LONGEST_VALUE = 4_000


class Console:
    """The services behind the pages.

    Args:
      database: What is looked at.
      memory: Answers searches, with the embedder of the agents.
      compared: Further services by name, for the search lab.
      actor: Returns who asks, for the audit; None is the name that was given at the login, or
        ``console``.
      read_only: Whether nothing can be changed.

    Raises:
      ConfigurationError: One of the further services has the name of the agents' own.
    """

    def __init__(
        self,
        database: Database,
        *,
        memory: PgVectorMemoryService,
        compared: Mapping[str, PgVectorMemoryService],
        actor: Callable[[Request], str] | None,
        read_only: bool,
    ) -> None:
        self.database = database
        self.memory = memory
        self.sessions = DatabaseSessionService(database, remember=False)
        self.artifacts = DatabaseArtifactService(database)
        self.facts = Facts(memory)
        self.models = Models(database)
        self.audit = Audit(database)
        self.saved = SavedQuestions(database)
        own = "words alone" if memory.embedder is None else memory.embedder.model
        if own in compared:
            raise ConfigurationError(
                f"compared has a service named {own!r}, as the agents' own is; name it otherwise."
            )
        self.services = {own: memory, **compared}
        self.read_only = read_only
        self.guard: Guard | None = None
        self._actor = actor
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        filters: dict[str, Callable[..., str]] = {
            "number": lambda value: f"{value:,}",
            "size": _size,
            "short": _short,
            "figure": _figure,
        }
        self._templates.filters |= filters
        self._templates.globals |= {
            "share": _share,
            "moment": moment,
            "now": lambda: datetime.now(UTC).isoformat(),
            "version": __version__,
        }

    @property
    def closing(self) -> bool:
        """Whether the console's server is about to end it."""
        return self.guard is not None and self.guard.closing

    def actor(self, request: Request) -> str:
        """Returns who asks."""
        named = visitor_of(request.scope).name
        return self._actor(request) if self._actor is not None else named or "console"

    def acting(self, request: Request) -> AbstractContextManager[None]:
        """Names who asks to what notes itself in the audit."""
        return acting_as(self.actor(request))

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Returns a page.

        Args:
          request: What it answers.
          template: Its name.
          status: The HTTP status.
          **values: What the template shows; it escapes all of them.
        """

        def link(path: str, **query: Any) -> str:
            given = {
                name.removesuffix("_"): value for name, value in query.items() if value is not None
            }
            root = request.scope.get("root_path", "")
            query_text = urlencode(given, errors="replace")
            return f"{root}/{path}" + (f"?{query_text}" if given else "")

        assert self.guard is not None
        text = self._templates.get_template(template).render(
            link=link,
            read_only=self.read_only,
            form_token=self.guard.form_token(visitor_of(request.scope)),
            path=request.scope["path"].removeprefix(request.scope.get("root_path", "")),
            **values,
        )
        # A text may hold lone surrogates, which no page can.
        return Response(text.encode(errors="replace"), status, media_type="text/html")

    def changing(
        self,
        request: Request,
        *,
        app_name: str,
        user_id: str | None,
        action: str,
        subject: str | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """Notes in the audit what runs inside."""
        return self.audit.recording(
            app_name=app_name,
            user_id=user_id,
            action=action,
            actor=self.actor(request),
            subject=subject,
        )


def query_of(request: Request) -> dict[str, str]:
    """Returns the fields of a request's address; of equal ones the last.

    The kinds that are ticked are one field, with commas between them.
    """
    pairs = forms.pairs(request.scope["query_string"].decode("ascii", "replace"))
    kinds = ",".join(value for name, value in pairs if name == "kinds")
    return dict(pairs) | ({"kinds": kinds} if kinds else {})


def form_of(request: Request) -> dict[str, str]:
    """Returns the fields of a request's form."""
    fields: dict[str, str] = request.scope[FIELDS]
    return fields


def back_to(request: Request, path: str, **query: str | None) -> Response:
    """Returns the way to a page, after something was changed."""
    given = {name: value for name, value in query.items() if value is not None}
    root = request.scope.get("root_path", "")
    return RedirectResponse(f"{root}/{path}?{urlencode(given, errors='replace')}", 303)


@contextmanager
def everybody() -> Iterator[None]:
    """Pages about all users are an operator's."""
    with every_scope():
        yield


@contextmanager
def person(fields: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Enters the scope that a page is about; yields its app, and its user, None for the app's own.

    Raises:
      InvalidInput: The address names none, or an id cannot be stored.
    """
    app_name = forms.required(fields, "app")
    user_id = fields.get("user")
    with scope(app_name=app_name, user_id=user_id):
        yield app_name, user_id


def _share(value: float, most: float) -> float:
    """Returns how much of a bar a value fills, from 0 to 100."""
    if most <= 0 or value <= 0:
        return 0.0
    return round(min(100.0 * value / most, 100.0), 2)


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1_000:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1_000
    return f"{count:,.1f} TB"


def _short(text: str, most: int = _LONGEST_VALUE) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text) - most:,} more characters)"


def _figure(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.3f}".rstrip("0").rstrip(".") if value else "0"


def shown_time(value: datetime | str | None) -> str:
    """Returns a moment as ISO 8601 to the second, or nothing."""
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value or ""
