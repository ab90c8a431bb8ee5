"""Servers that hang, and callers that wait for less than they take."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER, remember_apart
from tests.fakes.replicated import PAUSE_S, Replicated, answers_at
from tests.fakes.replication import replicated

pytestmark = pytest.mark.fault

PLACE = {**USER, "session_id": "s"}
_SHORTER_S = 0.3  # than the standby may take for an answer


@asynccontextmanager
async def used_up(
    both: Replicated,
) -> AsyncIterator[tuple[DatabaseSessionService, Session, AbstractAsyncContextManager[object]]]:
    """A service, a session that its standby shows too old, and what holds its only connection."""
    async with (
        both.database(pool_size=1, read_lag_s=0.2, pool_timeout_s=60) as database,
        Database(both.primary_url) as theirs,
    ):
        service, others = DatabaseSessionService(database), DatabaseSessionService(theirs)
        live = await others.create_session(**PLACE)
        await both.caught_up()
        assert await service.get_session(**PLACE) == live
        await both.pause()
        await others.append_event(live, said("new"))
        await asyncio.sleep(0.2)
        yield service, live, database.run.transaction()


async def test_callers_that_give_up_first_find_out_that_a_standby_hangs(
    both: Replicated, caplog: pytest.LogCaptureFixture
) -> None:
    async with both.database(read_timeout_s=60) as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await both.settle(lambda: service.get_session(**PLACE))
        assert await service.get_session(**PLACE) == live
        gave_up = 0
        with both.pair.standby.frozen():
            while gave_up < 10:
                try:
                    async with asyncio.timeout(_SHORTER_S):
                        assert await service.get_session(**PLACE) == live
                    break
                except TimeoutError:
                    gave_up += 1
            assert 0 < gave_up < 5
            for _ in range(5):
                assert await service.get_session(**PLACE) == live
        assert "did not answer before its callers gave up" in caplog.text


async def test_who_waits_for_a_connection_of_ones_own_does_not_call_the_standby_one_that_hangs(
    both: Replicated, caplog: pytest.LogCaptureFixture
) -> None:
    async with both.database(pool_size=1, read_timeout_s=1.0) as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await both.settle(lambda: service.get_session(**PLACE))
        assert await service.get_session(**PLACE) == live
        assert database.standby is not None
        async with database.standby.transaction():
            assert await service.get_session(**PLACE) == live
        before = both.standby.round_trips
        assert await service.get_session(**PLACE) == live
        assert both.standby.round_trips > before
    assert "The primary answers reads" not in caplog.text


@pytest.mark.parametrize("closes", [True, False], ids=["closed", "left"])
async def test_a_program_ends_though_servers_hang_to_which_it_has_connections(
    both: Replicated, monkeypatch: pytest.MonkeyPatch, closes: bool
) -> None:
    monkeypatch.setattr("adkpg.database.pools._LONGEST_FAREWELL_S", 0.1)
    async with Database(both.pair.primary.url_of(both.name)) as database:
        live = await DatabaseSessionService(database).create_session(**PLACE)
    await both.caught_up()
    ready, hangs = threading.Event(), threading.Event()

    async def program() -> None:
        database = both.database()
        service = DatabaseSessionService(database)
        assert database.standby is not None
        async with asyncio.timeout(50):
            while not (database.connections.use()[1] and database.standby.connections.use()[1]):
                answers = await asyncio.gather(*(service.get_session(**PLACE) for _ in range(3)))
                assert answers == [live] * 3
        ready.set()
        assert hangs.wait(60)
        if closes:
            await database.close()

    running = asyncio.create_task(asyncio.to_thread(asyncio.run, program()))
    assert await asyncio.to_thread(ready.wait, 60)
    with both.pair.primary.frozen(), both.pair.standby.frozen():
        hangs.set()
        await running


@pytest.mark.program
@pytest.mark.parametrize("frozen", [False, True], ids=["killed", "hanging"])
async def test_whoever_asks_at_once_while_the_primary_is_away_is_answered(frozen: bool) -> None:
    settings = Settings(retry_timeout_s=0, read_lag_s=0.2, command_timeout_s=2)
    async with replicated(synchronous=False) as pair:
        async with Database(pair.primary.url) as migrating:
            await migrating.upgrade()
        async with Database(
            pair.primary.url, read_url=pair.standby.url, settings=settings
        ) as database:
            service = DatabaseSessionService(database)
            live = await service.create_session(**PLACE)
            await pair.standby.caught_up(pair.primary)
            await answers_at(pair.standby.url, lambda: service.get_session(**PLACE))

            async def read() -> None:
                for _ in range(3):
                    assert await service.get_session(**PLACE) == live

            async def read_at_once() -> None:
                await asyncio.sleep(settings.read_lag_s)  # nobody has asked for longer than that
                await asyncio.gather(*(read() for _ in range(20)))

            if frozen:
                with pair.primary.frozen():
                    await read_at_once()
            else:
                await pair.primary.kill()
                await read_at_once()


async def test_a_primary_whose_connections_are_all_in_use_here_is_not_taken_for_one_that_is_away(
    both: Replicated,
) -> None:
    """Else a standby that lags would answer for as long as they are."""
    async with used_up(both) as (service, live, held):
        async with held:
            reading = asyncio.create_task(service.get_session(**PLACE))
            done, _ = await asyncio.wait({reading}, timeout=2)
            assert not done, "it waits for the primary"
        assert await reading == live


async def test_a_role_that_may_not_ask_who_the_primary_is_is_told_so_once(
    both: Replicated, caplog: pytest.LogCaptureFixture
) -> None:
    revoke = "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public"
    await both.value(revoke)
    await both.value("CREATE ROLE asking LOGIN")
    await both.value("GRANT ALL ON SCHEMA adkpg TO asking")
    await both.value("GRANT ALL ON ALL TABLES IN SCHEMA adkpg TO asking")
    await both.caught_up()
    url, read_url = (
        each.url.replace("postgres@", "asking@") for each in (both.primary, both.standby)
    )
    async with Database(url, read_url=read_url) as database:
        memory = PgVectorMemoryService(database)
        await remember_apart(memory, "I like plums")
        for _ in range(3):
            await asyncio.sleep(PAUSE_S)
            assert await memory.count_memories(**USER) == 1
    assert caplog.text.count("pg_control_system") == 1


async def test_callers_who_give_up_while_they_wait_for_a_connection_do_not_make_the_primary_away(
    both: Replicated,
) -> None:
    async with used_up(both) as (service, _, held), held:
        for _ in range(4):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(_SHORTER_S):
                    await service.get_session(**PLACE)


async def test_one_slow_read_that_is_cancelled_says_nothing_of_a_standby_that_answers_others(
    both: Replicated, caplog: pytest.LogCaptureFixture
) -> None:
    async with both.database(read_timeout_s=60) as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await both.settle(lambda: service.get_session(**PLACE))
        assert await service.get_session(**PLACE) == live
        both.standby.hold(1, "answer")
        slow = asyncio.create_task(service.get_session(**PLACE))
        await both.standby.held.wait()
        await asyncio.sleep(0.6)  # longer than is waited for who says nothing
        assert await service.get_session(**PLACE) == live
        slow.cancel()
        await asyncio.wait({slow})
        both.standby.release()
        before = both.standby.round_trips
        assert await service.get_session(**PLACE) == live
        assert both.standby.round_trips > before
    assert "did not answer" not in caplog.text


async def test_who_joins_a_look_that_is_just_ended_is_answered(both: Replicated) -> None:
    """By the primary; it is ended as nobody waits for it any more."""
    async with both.database(read_lag_s=0.2) as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await both.settle(lambda: service.get_session(**PLACE))
        assert await service.get_session(**PLACE) == live
        await asyncio.sleep(0.2)
        both.primary.hold(1, "question")
        first = asyncio.create_task(service.get_session(**PLACE))
        await both.primary.held.wait()
        first.cancel()
        second = asyncio.create_task(service.get_session(**PLACE))
        await asyncio.wait({first})
        both.primary.release()
        assert await second == live
        assert first.cancelled()


@pytest.mark.program
async def test_a_primary_that_is_back_says_again_how_old_an_answer_is() -> None:
    settings = Settings(retry_timeout_s=20, read_lag_s=1)
    async with replicated(synchronous=False) as pair:
        async with Database(pair.primary.url) as migrating:
            await migrating.upgrade()
        async with (
            Database(pair.primary.url, read_url=pair.standby.url, settings=settings) as database,
            Database(pair.primary.url, settings=settings) as theirs,
        ):
            service, others = DatabaseSessionService(database), DatabaseSessionService(theirs)
            live = await others.create_session(**PLACE)
            await answers_at(pair.standby.url, lambda: service.get_session(**PLACE))
            await asyncio.sleep(settings.read_lag_s)
            await pair.primary.kill()
            assert await service.get_session(**PLACE) == live
            await pair.primary.start()
            await pair.standby.execute("SELECT pg_wal_replay_pause()")
            await others.append_event(live, said("new"))
            await asyncio.sleep(5)  # with nobody who reads
            assert await service.get_session(**PLACE) == live
