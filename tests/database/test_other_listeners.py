"""A port where something else listens than a Postgres, and a server that takes its time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from adkpg import Database, Settings
from adkpg.database import connector
from adkpg.errors import DatabaseUnavailable

pytestmark = [pytest.mark.fault]

SHORT = Settings(connect_timeout_s=0.5, retry_timeout_s=0)
Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(conversation: Conversation) -> AsyncIterator[int]:
    """A server that has one conversation with everybody; yields its port."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await conversation(reader, writer)
        except OSError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(served, "127.0.0.1")
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


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
    "conversation",
    [
        _silent,
        _ending,
        _saying(b"HTTP/1.0 400 Bad Request\r\n"),
        _saying(b"SSH-2.0-OpenSSH_9.2p1\r\n"),
        _saying(b"J\x00\x00\x00\x0a8.0.36\x00"),
        _redis,
    ],
)
async def test_the_place_is_named_and_the_password_is_not(conversation: Conversation) -> None:
    async with listening(conversation) as port:
        url = f"postgresql://u:s3cret@127.0.0.1:{port}/d"
        async with Database(url, settings=SHORT) as database:
            with pytest.raises(DatabaseUnavailable) as caught:
                await database.current()
    assert caught.value.written is False
    assert f"postgresql://u:***@127.0.0.1:{port}/d " in str(caught.value)
    assert "s3cret" not in str(caught.value)


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
