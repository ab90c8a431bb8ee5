"""One primary and one standby for a module, and for each test a database of theirs."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from adkpg import Database
from tests.fakes.pgbouncer import PROGRAM
from tests.fakes.proxy import Proxy
from tests.fakes.replicated import Replicated
from tests.fakes.replication import Pair, replicated

collect_ignore = [] if PROGRAM else ["test_poolers.py"]


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
