"""A network that can be cut: a TCP port of this machine before a server's Unix socket."""

import asyncio
from types import TracebackType
from typing import Self


class Cable:
    """Passes connections on until it is cut.

    Args:
      socket_path: The server's.

    Attributes:
      port: Where it listens.
    """

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._whole = True
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cut(self, seconds: float) -> int:
        """Resets all connections, and new ones for so long; returns how many were open."""
        self._whole, hit = False, len(self._writers) // 2
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(seconds)
        self._whole = True
        return hit

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if not self._whole:
            writer.transport.abort()
            return
        try:
            answers, questions = await asyncio.open_unix_connection(self._socket_path)
        except OSError:  # the server is down
            writer.transport.abort()
            return
        both = {writer, questions}
        self._writers |= both
        try:
            await asyncio.gather(_pass(reader, questions), _pass(answers, writer))
        finally:
            self._writers -= both
            for each in both:
                each.transport.abort()


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    except ConnectionError:
        pass
    target.transport.abort()
