"""One database on a primary and its standby, each behind a proxy."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import asyncpg

from adkpg import Database, Settings
from tests.fakes.checkout import CHECKOUT
from tests.fakes.proxy import Proxy
from tests.fakes.replication import Pair, until
from tests.fakes.telemetry import Watched, keep_in_memory

PAUSE_S = 0.05
"""Between two reads: a look may be between them."""


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
        """A Database whose reads may go to the standby, which is looked at when that is needed."""
        given = Settings.model_validate({"read_lag_s": 600, **settings})
        return Database(self.primary.url, read_url=self.standby.url, settings=given)

    async def value(self, sql: str) -> Any:
        """Returns the first value of a statement in the database on the primary."""
        connection = await asyncpg.connect(self.primary_url)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    async def caught_up(self) -> None:
        await self.pair.standby.caught_up(self.pair.primary)

    async def pause(self) -> None:
        """The standby replays nothing any more."""
        await self.caught_up()
        await self.pair.standby.execute("SELECT pg_wal_replay_pause()")

    async def resume(self) -> None:
        await self.pair.standby.execute("SELECT pg_wal_replay_resume()")
        await self.caught_up()

    async def settle(self, *calls: Callable[[], Awaitable[object]]) -> None:
        """Returns when the standby alone answers calls: none of them waits until it may."""

        async def alone() -> bool:
            before = self.primary.round_trips, self.standby.round_trips
            for call in calls:
                await call()
            await asyncio.sleep(PAUSE_S)  # a look that was wanted would be under way
            after = self.primary.round_trips, self.standby.round_trips
            return after[0] == before[0] and after[1] >= before[1] + len(calls)

        await until(alone)


async def answers_at(url: str, call: Callable[[], Awaitable[object]]) -> None:
    """Returns when the server with this URL answers a call: none waits until it may."""
    keep_in_memory()
    watched = Watched()

    async def answered() -> int:
        watched.clear()
        await call()
        return watched.answered_at(url)

    await until(answered)


def documented() -> set[str]:
    """Returns the calls that docs/replicas.md sends to the standby."""
    text = (CHECKOUT / "docs" / "replicas.md").read_text(encoding="utf-8")
    table = text.partition("| goes to the standby")[2].partition("\n\n")[0]
    return {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", _left(row))}


def _left(row: str) -> str:
    cells = row.split("|")
    return cells[1] if row.startswith("| `") else ""
