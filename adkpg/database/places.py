"""Places: who has a place of a pool, and who waits for one."""

import asyncio
from collections import deque

from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from adkpg.database.driver import Closed


class Places:
    """The places of a pool, each for one connection; callers that wait are served in turn.

    Args:
      most: How many.

    Attributes:
      most: How many.
      free: How many are free; none while a caller waits.
    """

    def __init__(self, most: int) -> None:
        self.most = self.free = most
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Takes a place, if one is free."""
        if not self.free:
            return False
        self.free -= 1
        return True

    async def wait(self, timeout_s: float) -> None:
        """Takes the next place that another caller gives up.

        Raises:
          PoolTimeoutError: None did in time.
          Closed: The pool was closed.
        """
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout(timeout_s):
                await place
        except BaseException as exc:  # CancelledError, too: else a place that came is lost
            if place.done() and not place.cancelled() and place.exception() is None:
                self.give()  # it came together with the end of the wait
            if isinstance(exc, TimeoutError):
                raise PoolTimeoutError(f"no place became free within {timeout_s:g} s") from exc
            raise

    def give(self) -> None:
        """Gives a place to the caller that has waited longest, or frees it."""
        while self._waiting:
            if not (place := self._waiting.popleft()).done():
                place.set_result(None)
                return
        self.free += 1

    def close(self) -> None:
        """Ends the wait of all."""
        for place in self._waiting:
            if not place.done():
                place.set_exception(Closed())
