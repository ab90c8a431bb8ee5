"""Sessions: a session as people read it, live, and what memory would have said."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from google.adk.sessions.session import Session
from starlette.requests import Request
from starlette.responses import Response

from adkpg.errors import InvalidInput, SessionNotFound, StaleSession
from adkpg.tooling.console import forms
from adkpg.tooling.console.masks import masked_state
from adkpg.tooling.console.page import Console, person, query_of
from adkpg.tooling.console.transcript import Step, marked_since, pretty, steps_of
from adkpg.tools import Preloaded, preloaded

_PAGE = 100
_WAIT_S = 10.0
_LOOK_S = 0.5  # how often it is looked whether the console ends


async def session(console: Console, request: Request) -> Response:
    """Shows a page of a session: the one that is asked for, or has an event, or else the last."""
    fields = query_of(request)
    with person(fields) as (app_name, user_id):
        found, initial = await _read(console, fields, app_name, user_id or "")
        count = len(found.events)
        pages = max(1, -(-count // _PAGE))
        event_id = fields.get("event", "")
        usual = next(
            (place // _PAGE + 1 for place, each in enumerate(found.events) if each.id == event_id),
            pages,
        )
        page = min(forms.whole(fields, "page", usual), pages)
        shown = await _steps(found, initial, (page - 1) * _PAGE, page * _PAGE)
        blocks: dict[int, Preloaded] = {}
        if fields.get("preload"):
            for step in shown:
                if step.text:
                    blocks[step.number] = await _preloaded(console, found, step)
    return console.page(
        request,
        "session.html",
        session=found,
        steps=shown,
        sought=event_id,
        count=count,
        page=page,
        pages=pages,
        first=(page - 1) * _PAGE,
        state=pretty(masked_state(found.state)),
        preload=bool(fields.get("preload")),
        blocks=blocks,
        branches=sorted({event.branch for event in found.events if event.branch}),
    )


async def live(console: Console, request: Request) -> Response:
    """Answers with a session's further events once there are some, or with none after a while.

    With them come earlier ones of the page that they mark otherwise, such as by a rewind.
    """
    fields = query_of(request)
    known = forms.whole(fields, "known", 0, least=0)
    first = forms.whole(fields, "first", 0, least=0)
    with person(fields) as (app_name, user_id):
        found, initial = await _read(console, fields, app_name, user_id or "")
        if len(found.events) == known:
            await _news(console, found)
            found, initial = await _read(console, fields, app_name, user_id or "")
        marked = {place for place in marked_since(found, known=known) if place >= first}
        steps = [
            step
            for step in await _steps(found, initial, min(marked | {known}), len(found.events))
            if step.number > known or step.number - 1 in marked
        ]
    response = console.page(
        request,
        "live.html",
        session=found,
        steps=steps,
        sought="",
        count=len(found.events),
        state=pretty(masked_state(found.state)),
        blocks={},
        preload=False,
    )
    response.headers["X-Known"] = str(len(found.events))
    return response


async def _news(console: Console, found: Session) -> None:
    """Returns when a session has grown, is another one, or no page should wait any longer."""
    clock = asyncio.get_running_loop()
    deadline = clock.time() + _WAIT_S
    events = console.sessions.watch_session(
        app_name=found.app_name,
        user_id=found.user_id,
        session_id=found.id,
        after=found,
        notified=not console.read_only,
    )
    async with aclosing(events):
        waiting = asyncio.ensure_future(anext(events))
        try:
            while not waiting.done() and clock.time() < deadline and not console.closing:
                await asyncio.wait({waiting}, timeout=_LOOK_S)
        finally:
            waiting.cancel()
            await asyncio.wait({waiting})
        if not waiting.cancelled() and not isinstance(waiting.exception(), StaleSession):
            waiting.result()


async def preload(console: Console, request: Request) -> Response:
    """Shows what preload_memory would have put before one turn."""
    fields = query_of(request)
    number = forms.whole(fields, "number", 1)
    with person(fields) as (app_name, user_id):
        found, initial = await _read(console, fields, app_name, user_id or "")
        steps = await _steps(found, initial, number - 1, number)
        if not steps or not steps[0].text:
            raise InvalidInput(f"Event {number} of the session is not a turn of the user.")
        block = await _preloaded(console, found, steps[0])
    return console.page(request, "preload.html", session=found, step=steps[0], block=block)


async def _read(
    console: Console, fields: Mapping[str, str], app_name: str, user_id: str
) -> tuple[Session, Mapping[str, Any]]:
    """Returns a session, and its own state before the first event."""
    session_id = forms.required(fields, "session")
    while True:
        found = await console.sessions.get_session(
            app_name=app_name, user_id=user_id, session_id=session_id
        )
        if found is None:
            raise SessionNotFound(
                f"Session {session_id} not found; it was deleted, has expired, or was never stored."
            )
        initial = await console.sessions.get_initial_state(found)
        if initial is not None:
            return found, initial


async def _steps(found: Session, initial: Mapping[str, Any], first: int, end: int) -> list[Step]:
    return await asyncio.to_thread(steps_of, found, initial, shown=range(first, end))


async def _preloaded(console: Console, found: Session, step: Step) -> Preloaded:
    return await preloaded(console.memory, session=found, event_id=step.id)
