"""Network clients of an SDK: one for each event loop, closed when its loop ends."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

ClientT = TypeVar("ClientT")


class LoopClients(Generic[ClientT]):
    """Give each event loop a client of its own, since a connection serves the loop it was made in.

    Safe to share between threads that run a loop each. ``asyncio.run`` and its like finish a
    loop's asynchronous generators before they close it, so a client that is held by one is closed
    with its loop, and no connection outlives it.
    """

    def __init__(self, connect: Callable[[], AsyncGenerator[ClientT, None]]) -> None:
        """Store how to connect; nothing is opened yet.

        Args:
            connect: Makes a client, yields it once and closes it afterwards. It must not await
                before the yield, so that two tasks of a loop never make two.
        """
        self._connect = connect
        self._lock = threading.Lock()
        self._held: dict[
            asyncio.AbstractEventLoop, tuple[AsyncGenerator[ClientT, None], ClientT]
        ] = {}

    async def get(self) -> ClientT:
        """Return the running loop's client, made now if the loop has none."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for closed in [held for held in self._held if held.is_closed()]:
                del self._held[closed]
            entry = self._held.get(loop)
        if entry is not None:
            return entry[1]
        generator = self._connect()
        client = await anext(generator)
        with self._lock:
            self._held[loop] = (generator, client)
        return client

    async def close(self) -> None:
        """Close the running loop's client, if it has one; the next `get` makes another."""
        with self._lock:
            entry = self._held.pop(asyncio.get_running_loop(), None)
        if entry is not None:
            await entry[0].aclose()
