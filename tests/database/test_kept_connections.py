"""Connections that a cancelled caller leaves behind in the pool, and those that `close` ends."""

import asyncio
import gc
import logging
import random
from contextlib import suppress
from typing import Any

import pytest

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.errors import DatabaseUnavailable
from adkpg.tooling.operations.catalog_statements import select_recovery
from tests.fakes.conversation import USER
from tests.fakes.locks import until_connections
from tests.fakes.proxy import Proxy

pytestmark = pytest.mark.fault


async def _cancelled(service: DatabaseSessionService, after_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(after_s):
            await service.get_user_state(**USER)


@pytest.mark.parametrize("sslmode", ["prefer", "disable"])
async def test_calls_that_are_cancelled_as_they_connect_make_no_noise(
    proxy: Proxy, caplog: pytest.LogCaptureFixture, sslmode: str
) -> None:
    chance = random.Random(7)
    async with Database(proxy.url.replace("disable", sslmode)) as database:
        service = DatabaseSessionService(database)
        for _ in range(300):
            await _cancelled(service, chance.random() / 500)
        assert await service.get_user_state(**USER) == {}
    gc.collect()
    await asyncio.sleep(0)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_a_loop_that_ends_as_connections_are_opened_makes_no_noise(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def leave() -> None:
        for _ in range(5):
            await _cancelled(service, 0.002)

    service = DatabaseSessionService(database_url)
    for _ in range(20):
        asyncio.run(leave())
    gc.collect()
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
    asyncio.run(until_connections(database_url, 0))


async def test_a_connection_whose_caller_is_cancelled_serves_the_next_one(proxy: Proxy) -> None:
    settings = Settings.model_validate({"pool_size": 2})
    async with Database(proxy.url, settings=settings) as database:
        await database.run.fetch(select_recovery())
        await database.close()
        proxy.hold(1, "answer")
        connecting = asyncio.create_task(database.run.fetch(select_recovery()))
        await proxy.held.wait()
        connecting.cancel()
        await asyncio.wait({connecting})
        assert connecting.cancelled()
        assert database.connections.use()[:2] == (1, 0), "it is still opened"
        proxy.release()
        async with asyncio.timeout(30):
            while database.connections.use()[:2] != (0, 1):
                await asyncio.sleep(0)
        await database.run.fetch(select_recovery())
        assert database.connections.use()[:2] == (0, 1)


async def test_closing_fails_calls_that_are_under_way(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the server says nothing; also those that wait for a place in the pool."""
    monkeypatch.setattr("adkpg.database.pools._LONGEST_FAREWELL_S", 0.5)
    settings = Settings.model_validate({"pool_size": 1})
    database = Database(proxy.url, settings=settings)
    await database.run.fetch(select_recovery())
    proxy.hold(1, "answer")
    calls = [asyncio.create_task(database.run.fetch(select_recovery())) for _ in range(3)]
    await proxy.held.wait()
    closing = asyncio.create_task(database.close())
    failed = await asyncio.gather(*calls, return_exceptions=True)
    await closing
    proxy.release()
    assert {type(each) for each in failed} == {DatabaseUnavailable}
    assert all("was closed while a call was under way" in str(each) for each in failed)
    assert database.connections.use() == (0, 0, 0)


async def test_closing_fails_a_call_that_is_connecting(proxy: Proxy) -> None:
    database = Database(proxy.url)
    await database.run.fetch(select_recovery())
    await database.close()
    proxy.hold(1, "answer")
    connecting = asyncio.create_task(database.run.fetch(select_recovery()))
    await proxy.held.wait()
    closing = asyncio.create_task(database.close())
    for _ in range(3):
        await asyncio.sleep(0)
    proxy.release()
    await closing
    with pytest.raises(DatabaseUnavailable, match="was closed while a call was under way"):
        await connecting


async def test_a_call_of_before_closing_gives_no_place_to_the_pool_after_it(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adkpg.database.pools._LONGEST_FAREWELL_S", 0.5)
    async with Database(proxy.url) as database:
        await database.run.fetch(select_recovery())
        proxy.hold(1, "answer")
        call = asyncio.create_task(database.run.fetch(select_recovery()))
        await proxy.held.wait()
        closing = asyncio.create_task(database.close())
        while database.connections.use() != (0, 0, 0):  # the pool is set aside
            await asyncio.sleep(0)
        async with database.run.transaction():
            await asyncio.wait({call, closing})
            proxy.release()
            assert database.connections.use()[0] == 1
        assert database.connections.use()[0] == 0
        assert isinstance(call.exception(), DatabaseUnavailable)


async def test_closing_fails_calls_that_look_at_the_tables_first(proxy: Proxy) -> None:
    """They connect by the engine itself; the pool after `close` answers none of them."""
    settings = Settings.model_validate({"pool_size": 1})
    database = Database(proxy.url, settings=settings)
    proxy.hold(1, "answer")
    calls: list[asyncio.Task[Any]] = []
    calls += [asyncio.create_task(database.run.fetch(select_recovery())) for _ in range(6)]
    calls += [asyncio.create_task(database.check()) for _ in range(6)]
    await proxy.held.wait()
    await database.close()
    proxy.release()
    async with database:
        await database.run.fetch(select_recovery())
        failed = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in failed} == {DatabaseUnavailable}
        assert all("was closed while a call was under way" in str(each) for each in failed)
        assert database.connections.use()[:2] == (0, 1)
    await until_connections(proxy.url, 0)
