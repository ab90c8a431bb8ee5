"""A checker in Jepsen's manner: numbered appends, and what reads say of them.

Every read is a prefix of the final list, and no caller's reads go back in time: over a primary, a
standby whose replay is paused and resumed, and a failover.
"""

import asyncio

import pytest

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.errors import RetryableError, StaleSession
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.histories import (
    Load,
    checked,
    more,
    read_at,
    read_beyond,
    readers_taken_back,
    running,
    told_of_losses,
)
from tests.fakes.replicated import answers_at
from tests.fakes.replication import Pair, replicated
from tests.fakes.telemetry import Watched, keep_in_memory

pytestmark = pytest.mark.fault


async def _migrated(pair: Pair) -> None:
    async with Database(pair.primary.url) as database:
        await database.upgrade()


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_reads_are_prefixes_and_never_go_back_while_replay_stops_and_goes_on(
    elsewhere: bool,
) -> None:
    """The writers are of this process, or of another one, of which the standby tells meanwhile."""
    keep_in_memory()
    watched = Watched()
    async with replicated(synchronous=False) as pair:
        await _migrated(pair)
        async with (
            Database(pair.primary.url, read_url=pair.standby.url) as database,
            Database(pair.primary.url) as theirs,
        ):
            load = Load(database, theirs if elsewhere else None)
            async with running(load):
                for _ in range(3):
                    await more(load, 5)
                    await pair.standby.execute("SELECT pg_wal_replay_pause()")
                    await more(load, 5)
                    await pair.standby.execute("SELECT pg_wal_replay_resume()")
                    if elsewhere:  # where each reader writes, too, few reads may go there
                        await read_at(pair.standby.url, watched)
                await pair.standby.kill()
                await more(load, 5)
                await pair.standby.start()
                await more(load, 5)
            assert await checked(load, pair.primary.url) == load.acknowledged


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_failover_that_loses_nothing_is_not_seen_in_any_read(elsewhere: bool) -> None:
    """The standby that answered the reads becomes the primary."""
    keep_in_memory()
    watched = Watched()
    async with replicated(synchronous=True) as pair:
        await _migrated(pair)
        async with (
            Database(pair.url, read_url=pair.standby.url) as database,
            Database(pair.url) as theirs,
        ):
            load = Load(database, theirs if elsewhere else None)
            async with running(load):
                await more(load, 10)
                if elsewhere:
                    await read_at(pair.standby.url, watched)
                await pair.fail_over()
                await more(load, 10)
            assert await checked(load, pair.standby.url) == load.acknowledged


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_failover_that_loses_writes_takes_each_caller_back_once(elsewhere: bool) -> None:
    """To what is left, and from there on no further: nobody reads again what was lost."""
    settings = Settings(read_lag_s=0.2)  # then the primary answers, and shows what will be lost
    async with replicated(synchronous=False) as pair:
        await _migrated(pair)
        async with (
            Database(pair.url, read_url=pair.standby.url, settings=settings) as database,
            Database(pair.url) as theirs,
        ):
            load = Load(database, theirs if elsewhere else None)
            async with running(load):
                await more(load, 5)
                await pair.standby.caught_up(pair.primary)
                await pair.standby.stop_receiving()
                before = [len(texts) for texts in load.acknowledged]
                await more(load, 5)
                await read_beyond(load, [count + 2 for count in before])
                load.loses = True
                await pair.fail_over()
                await told_of_losses(load)
                await more(load, 1)
                load.loses = False
                await more(load, 5)
                await readers_taken_back(load)
            finals = await checked(load, pair.standby.url)
            assert finals == load.acknowledged
            for history, final in zip(load.histories, finals, strict=True):
                assert history.lost is not None
                assert 5 <= history.kept(final) <= len(history.lost) - 5


@pytest.mark.program
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


@pytest.mark.program
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
            await answers_at(pair.standby.url, lambda: service.get_session(**USER, session_id="s"))
            assert await service.get_session(**USER, session_id="s") == live
            await pair.primary.kill()
            await asyncio.sleep(0.3)
            for _ in range(3):
                assert await service.get_session(**USER, session_id="s") == live
            with pytest.raises(RetryableError):
                await service.append_event(live, said("two"))
