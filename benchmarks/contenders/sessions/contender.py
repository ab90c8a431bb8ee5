"""What every contender of the sessions suite can be asked to do."""

import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from google.adk.events.event import Event

APP = "benchmark"


@dataclass(frozen=True)
class Seen:
    """What a session holds, for the check.

    Attributes:
      events: The id and the content of each event, in the order they came back.
      state: The session's merged state; None if the contender keeps none.
    """

    events: list[tuple[str, str]]
    state: dict[str, Any] | None


class Service(Protocol):
    """An open contender; what a user of that package would call, and nothing around it."""

    async def create(self, user_id: str, session_id: str, state: dict[str, Any]) -> Any:
        """Creates a session; returns the live object that appends go through."""

    async def append(self, live: Any, event: Any) -> None:
        """Appends an event that was `prepared`, and its state delta."""

    async def get(self, user_id: str, session_id: str) -> Any:
        """Returns the live object with all its events."""

    async def list_sessions(self, user_id: str, limit: int) -> Sequence[str]:
        """Returns the ids of the user's newest sessions, the newest first."""

    def prepared(self, event: Event) -> Any:
        """Returns the event as the package wants it; not timed."""

    def seen(self, live: Any) -> Seen:
        """Returns what a live object that `get` returned holds; not timed."""


class Contender(Protocol):
    """A package to measure.

    Attributes:
      name: As the figures call it.
      distribution: Its name on PyPI, ``""`` if it is none.
      keeps_state: Whether sessions have a state.
      lists: Whether sessions can be listed.
      note: What a reader must know of all its figures.
    """

    name: str
    distribution: str
    keeps_state: bool
    lists: bool
    note: str

    async def prepare(self, url: str) -> None:
        """Makes the tables and indexes that the package ships, in an empty database."""

    def open(
        self, url: str, pool_size: int, *, shared: bool = False
    ) -> AbstractAsyncContextManager[Service]:
        """Opens a service on a prepared database with a pool of its own.

        Args:
          url: The database.
          pool_size: Connections, kept open; none above it.
          shared: Other services write the same sessions: the package's setting for that.
        """


def content(event: Event) -> str:
    """The content of an event as text, to compare: as JSON whose keys are sorted, as jsonb may."""
    assert event.content is not None
    return json.dumps(event.content.model_dump(mode="json", exclude_none=True), sort_keys=True)
