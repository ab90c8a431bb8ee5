"""Turns: the runs of agents that the calls of a context belong to.

The context (a ``ContextVar``) knows the runs that it is within; tasks and ``asyncio.to_thread``
take them along. A run that another has taken the place of writes nothing more, by whatever call.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

Where = tuple[str, str]
"""A database's address without password, and the schema."""


class Turn(Protocol):
    """A run's right to write in a session.

    Attributes:
      where: The database that it is about.
      place: The session there.
      ended: Whether the run is over: what it left behind is judged by revisions alone.
    """

    where: Where
    place: Mapping[str, object]
    ended: bool

    async def require(self) -> None:
        """Raises unless the run has its session still.

        Raises:
          InvocationLost: Another has taken its place.
        """


_CURRENT: ContextVar[tuple[Sequence[Turn], ...]] = ContextVar("adkpg_turns", default=())


@contextmanager
def within(turns: Sequence[Turn]) -> Iterator[None]:
    """Lets what runs inside belong to some turns; a list may be given more of them later."""
    before = _CURRENT.get()
    _CURRENT.set((*before, turns))
    try:
        yield
    finally:
        # Not by its token: a generator may end in another context than it began in.
        _CURRENT.set(before)


def current(where: Where) -> list[Turn]:
    """Returns the context's turns in a database that have not ended, the last one of a session."""
    found: list[Turn] = []
    for turns in reversed(_CURRENT.get()):
        for turn in turns:
            if turn.where == where and not turn.ended:
                found += [] if any(turn.place == inner.place for inner in found) else [turn]
    return found


async def require(where: Where) -> None:
    """Raises unless the context's runs in a database have their sessions still.

    No round trip, unless a lease may have lapsed.

    Raises:
      InvocationLost: Another has taken the place of one.
    """
    for turn in current(where):
        await turn.require()
