"""Which server a test run gets, each way, by what the way really needs."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import asyncpg
import pytest

from tests import server as servers
from tests.server import Server, choose


class _Engine(BaseHTTPRequestHandler):
    """What a Docker engine says to a client that asks whether it is there."""

    def do_GET(self) -> None:
        if self.path.endswith("/_ping"):
            self._say(b"OK", "text/plain")
        elif self.path.endswith("/version"):
            self._say(json.dumps({"ApiVersion": "1.51"}).encode(), "application/json")
        else:
            self.send_error(404)

    def _say(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the test's output quiet."""


@contextmanager
def engine(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{http.server_address[1]}"
        finally:
            http.shutdown()
            thread.join()


def _unexpected() -> Server:
    pytest.fail("this server must not be started")


async def test_a_named_server_comes_first(server: Server) -> None:
    chosen = choose(
        {"ADKPG_TEST_DATABASE_URL": server.url},
        engine_answers=lambda _: True,
        container=_unexpected,
        embedded=_unexpected,
    )
    assert chosen.kind == "url"
    name = await chosen.create()
    connection = await asyncpg.connect(chosen.url_of(name))
    assert await connection.fetchval("SELECT current_database()") == name
    await connection.close()
    await chosen.drop(name)


def test_an_engine_that_answers_gets_the_container() -> None:
    container = Server("docker", "postgresql://postgres@localhost/postgres")
    with engine(_Engine) as host:
        chosen = choose({"DOCKER_HOST": host}, container=lambda: container, embedded=_unexpected)
    assert chosen is container


class _Broken(_Engine):
    def do_GET(self) -> None:
        self.send_error(500)


def test_an_engine_that_fails_is_none() -> None:
    embedded = Server("embedded", "postgresql://postgres@/adkpg")
    with engine(_Broken) as host:
        chosen = choose({"DOCKER_HOST": host}, container=_unexpected, embedded=lambda: embedded)
    assert chosen is embedded


async def test_without_an_engine_the_embedded_server_starts(tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/docker.sock"
    chosen = choose({"DOCKER_HOST": nowhere}, container=_unexpected)
    try:
        assert chosen.kind == "embedded"
        connection = await asyncpg.connect(chosen.url)
        assert await connection.fetchval("SHOW fsync") == "off"
        await connection.close()
    finally:
        chosen.stop()


def test_a_server_is_handed_to_workers_whole() -> None:
    server = Server("embedded", "postgresql://postgres@/adkpg?host=/run/a b")
    assert servers.joined(servers.handed_over(server)) == server
