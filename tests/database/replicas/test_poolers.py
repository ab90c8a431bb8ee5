"""PgBouncer in transaction mode before the standby, and before both; `make test-pgbouncer`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.tooling.operations import examine
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER, found, remember_apart
from tests.fakes.histories import Load, checked, more, running
from tests.fakes.pgbouncer import PgBouncer
from tests.fakes.replicated import PAUSE_S, Replicated
from tests.fakes.replication import until

pytestmark = [
    pytest.mark.fault,
    pytest.mark.usefixtures("server"),  # which is what `make test-pgbouncer` runs
]

PLACE = {**USER, "session_id": "s"}
SETTINGS = Settings.model_validate({"read_lag_s": 600, "read_timeout_s": 1.0})


@pytest.fixture(params=[None, False], ids=["as it is", "losing prepared statements"])
def standby(both: Replicated, request: pytest.FixtureRequest) -> Iterator[PgBouncer]:
    """A pooler before the standby."""
    with PgBouncer(both.pair.standby.url, keeps_prepared=request.param) as pooler:
        yield pooler


@pytest.fixture
def primary(both: Replicated) -> Iterator[PgBouncer]:
    """A pooler before the primary."""
    with PgBouncer(both.pair.primary.url) as pooler:
        yield pooler


async def only_the_standby_answers(both: Replicated, service: DatabaseSessionService) -> None:
    """Returns once reads leave the primary alone, which is behind a proxy."""

    async def answers() -> bool:
        await asyncio.sleep(PAUSE_S)
        before = both.primary.round_trips
        session = await service.get_session(**PLACE)
        assert session is not None
        return both.primary.round_trips == before

    await until(answers)


async def test_reads_go_to_the_standby_through_a_pooler(
    both: Replicated, standby: PgBouncer
) -> None:
    async with Database(
        both.primary.url, read_url=standby.led(both.standby_url), settings=SETTINGS
    ) as database:
        service, memory = DatabaseSessionService(database), PgVectorMemoryService(database)
        live = await service.create_session(**PLACE, state={"user:x": 1})
        await service.append_event(live, said("a pear"))
        await remember_apart(memory, "I like plums")
        await both.caught_up()
        await only_the_standby_answers(both, service)
        before = both.primary.round_trips

        async def read() -> None:
            session = await service.get_session(**PLACE)
            assert session == live
            assert await found(memory, "plums") == ["I like plums"]
            assert await service.get_user_state(**USER) == {"x": 1}
            assert len((await service.search_events(**USER, query="pear")).items) == 1

        for _ in range(3):  # each on other connections than before
            await asyncio.gather(*(read() for _ in range(5)))
        assert both.primary.round_trips == before
        finding = next(
            each for each in (await examine(database)).findings if each.check == "replica"
        )
        assert finding.status == "ok", finding


@asynccontextmanager
async def answered_behind(
    both: Replicated, standby: PgBouncer
) -> AsyncIterator[tuple[DatabaseSessionService, Session]]:
    """A service whose reads the standby answers through its pooler, and a session of it."""
    async with Database(
        both.primary.url, read_url=standby.led(both.standby_url), settings=SETTINGS
    ) as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await both.caught_up()
        await only_the_standby_answers(both, service)
        yield service, live


async def test_a_pooler_that_is_restarted_costs_a_fallback(
    both: Replicated, standby: PgBouncer
) -> None:
    async with answered_behind(both, standby) as (service, live):
        for pause in (False, True):
            standby.stop()
            if pause:
                await service.append_event(live, said("meanwhile"))
                assert await service.get_session(**PLACE) == live
            standby.start()
            assert await service.get_session(**PLACE) == live
            await only_the_standby_answers(both, service)


async def test_a_standby_that_is_killed_behind_its_pooler_costs_a_fallback(
    both: Replicated, standby: PgBouncer
) -> None:
    """The pooler takes connections all the same, and has them wait."""
    async with answered_behind(both, standby) as (service, live):
        await both.pair.standby.kill()
        await service.append_event(live, said("meanwhile"))
        for _ in range(5):
            assert await service.get_session(**PLACE) == live
        await both.pair.standby.start()
        await only_the_standby_answers(both, service)


async def test_reads_never_go_back_with_poolers_before_both_that_are_restarted(
    both: Replicated, primary: PgBouncer, standby: PgBouncer
) -> None:
    settings = Settings.model_validate({"read_lag_s": 600, "retry_timeout_s": 20})
    async with Database(
        primary.led(both.primary_url), read_url=standby.led(both.standby_url), settings=settings
    ) as database:
        load = Load(database)
        async with running(load):
            await more(load, 3)
            await both.pair.standby.execute("SELECT pg_wal_replay_pause()")
            await more(load, 3)
            await both.pair.standby.execute("SELECT pg_wal_replay_resume()")
            for pooler in (standby, primary):
                pooler.stop()
                pooler.start()
                await more(load, 3)
        assert await checked(load, both.primary_url) == load.acknowledged
        service = DatabaseSessionService(database)
        session = await service.get_session(**USER, session_id="s0")
        assert session is not None
        assert texts(session) == load.acknowledged[0]
