"""A network between a benchmark and its server: delays what passes, and counts it.

    python -m benchmarks.network URL [--delay-ms 1.0]

Listens on a free port of this machine and prints it; answers each line of standard input with the
counts so far, and ends with the input. `Network` starts it as a process of its own, so that the
program that is measured does not pay for it.

A delay of 1 ms is that of a round trip: each burst of bytes is handed on 0.5 ms after it came, in
both directions. Bytes that follow one another do not wait for one another.
"""

import argparse
import asyncio
import json
import selectors
import statistics
import sys
import time
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit, urlunsplit

import asyncpg


@dataclass(frozen=True)
class Traffic:
    """What passed since the network was there.

    Attributes:
      sent: Bytes from clients to the server.
      received: Bytes from the server to clients.
      round_trips: Bursts of a client that follow an answer of the server.
    """

    sent: int
    received: int
    round_trips: int

    def __sub__(self, earlier: "Traffic") -> "Traffic":
        return Traffic(
            self.sent - earlier.sent,
            self.received - earlier.received,
            self.round_trips - earlier.round_trips,
        )


class Network:
    """The network's process, while the context is open.

    Args:
      server_url: The database to reach.
      delay_ms: What a round trip takes longer.
    """

    def __init__(self, server_url: str, delay_ms: float = 0) -> None:
        self._server_url = server_url
        self._delay_ms = delay_ms

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            __file__,
            self._server_url,
            "--delay-ms",
            str(self._delay_ms),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._port = int(await self._line())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    @property
    def url(self) -> str:
        """The database, reached through the network."""
        parts = urlsplit(self._server_url)
        userinfo, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{userinfo}{at}127.0.0.1:{self._port}", query=""))

    async def traffic(self) -> Traffic:
        """What has passed so far."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        return Traffic(**json.loads(await self._line()))

    async def _line(self) -> str:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("The network's process ended; see what it printed.")
        return line.decode()


async def ping_ms(url: str) -> float:
    """Returns how long a round trip takes: the median of some `select 1`."""
    connection: Any = await asyncpg.connect(url)
    times = []
    for _ in range(200):
        start = time.perf_counter()
        await connection.fetchval("select 1")
        times.append((time.perf_counter() - start) * 1000)
    await connection.close()
    return statistics.median(times)


class _Proxy:
    def __init__(self, url: str, delay_s: float) -> None:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        self._host = query.get("host", [parts.hostname or "localhost"])[0]
        self._port = int(query.get("port", [str(parts.port or 5432)])[0])
        self.delay_s = delay_s
        self.sent = 0
        self.received = 0
        self.round_trips = 0

    async def serve(self, client: "_End") -> None:
        loop = asyncio.get_running_loop()
        if self._host.startswith("/"):
            path = f"{self._host}/.s.PGSQL.{self._port}"
            _, server = await loop.create_unix_connection(lambda: _End(self, client), path)
        else:
            _, server = await loop.create_connection(
                lambda: _End(self, client), self._host, self._port
            )
        client.meet(server)

    def count(self, client: "_End", size: int, *, from_client: bool) -> None:
        if not from_client:
            self.received += size
            client.answered = True
            return
        self.sent += size
        if client.answered:
            self.round_trips += 1
            client.answered = False


class _End(asyncio.Protocol):
    """One end of a connection; the client's has no client."""

    def __init__(self, proxy: _Proxy, client: "_End | None" = None) -> None:
        self._proxy = proxy
        self._client = client
        self._peer: _End | None = None
        self._waiting: deque[bytes] = deque()
        self.answered = True
        self.transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._client is None:
            self._connecting = asyncio.get_running_loop().create_task(self._proxy.serve(self))

    def meet(self, server: "_End") -> None:
        self._peer, server._peer = server, self
        while self._waiting:
            self._hand_on(self._waiting.popleft())

    def data_received(self, data: bytes) -> None:
        self._proxy.count(self._client or self, len(data), from_client=self._client is None)
        if self._peer is None:
            self._waiting.append(data)
        else:
            self._hand_on(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._peer is not None and self._peer.transport is not None:
            self._peer.transport.close()

    def _hand_on(self, data: bytes) -> None:
        assert self._peer is not None
        if not self._proxy.delay_s:
            self._peer.write(data)
            return
        loop = asyncio.get_running_loop()
        loop.call_later(self._proxy.delay_s, self._peer.write, data)  # equal delays keep the order

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)


async def _main(url: str, delay_ms: float) -> None:
    proxy = _Proxy(url, delay_ms / 2000)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _End(proxy), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    questions = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin)
    while await questions.readline():
        counts = {"sent": proxy.sent, "received": proxy.received, "round_trips": proxy.round_trips}
        print(json.dumps(counts), flush=True)
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("url")
    parser.add_argument("--delay-ms", type=float, default=0)
    arguments = parser.parse_args()
    # epoll, the default, wakes up at whole milliseconds; select does so at microseconds.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    loop.run_until_complete(_main(arguments.url, arguments.delay_ms))


if __name__ == "__main__":
    main()
