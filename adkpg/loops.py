"""One value for each event loop: what belongs to a loop serves no other."""

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

ValueT = TypeVar("ValueT")


class PerLoop(Generic[ValueT]):
    """Gives each event loop a value of its own, and forgets those of closed loops.

    Threads that run a loop each may share it.

    Args:
      make: Makes a loop's value when it is first asked for.
    """

    def __init__(self, make: Callable[[], ValueT]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._held: dict[asyncio.AbstractEventLoop, ValueT] = {}

    def here(self) -> ValueT:
        """Returns the running loop's value."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for closed in [held for held in self._held if held.is_closed()]:
                del self._held[closed]
            if loop not in self._held:
                self._held[loop] = self._make()
            return self._held[loop]

    def pop(self) -> ValueT | None:
        """Forgets the running loop's value and returns it; None if there is none."""
        with self._lock:
            return self._held.pop(asyncio.get_running_loop(), None)
