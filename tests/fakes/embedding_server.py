import contextlib
import json
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Reply:
    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    silent: bool = False  # say nothing until the server closes


Answer = Callable[[Request], Reply]


class EmbeddingServer:
    """A real HTTP server: it answers from the script first, then by the default, and keeps all."""

    def __init__(self, default: Answer) -> None:
        self.requests: list[Request] = []
        self.script: deque[Reply | Answer] = deque()
        self.connections = 0
        self._default = default
        self._closing = threading.Event()
        self._idle = threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        answer = self.script.popleft() if self.script else self._default
        return answer if isinstance(answer, Reply) else answer(request)

    def opened(self, connection: socket.socket) -> None:
        with self._idle:
            self.connections += 1
            self._sockets.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._idle:
            self._sockets.discard(connection)
            self._idle.notify_all()

    def wait_for_close(self) -> None:
        self._closing.wait()

    def all_connections_closed(self) -> bool:
        """Tell whether the clients close all their connections, waiting a while for the news."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._sockets, timeout=10)

    def close(self) -> None:
        self._closing.set()
        self._http.shutdown()
        with self._idle:
            for connection in self._sockets:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, owner: EmbeddingServer) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def setup(self) -> None:
        super().setup()
        self.server.owner.opened(self.connection)

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        self.server.owner.closed(self.connection)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.owner.answer(Request(self.path, headers, json.loads(raw)))
        if reply.silent:
            self.server.owner.wait_for_close()
            self.close_connection = True
            return
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        self.send_header("content-length", str(len(body)))
        for name, value in ({"content-type": "application/json"} | reply.headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


def vector_of(text: str, dimensions: int) -> list[float]:
    """Return a vector that tells its text: far from unit length, unlike for each text."""
    return [float(len(text)), *(float(sum(text.encode()) % (k + 7)) for k in range(1, dimensions))]
