"""A port where something else listens than a Postgres: the error says what it is."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from adkpg import Database, Settings
from adkpg.database import connector
from adkpg.errors import DatabaseUnavailable
from adkpg.outages.port import Listener, listener_at
from tests.fakes.proxy import Proxy

pytestmark = [pytest.mark.fault]

SHORT = Settings(connect_timeout_s=0.5, retry_timeout_s=0)
PATIENT = Settings(connect_timeout_s=0.5)
Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(
    conversation: Conversation, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """A server that has one conversation with everybody; yields its port."""
    over = asyncio.Event()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await conversation(reader, writer)
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def waiting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(served(reader, writer))
        await over.wait()
        task.cancel()

    server = await asyncio.start_server(waiting, "127.0.0.1", ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        over.set()
        server.close()


async def _told(port: int, settings: Settings = SHORT) -> str:
    async with Database(f"postgresql://u:s3cret@127.0.0.1:{port}/d", settings=settings) as database:
        with pytest.raises(DatabaseUnavailable) as caught:
            await database.current()
    assert caught.value.written is False
    said = str(caught.value)
    assert said.startswith(f"postgresql://u:***@127.0.0.1:{port}/d ")
    assert "s3cret" not in said
    return said


async def test_an_http_server_is_not_tried_again() -> None:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        said = await _told(server.server_port, PATIENT)
        await asyncio.to_thread(server.shutdown)
    assert "is no Postgres but an HTTP server; correct the host and port" in said


def _certified(place: Path) -> ssl.SSLContext:
    """A server's side of TLS, with a certificate that it signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    place.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place)
    return context


async def test_a_server_of_tls(tmp_path: Path) -> None:
    async with listening(_silent, _certified(tmp_path / "server.pem")) as port:
        assert "speaks TLS from the first byte on" in (said := await _told(port, PATIENT))
        assert "add direct_tls=1" in said


async def _silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    while await reader.read(64):
        pass


async def _ending(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Takes a connection, and ends it."""


def _saying(greeting: bytes) -> Conversation:
    async def conversation(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await _silent(reader, writer)

    return conversation


async def _redis(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(64):
        writer.write(b"-ERR unknown command\r\n")


@pytest.mark.parametrize(
    ("conversation", "words"),
    [
        (_silent, "takes connections and says nothing; check that it is a Postgres and has time"),
        (_ending, "takes connections and ends them at once; check that a Postgres runs behind"),
        (_saying(b"SSH-2.0-OpenSSH_9.2p1\r\n"), "is no Postgres but an SSH server;"),
        (_saying(b"J\x00\x00\x00\x0a8.0.36\x00"), "is no Postgres but a MySQL or MariaDB server;"),
        (_saying(b"220 mail ESMTP\r\n"), "is no Postgres but another kind of server;"),
        (_redis, "is no Postgres but a Redis server;"),
    ],
)
async def test_other_servers(conversation: Conversation, words: str) -> None:
    async with listening(conversation) as port:
        assert words in await _told(port)


async def test_nobody() -> None:
    async with listening(_silent) as port:
        pass
    assert await listener_at("127.0.0.1", port) is Listener.NOBODY
    assert "cannot be reached" in await _told(port)


async def test_a_postgres_is_known_by_its_answer(proxy: Proxy) -> None:
    port = int(proxy.url.rpartition(":")[2].partition("/")[0])
    assert await listener_at("127.0.0.1", port) is Listener.POSTGRES


async def test_whoever_waits_for_a_connection_is_told_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connector, "_SAID_AFTER_S", 0.05)
    async with listening(_silent) as port:
        url = f"postgresql://u:s3cret@127.0.0.1:{port}/d"
        async with Database(url, settings=SHORT) as database:
            waiting = [database.current() for _ in range(3)]
            failed = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(each) for each in failed} == {DatabaseUnavailable}
    assert [record.getMessage() for record in caplog.records] == [
        f"postgresql://u:***@127.0.0.1:{port}/d has not answered for 0.05 s; adkpg goes on "
        "waiting, as long as ADKPG_CONNECT_TIMEOUT_S says."
    ]


async def test_of_a_server_that_answers_nothing_is_said_later(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    call_later = loop.call_later

    def noted(delay: float, callback: Any, *arguments: Any, **options: Any) -> asyncio.TimerHandle:
        timer = call_later(delay, callback, *arguments, **options)
        if getattr(callback, "__name__", "") == "_say_to_wait":
            timers.append(timer)
        return timer

    monkeypatch.setattr(loop, "call_later", noted)
    async with Database(database_url) as database:
        assert await database.current() is not None
    assert timers
    assert all(timer.cancelled() for timer in timers)
