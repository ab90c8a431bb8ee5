"""Network clients of an SDK: one for each event loop, closed when its loop ends."""

from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

from adkpg.loops import PerLoop

ClientT = TypeVar("ClientT")


class LoopClients(Generic[ClientT]):
    """Gives each event loop a client of its own, since a connection serves the loop it was made in.

    ``asyncio.run`` and its like finish a loop's asynchronous generators before they close it, so a
    client that is held by one is closed with its loop, and no connection outlives it.

    Args:
     connect: Makes a client, yields it once and closes it afterwards. It must not await before
      the yield, so that two tasks of a loop never make two.
    """

    def __init__(self, connect: Callable[[], AsyncGenerator[ClientT, None]]) -> None:
        self._connect = connect
        # The client and what closes it; empty until the first `get`.
        self._held: PerLoop[list[tuple[ClientT, AsyncGenerator[ClientT, None]]]] = PerLoop(list)

    async def get(self) -> ClientT:
        """Returns the running loop's client, made now if the loop has none."""
        held = self._held.here()
        if not held:
            generator = self._connect()
            held.append((await anext(generator), generator))
        return held[0][0]

    async def close(self) -> None:
        """Closes the running loop's client, if it has one; the next `get` makes another."""
        for _, generator in self._held.pop() or []:
            await generator.aclose()
