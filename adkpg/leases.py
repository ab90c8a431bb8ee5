"""Leases: the runs of agents that the calls of a context belong to, and what they hold.

The context (a ``ContextVar``) knows the runs that it is within; tasks and ``asyncio.to_thread``
take them along. A run that another has taken the place of writes nothing more, by whatever call.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

Where = tuple[str, str]
"""A database's address without password, and the schema."""


class Held(Protocol):
    """A run's lease of its session.

    Attributes:
      where: The database that it is about.
      ended: Whether the run is over: what it left behind is judged by revisions alone.
    """

    where: Where
    ended: bool

    @property
    def place(self) -> Mapping[str, object]:
        """The session there."""

    async def require(self) -> None:
        """Raises unless the run has its session still.

        Raises:
          InvocationLost: Another has taken its place.
        """


_CURRENT: ContextVar[tuple[Sequence[Held], ...]] = ContextVar("adkpg_leases", default=())


@contextmanager
def within(leases: Sequence[Held]) -> Iterator[None]:
    """Lets what runs inside belong to the runs of some leases; a list may get more of them."""
    before = _CURRENT.get()
    _CURRENT.set((*before, leases))
    try:
        yield
    finally:
        # Not by its token: a generator may end in another context than it began in.
        _CURRENT.set(before)


def current(where: Where) -> list[Held]:
    """Returns the leases of the context's runs in a database, the last of each session."""
    found: list[Held] = []
    for leases in reversed(_CURRENT.get()):
        for lease in leases:
            if lease.where == where and not lease.ended:
                found += [] if any(lease.place == inner.place for inner in found) else [lease]
    return found


async def require(where: Where) -> None:
    """Raises unless the context's runs in a database have their sessions still.

    No round trip, unless a lease may have lapsed.

    Raises:
      InvocationLost: Another has taken the place of one.
    """
    for lease in current(where):
        await lease.require()
