"""Which server a test run gets, each way, by what the way really needs; and who starts it, when."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE

import asyncpg
import pytest

from adkpg.errors import AdkpgError
from adkpg.tooling.testing.server import Server, choose
from adkpg.tooling.testing.sharing import Shared, borrowed
from tests.fakes.checkout import CHECKOUT


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


@pytest.mark.program
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


@pytest.fixture
def begun() -> list[Server]:
    """The servers that were started."""
    return []


@pytest.fixture
def stopped() -> list[bool]:
    return []


@pytest.fixture
def shared(server: Server, begun: list[Server], stopped: list[bool]) -> Iterator[Shared]:
    def start() -> Server:
        begun.append(Server("embedded", server.url, lambda: stopped.append(True)))
        return begun[-1]

    sharing = Shared(start)
    yield sharing
    sharing.close()


# Asks as an xdist worker does: a process of its own, which may die.
_ASK = """
import sys
from adkpg.tooling.testing.sharing import borrowed
server = borrowed(sys.argv[1])
print(server.kind, server.run, server.url, flush=True)
sys.stdin.read()
"""


@pytest.mark.program
def test_one_server_is_started_for_all_who_ask_and_survives_them(
    shared: Shared, begun: list[Server], stopped: list[bool]
) -> None:
    assert begun == [], "nobody has asked"
    ask = [sys.executable, "-c", _ASK, shared.address]
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                subprocess.Popen(ask, stdin=PIPE, stdout=PIPE, text=True, cwd=CHECKOUT)
            )
            for _ in range(3)
        ]
        said = [worker.stdout.readline() for worker in workers if worker.stdout]
        assert len(begun) == 1
        assert said == [f"embedded {begun[0].run} {begun[0].url}\n"] * 3
        for worker in workers:
            worker.kill()
    assert borrowed(shared.address).run == shared.get().run == begun[0].run
    assert stopped == []


async def test_databases_that_a_worker_left_go_with_the_run(
    server: Server, shared: Shared, stopped: list[bool]
) -> None:
    lent = borrowed(shared.address)
    left = [await lent.create(), await lent.create()]
    await asyncio.to_thread(Server.close, shared.get())
    assert stopped == [True]
    connection = await asyncpg.connect(server.url)
    assert (
        await connection.fetch("SELECT WHERE $1 && array(SELECT datname FROM pg_database)", left)
        == []
    )
    await connection.close()


def test_a_server_that_does_not_start_is_told_to_each_who_asks() -> None:
    tried = []

    def start() -> Server:
        tried.append(True)
        raise OSError("no room")

    sharing = Shared(start)
    try:
        for _ in range(2):
            with pytest.raises(AdkpgError, match="did not start: OSError: no room"):
                borrowed(sharing.address)
    finally:
        sharing.close()
    assert tried == [True]
