"""An address behind which servers take turns, as behind a DNS name or a balancer."""

import asyncio
from itertools import cycle

from tests.fakes.proxy import Proxy


class Rotation(Proxy):
    """Each connection leads to the next of some servers.

    Args:
      *urls: Of one database on each of them.
    """

    def __init__(self, *urls: str) -> None:
        super().__init__(urls[0])
        self._urls = cycle(urls)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._url = next(self._urls)
        return await super()._connect()
