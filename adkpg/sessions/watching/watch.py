"""Watching: new events of a session, each once, in append order."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.session import Session

from adkpg.database import Database, Source, Subject
from adkpg.errors import (
    InvalidInput,
    PermissionDenied,
    ReadOnly,
    SessionNotFound,
    StaleSession,
)
from adkpg.jsontext import read_events
from adkpg.keys import SessionKey
from adkpg.sessions.records import Marker
from adkpg.sessions.statements import await_append
from adkpg.sessions.watching import statements

_PAGE = 100
_RENEWAL_S = 20.0
_LISTENING_POLL_S = 5.0
"""How often a watcher looks for an event that the server did not announce."""


@dataclass(frozen=True)
class WatchedEvent:
    """An event that was appended to a watched session.

    Attributes:
      event: The event.
      cursor: Give it as `after` to go on after this event.
    """

    event: Event
    cursor: str


def position(after: Session | str | None) -> Marker | None:
    """Returns the place that a watcher goes on from; None is the end of the session.

    Raises:
      InvalidInput: It came neither from a stored session nor from a watched event.
    """
    if after is None:
        return None
    marker = Marker.of(after) if isinstance(after, Session) else Marker.read(after)
    if marker is None:
        raise InvalidInput(
            "after is neither a Session that this service returned nor the cursor of a watched "
            "event; load the session, or leave it out."
        )
    return marker


async def watch(
    database: Database,
    place: SessionKey,
    *,
    after: Marker | None,
    poll_interval_s: float,
    notified: bool,
) -> AsyncGenerator[WatchedEvent, None]:
    """Yields events after a place as they come; `DatabaseSessionService.watch_session` says how."""
    found = await _seen(
        database, place, lambda source: source.fetch(statements.select_position(**place))
    )
    if not found:
        raise _gone(place)
    (head,) = found
    here = after or Marker(head["incarnation"], head["revision"], head["revision_token"])
    clock = asyncio.get_running_loop()
    listener = database.run.listener()
    renewal = clock.time()
    # Whether appends may tell of themselves; those on a user's node tell its own listeners alone.
    told = notified
    with listener.listening(head["key"]) as woken:
        while True:
            told = (
                told and not await database.installation.is_distributed()
            )  # which it may be meanwhile
            if told and clock.time() >= renewal:
                try:
                    await database.run.fetch(statements.keep_watched(**place))
                except (PermissionDenied, ReadOnly):
                    told = False
                renewal = clock.time() + _RENEWAL_S
            woken.clear()
            found = await _news(database, place, here)
            for event, marker in found:
                here = marker
                yield WatchedEvent(event, str(marker))
            if found:
                continue
            wait_s = _LISTENING_POLL_S if told and listener.hears else poll_interval_s
            with suppress(TimeoutError):
                # Not wait_for: before Python 3.12 it loses a cancellation that comes as it ends.
                async with asyncio.timeout(wait_s):
                    await woken.wait()


async def _news(database: Database, place: SessionKey, here: Marker) -> list[tuple[Event, Marker]]:
    query = statements.select_news(
        **place, revision=here.revision, revision_token=here.token, limit=_PAGE
    )

    async def news(source: Source) -> list[Any]:
        return await source.fetch(query)

    rows = await _seen(database, place, news)
    if rows and rows[0]["went_back"]:
        with suppress(PermissionDenied, ReadOnly):  # who may only read
            await database.run.fetch(await_append(**place))
        rows = await _seen(database, place, news)
    if not rows:
        raise _gone(place)
    if rows[0]["incarnation"] != here.incarnation:
        raise StaleSession(
            f"Session {place['session_id']} was deleted and created again since this place; watch "
            "it from its beginning, as get_session returns it."
        )
    if rows[0]["went_back"]:
        raise StaleSession(
            f"Session {place['session_id']} went back in storage: a failover or a restored backup "
            "lost events that were watched; load it again."
        )
    new = [row for row in rows if row["seq"] is not None]
    read = read_events([row["payload"] for row in new])
    return [
        (event, Marker(here.incarnation, row["seq"], row["revision_token"]))
        for event, row in zip(read, new, strict=True)
    ]


async def _seen(
    database: Database,
    place: SessionKey,
    read: Callable[[Source], Awaitable[list[Any]]],
) -> list[Any]:
    """Reads on the primary; no later read of sessions shows less than what is told here."""
    return await database.run.read(
        read,
        Subject(place["app_name"], place["user_id"]),
        primary=True,
    )


def _gone(place: SessionKey) -> SessionNotFound:
    return SessionNotFound(
        f"Session {place['session_id']} not found; it was deleted, has expired, or was never "
        "stored."
    )
