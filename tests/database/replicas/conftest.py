"""One primary and one standby for a module, and for each test a database of theirs."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from adkpg import Database, Settings
from tests.fakes.proxy import Proxy
from tests.fakes.replication import Pair, replicated


@dataclass
class Replicated:
    """A database on a primary and its standby, each behind a proxy that counts round trips."""

    pair: Pair
    name: str
    primary: Proxy
    standby: Proxy

    @property
    def primary_url(self) -> str:
        """Past the proxy."""
        return self.pair.primary.url_of(self.name)

    @property
    def standby_url(self) -> str:
        """Past the proxy."""
        return self.pair.standby.url_of(self.name)

    def database(self, **settings: object) -> Database:
        """A Database whose reads may go to the standby."""
        given = Settings.model_validate(settings)
        return Database(self.primary.url, read_url=self.standby.url, settings=given)

    async def caught_up(self) -> None:
        await self.pair.standby.caught_up(self.pair.primary)

    async def pause(self) -> None:
        """The standby replays nothing any more."""
        await self.caught_up()
        await self.pair.standby.execute("SELECT pg_wal_replay_pause()")

    async def resume(self) -> None:
        await self.pair.standby.execute("SELECT pg_wal_replay_resume()")
        await self.caught_up()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        yield runner.run(stack.enter_async_context(replicated(synchronous=False)))
        runner.run(stack.aclose())


@pytest.fixture
async def both(pair: Pair) -> AsyncIterator[Replicated]:
    name = f"t{uuid.uuid4().hex[:12]}"
    await pair.primary.execute(f"CREATE DATABASE {name}")
    async with Database(pair.primary.url_of(name)) as database:
        await database.upgrade()
    await pair.standby.caught_up(pair.primary)
    async with (
        Proxy(pair.primary.url_of(name)) as primary,
        Proxy(pair.standby.url_of(name)) as standby,
    ):
        yield Replicated(pair, name, primary, standby)
        await pair.standby.execute(
            "SELECT pg_wal_replay_resume() WHERE pg_is_in_recovery() AND pg_is_wal_replay_paused()"
        )
