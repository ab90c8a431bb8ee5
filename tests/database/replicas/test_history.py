"""A checker in Jepsen's manner: numbered appends, and what reads say of them.

Every read is a prefix of the final list, and no caller's reads go back in time: over a primary, a
standby whose replay is paused and resumed, and a failover.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.errors import RetryableError, StaleSession
from adkpg.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.replication import Pair, replicated, until

pytestmark = pytest.mark.fault

WRITERS, READERS = 3, 3


@dataclass
class History:
    """What callers were told of one session.

    Attributes:
      acknowledged: Texts of appends that returned, in order.
      reads: By caller, each read as a list of texts with the count that ``user:`` state had.
    """

    acknowledged: list[str] = field(default_factory=list)
    reads: dict[str, list[tuple[list[str | None], int]]] = field(default_factory=dict)

    def check(self, final: list[str | None]) -> None:
        for caller, reads in self.reads.items():
            before, count_before = 0, 0
            for read, count in reads:
                assert read == final[: len(read)], f"{caller} read what is no prefix"
                assert len(read) >= before, f"{caller} went back from {before} to {len(read)}"
                assert count >= count_before, f"{caller} saw an older state"
                before, count_before = len(read), count


class Load:
    """Writers, each with a session of its own, and readers of all of them."""

    def __init__(self, database: Database) -> None:
        self.service = DatabaseSessionService(database)
        self.histories = [History() for _ in range(WRITERS)]
        self.ended = asyncio.Event()
        self.state_written = 0
        self._counting = asyncio.Lock()

    async def write(self, number: int) -> None:
        history = self.histories[number]
        live = await self.service.create_session(**USER, session_id=f"s{number}")
        while not self.ended.is_set():
            text = str(len(history.acknowledged))
            # One more than any writer has sent, so the state that was written last is the largest.
            async with self._counting:
                count = self.state_written + 1
                await self.service.append_event(live, said(text, state={"user:n": count}))
                self.state_written = count
            history.acknowledged.append(text)
            # What this process has written is in what it reads next.
            acknowledged = len(history.acknowledged)
            read = await self._read(f"writer {number}", number)
            assert len(read) >= acknowledged, "one's own write was missing"
            await asyncio.sleep(random.uniform(0, 0.1))

    async def read(self, caller: int) -> None:
        while not self.ended.is_set():
            number = random.randrange(WRITERS)
            sent = len(self.histories[number].acknowledged)
            read = await self._read(f"reader {caller}", number)
            assert len(read) >= sent, "what was acknowledged in this process was missing"
            await asyncio.sleep(0.002)

    async def _read(self, caller: str, number: int) -> list[str | None]:
        sent = self.state_written
        session = await self.service.get_session(**USER, session_id=f"s{number}")
        if session is None:
            return []
        read = texts(session)
        count = session.state.get("user:n", 0)
        assert count >= sent, "a state that was written through another session was missing"
        self.histories[number].reads.setdefault(caller, []).append((read, count))
        return read


@asynccontextmanager
async def running(load: Load) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        for number in range(WRITERS):
            group.create_task(load.write(number))
        for caller in range(READERS):
            group.create_task(load.read(caller))
        try:
            yield
        finally:
            load.ended.set()


async def more(load: Load, appends: int) -> None:
    goal = [len(history.acknowledged) + appends for history in load.histories]

    async def written() -> bool:
        return all(
            len(history.acknowledged) >= wanted
            for history, wanted in zip(load.histories, goal, strict=True)
        )

    await until(written)


async def check(load: Load, url: str) -> None:
    async with DatabaseSessionService(url) as service:
        for number, history in enumerate(load.histories):
            session = await service.get_session(**USER, session_id=f"s{number}")
            assert session is not None
            assert texts(session) == history.acknowledged
            history.check(texts(session))


async def _migrated(pair: Pair) -> None:
    async with Database(pair.primary.url) as database:
        await database.upgrade()


@pytest.mark.timeout(240)
async def test_reads_are_prefixes_and_never_go_back_while_replay_stops_and_goes_on() -> None:
    async with replicated(synchronous=False) as pair:
        await _migrated(pair)
        async with Database(pair.primary.url, read_url=pair.standby.url) as database:
            load = Load(database)
            async with running(load):
                for _ in range(3):
                    await more(load, 5)
                    await pair.standby.execute("SELECT pg_wal_replay_pause()")
                    await more(load, 5)
                    await pair.standby.execute("SELECT pg_wal_replay_resume()")
                await pair.standby.kill()
                await more(load, 5)
                await pair.standby.start()
                await more(load, 5)
            await check(load, pair.primary.url)


@pytest.mark.timeout(240)
async def test_a_failover_that_loses_nothing_is_not_seen_in_any_read() -> None:
    """The standby that answered the reads becomes the primary."""
    async with replicated(synchronous=True) as pair:
        await _migrated(pair)
        async with Database(pair.url, read_url=pair.standby.url) as database:
            load = Load(database)
            async with running(load):
                await more(load, 10)
                await pair.fail_over()
                await more(load, 10)
            await check(load, pair.standby.url)


@pytest.mark.timeout(240)
async def test_what_an_asynchronous_failover_lost_is_said_and_reads_go_on() -> None:
    async with replicated(synchronous=False) as pair:
        await _migrated(pair)
        settings = Settings(retry_timeout_s=20)
        async with Database(pair.url, read_url=pair.standby.url, settings=settings) as database:
            service = DatabaseSessionService(database)
            live = await service.create_session(**USER, session_id="s")
            await service.append_event(live, said("kept"))
            await pair.standby.caught_up(pair.primary)
            await pair.standby.stop_receiving()
            await service.append_event(live, said("lost"))
            await asyncio.sleep(0.1)
            session = await service.get_session(**USER, session_id="s")
            assert session is not None
            assert texts(session) == ["kept", "lost"], "the standby has less"
            await pair.fail_over()
            for _ in range(3):  # the new primary's word counts
                session = await service.get_session(**USER, session_id="s")
                assert session is not None
                assert texts(session) == ["kept"]
            with pytest.raises(StaleSession):
                await service.append_event(live, said("on top"))
            await service.append_event(session, said("new"))
            session = await service.get_session(**USER, session_id="s")
            assert session is not None
            assert texts(session) == ["kept", "new"]


async def test_while_the_primary_is_gone_reads_go_on_and_writes_fail() -> None:
    async with replicated(synchronous=False) as pair:
        await _migrated(pair)
        settings = Settings(retry_timeout_s=0, read_lag_s=0.2)
        async with Database(
            pair.primary.url, read_url=pair.standby.url, settings=settings
        ) as database:
            service = DatabaseSessionService(database)
            live = await service.create_session(**USER, session_id="s")
            await service.append_event(live, said("one"))
            await pair.standby.caught_up(pair.primary)
            await asyncio.sleep(0.1)
            assert await service.get_session(**USER, session_id="s") == live
            await pair.primary.kill()
            await asyncio.sleep(0.3)
            for _ in range(3):
                assert await service.get_session(**USER, session_id="s") == live
            with pytest.raises(RetryableError):
                await service.append_event(live, said("two"))
