"""What a user's code does inside a connect is an outage or a ConfigurationError, and never raw."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.errors import ConfigurationError, DatabaseUnavailable
from tests.fakes.conversation import USER
from tests.fakes.proxy import Proxy
from tests.fakes.toys import ToyEmbedder

pytestmark = pytest.mark.fault

AT_ONCE = Settings(retry_timeout_s=0)
ERRORS = [RuntimeError("no token"), ConnectionError("no token"), TimeoutError("no token")]
ERRORS += [ValueError("no token"), OSError(24, "no token"), KeyError("no token")]


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> str:
        raise error

    return fail


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["password", "connect_args"])
async def test_a_password_function_that_raises_is_an_outage(
    proxy: Proxy, error: Exception, where: str
) -> None:
    given: Any = {"password": raising(error)}
    if where == "connect_args":
        given = {"connect_args": given}
    async with Database(proxy.url, settings=AT_ONCE, **given) as database:
        service = DatabaseSessionService(database)
        for call in (database.current, partial(service.list_sessions, app_name="app")):
            with pytest.raises(DatabaseUnavailable, match=r"function of .*no token") as caught:
                await call()
            assert caught.value.written is False
            cause: BaseException | None = caught.value
            while cause is not None and cause is not error:
                cause = cause.__cause__
            assert cause is error


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_password_function_that_fails_for_a_while_is_asked_again(
    proxy: Proxy, is_async: bool
) -> None:
    asked: list[int] = []

    def password() -> str:
        asked.append(1)
        if len(asked) < 3:
            raise RuntimeError("not yet")
        return "any"

    async def later() -> str:
        await asyncio.sleep(0)
        return password()

    async with Database(proxy.url, password=later if is_async else password) as database:
        assert await DatabaseSessionService(database).get_user_state(**USER) == {}
    assert len(asked) >= 3


async def test_a_worker_waits_for_a_password_and_goes_on(proxy: Proxy) -> None:
    asked: list[int] = []
    failed = asyncio.Event()

    def password() -> str:
        asked.append(1)
        if len(asked) > 2:
            failed.set()
        if len(asked) < 5:
            raise RuntimeError("not yet")
        return "any"

    async with Database(proxy.url) as database:
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        entry = MemoryEntry(content=types.Content(parts=[types.Part(text="a train")]))
        await memory.add_memory(**USER, memories=[entry])
    async with Database(proxy.url, password=password, settings=AT_ONCE) as database:
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        stop = asyncio.Event()
        worker = asyncio.create_task(memory.run_worker(stop, poll_interval_s=0.01))
        async with asyncio.timeout(30):
            await failed.wait()
            while not worker.done() and len(asked) < 5:
                await asyncio.sleep(0.01)
        assert not worker.done()
        stop.set()
        await worker


@pytest.mark.parametrize("given", [None, 7, b"secret"])
async def test_a_password_function_that_gives_no_text_is_told_so(proxy: Proxy, given: Any) -> None:
    async with Database(proxy.url, password=lambda: given) as database:
        with pytest.raises(ConfigurationError, match="return a str"):
            await database.current()


async def test_a_password_function_that_hangs_is_given_up(proxy: Proxy) -> None:
    async def hang() -> str:
        await asyncio.Event().wait()
        return ""

    settings = Settings(retry_timeout_s=0, connect_timeout_s=0.1)
    async with Database(proxy.url, password=hang, settings=settings) as database:
        with pytest.raises(DatabaseUnavailable, match="password function"):
            await database.current()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("by", ["async_creator", "do_connect"])
async def test_an_engine_whose_connect_raises(database_url: str, error: Exception, by: str) -> None:
    if by == "async_creator":
        engine = create_async_engine("postgresql+asyncpg://", async_creator=raising(error))
    else:
        engine = create_async_engine(database_url.replace("://", "+asyncpg://", 1))
        event.listen(engine.sync_engine, "do_connect", raising(error))
    async with Database(engine=engine, settings=AT_ONCE) as database:
        for call in (database.current, database.check, database.installation.found):
            with pytest.raises(DatabaseUnavailable) as caught:
                await call()
            assert isinstance(error, OSError) or "could not connect: " in str(caught.value)
        with pytest.raises(DatabaseUnavailable):
            await DatabaseSessionService(database).get_user_state(**USER)


@pytest.mark.parametrize(
    ("option", "state"),
    [
        *((option, "missing") for option in ("sslrootcert", "sslcrl", "sslcert", "sslkey")),
        *((option, "junk") for option in ("sslrootcert", "sslcrl", "sslcert")),
    ],
)
@pytest.mark.parametrize("named_in", ["url", "environment"])
async def test_a_file_of_the_clients_that_cannot_be_used_is_named(
    proxy: Proxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    state: str,
    named_in: str,
) -> None:
    path = tmp_path / "own.pem"
    if state == "junk":
        path.write_text("junk")
    url = proxy.url.replace("sslmode=disable", "sslmode=require")
    if named_in == "url":
        url += f"&{option}={path}"
    else:
        monkeypatch.setenv(f"PG{option.upper()}", str(path))
    if option == "sslkey":
        url += f"&sslcert={path}"
    async with Database(url) as database:
        with pytest.raises(ConfigurationError, match=rf"own.pem that {option} names"):
            await database.current()


async def test_the_systems_certificates_are_trusted_where_libpq_would(proxy: Proxy) -> None:
    url = proxy.url.replace("sslmode=disable", "sslrootcert=system")
    async with Database(url, settings=AT_ONCE) as database:
        with pytest.raises(DatabaseUnavailable, match="could not agree on TLS"):
            await database.current()
    async with Database(f"{url}&sslmode=require") as database:
        with pytest.raises(ConfigurationError, match="needs sslmode=verify-full"):
            await database.current()
