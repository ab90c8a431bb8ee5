"""A proxy between driver and server: counts round trips, holds or loses answers, forgets."""

import asyncio
import socket
import struct
import weakref
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit, urlunsplit

Part = Literal["question", "answer"]


def led(url: str) -> str:
    """Returns where a database is; through the pooler, when the suite is led through one."""
    return url


class Proxy:
    """Counts round trips: bursts of the client that follow an answer of the server.

    Attributes:
      round_trips: Bursts since the proxy started; opening a connection takes several.
      lose_answers: So many next answers never arrive: when the server has given one, the client's
        connection is cut instead.
      held: Set when what `hold` named has come; it stands still until `release`.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.round_trips = 0
        self.lose_answers = 0
        self.held = asyncio.Event()
        self._released = asyncio.Event()
        self._hold: tuple[int, Part] | None = None
        self._clients: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: weakref.WeakSet[_Connection] = weakref.WeakSet()

    @property
    def url(self) -> str:
        """The same database, through the proxy."""
        parts = urlsplit(self._url)
        userinfo, at, _ = parts.netloc.rpartition("@")
        port = self._server.sockets[0].getsockname()[1]
        return urlunsplit(
            parts._replace(netloc=f"{userinfo}{at}127.0.0.1:{port}", query="sslmode=disable")
        )

    def say(self, message: bytes) -> None:
        """Sends every client a message that the server never sent."""
        for client in self._clients:
            client.write(message)

    def hold(self, round_trip: int, part: Part) -> None:
        """Holds the question or the answer of a coming round trip; 1 is the next one."""
        self.held, self._released = asyncio.Event(), asyncio.Event()
        self._hold = (self.round_trips + round_trip, part)

    def release(self) -> None:
        """Lets what is held go on, and holds nothing more."""
        self._hold = None
        self._released.set()

    async def passed(self, part: Part) -> None:
        """Returns when what the last round trip brings may go on."""
        if self._hold == (self.round_trips, part):
            self.held.set()
            await self._released.wait()

    def forget(self, *, silently: bool = False) -> None:
        """Forgets the connections that are open, as network devices do with idle ones.

        Nothing is sent. The next packet of the client is answered with a reset; silently, with
        nothing at all.
        """
        for connection in self._connections:
            connection.forgotten = "silently" if silently else "reset"

    def cut(self) -> None:
        """Ends all connections of clients."""
        for client in self._clients:
            client.transport.abort()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
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

    async def leave(self) -> None:
        """Cuts all connections, and takes none, as a server that was shut down."""
        self._port = self._server.sockets[0].getsockname()[1]
        self._server.close()
        self.cut()

    async def come_back(self) -> None:
        """Takes connections again, at the same address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: asyncio.Task[Any] | None = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._clients.add(writer)
        to_server = None
        try:
            from_server, to_server = await self._connect()
            connection = _Connection(self, writer, to_server)
            self._connections.add(connection)
            async with asyncio.TaskGroup() as group:
                group.create_task(connection.forward_questions(reader))
                group.create_task(connection.forward_answers(from_server))
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            for end in (writer, to_server):
                if end is not None:
                    end.close()
            self._tasks.discard(task)
            self._clients.discard(writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(led(self._url))
        query = parse_qs(parts.query)
        host = query.get("host", [parts.hostname or "localhost"])[0]
        port = int(query.get("port", [parts.port or 5432])[0])
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)


class _Connection:
    def __init__(
        self, proxy: Proxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._answered = True
        self.forgotten: Literal["reset", "silently"] | None = None

    async def forward_questions(self, client: asyncio.StreamReader) -> None:
        while data := await _read(client):
            if self.forgotten == "silently":
                continue
            if self.forgotten == "reset":
                sock = self._client.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self._client.transport.abort()
                break
            if self._answered:
                self._proxy.round_trips += 1
                self._answered = False
                await self._proxy.passed("question")
            self._server.write(data)
        self._server.close()

    async def forward_answers(self, server: asyncio.StreamReader) -> None:
        while data := await _read(server):
            if not self._answered:
                await self._proxy.passed("answer")
            self._answered = True
            if self._proxy.lose_answers:
                self._proxy.lose_answers -= 1
                self._client.transport.abort()
                return
            self._client.write(data)
        self._client.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(1 << 16)
    except ConnectionError:
        return b""
