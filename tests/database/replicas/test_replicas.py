"""Reads on a real standby: new enough, and the primary's where it is not, without an error."""

import asyncio
import random
import string
import time
from typing import Literal

import pytest
from google.adk.sessions.session import Session
from sqlalchemy.engine import make_url

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings, scope
from adkpg.errors import ConfigurationError, ReadOnly, ScopeMissing
from adkpg.tooling.operations import Finding, examine
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER, entry, found, remember_apart, text_of
from tests.fakes.proxy import Part
from tests.fakes.replicated import PAUSE_S, Replicated
from tests.fakes.replication import until
from tests.fakes.roles import GUARDED, PASSWORD, guarded_roles
from tests.fakes.telemetry import Watched, keep_in_memory

pytestmark = pytest.mark.fault

PLACE = {**USER, "session_id": "s"}


async def get(service: DatabaseSessionService, session_id: str = "s") -> Session:
    session = await service.get_session(**USER, session_id=session_id)
    assert session is not None
    return session


class Asked:
    """Who was asked by what runs inside: round trips to the primary and to the standby."""

    def __init__(self, both: Replicated) -> None:
        self._both = both

    def __enter__(self) -> "Asked":
        self._before = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        self.primary, self.standby = (
            after - before for after, before in zip(self._now(), self._before, strict=True)
        )

    def _now(self) -> tuple[int, int]:
        return self._both.primary.round_trips, self._both.standby.round_trips


async def test_a_session_is_read_on_the_standby_in_one_round_trip(both: Replicated) -> None:
    async with both.database() as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE, state={"user:x": 1, "app:y": 2, "z": 3})
        for number in range(3):
            await service.append_event(live, said(str(number)))
        with Asked(both) as right_after:
            assert await get(service) == live
        assert right_after.standby == 0, "it would be behind, more often than not"
        await both.settle(lambda: get(service))
        with Asked(both) as asked:
            assert await get(service) == live
        assert (asked.primary, asked.standby) == (0, 1)


@pytest.mark.parametrize("shared_events_mb", [0, 10])
async def test_whatever_way_a_session_is_read_the_standby_may_answer(
    both: Replicated, shared_events_mb: int
) -> None:
    async with both.database() as database:
        service = DatabaseSessionService(database, shared_events_mb=shared_events_mb)
        live = await service.create_session(**PLACE)
        for number in range(3):
            await service.append_event(live, said(str(number)))
        await both.settle(lambda: get(service))
        with Asked(both) as asked:
            assert texts(await get(service)) == ["0", "1", "2"]
            again = await service.get_session(**PLACE, config=None)
            assert again is not None
            assert again.events
        assert asked.primary == 0


async def test_other_reads_of_sessions_go_there_too(both: Replicated) -> None:
    async with both.database() as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE, state={"user:x": 1})
        await service.append_event(live, said("a pear"))

        async def read() -> None:
            assert [each.id for each in (await service.list_sessions(**USER)).sessions] == ["s"]
            page = await service.list_sessions_page(**USER)
            assert [each.id for each in page.items] == ["s"]
            assert len((await service.list_sessions(app_name="app")).sessions) == 1
            assert len((await service.list_events_page(**PLACE)).items) == 1
            assert len((await service.search_events(**USER, query="pear")).items) == 1
            assert await service.get_user_state(**USER) == {"x": 1}

        await both.settle(read)  # which prepares the statements, too
        with Asked(both) as asked:
            await read()
        assert (asked.primary, asked.standby) == (0, 6)


async def test_memories_are_read_there(both: Replicated) -> None:
    async with both.database() as database:
        memory = PgVectorMemoryService(database, neighbours=1)
        await remember_apart(memory, "I like pears", "I like plums")
        assert (await found(memory, "pears"))[0] == "I like pears"

        async def read() -> None:
            assert (await found(memory, "plums"))[0] == "I like plums"
            assert await memory.count_memories(**USER) == 2
            page = await memory.list_memories(**USER)
            assert await memory.get_memory(**USER, memory_id=page.items[0].id or "")
            assert await memory.retrieve_profiles(**USER) == []

        await both.settle(read)  # which prepares the statements, too
        with Asked(both) as asked:
            await read()
        assert (asked.primary, asked.standby) == (0, 7), "a search asks twice, and for neighbours"


async def test_while_replay_is_paused_nothing_written_here_is_missing(both: Replicated) -> None:
    async with both.database() as database, Database(both.primary_url) as theirs:
        service, others = DatabaseSessionService(database), DatabaseSessionService(theirs)
        memory = PgVectorMemoryService(database)
        live = await service.create_session(**PLACE)
        gone = await service.create_session(**USER, session_id="gone")
        await remember_apart(memory, "I like pears")
        await both.settle(lambda: get(service))
        assert await get(service) == live
        await both.pause()

        await service.append_event(live, said("new"))
        await service.create_session(**USER, session_id="made")
        await service.delete_session(**USER, session_id=gone.id)
        third = await service.create_session(**USER, session_id="third")
        await service.append_event(third, said("states", state={"user:x": 1, "app:y": 2}))
        await remember_apart(memory, "I like plums")
        await asyncio.sleep(PAUSE_S)
        assert texts(await get(service)) == ["new"]
        assert await service.get_session(**USER, session_id="gone") is None
        assert (await get(service)).state == {"user:x": 1, "app:y": 2}
        assert (await get(service, "made")).id == "made"
        listed = (await service.list_sessions(**USER)).sessions
        assert {each.id for each in listed} == {"s", "made", "third"}
        assert await service.get_user_state(**USER) == {"x": 1}
        assert len((await service.list_events_page(**PLACE)).items) == 1
        assert len((await service.search_events(**USER, query="new")).items) == 1
        assert (await found(memory, "plums"))[0] == "I like plums"
        # What others wrote and this process saw on the primary does not go away again, either.
        their = await get(others)
        await others.append_event(their, said("theirs", state={"user:x": 7}))
        assert texts(their) == ["new", "theirs"]
        live = await get(service)
        assert texts(live) == ["new", "theirs"]
        assert live.state["user:x"] == 7
        await both.resume()
        await both.settle(lambda: get(service))
        with Asked(both) as asked:
            assert await get(service) == live
        assert asked.primary == 0


@pytest.mark.parametrize("written", ["s", "other"])
async def test_what_is_written_while_a_read_is_under_way_is_in_the_next(
    both: Replicated, written: str
) -> None:
    """The read may be answered as it was asked; it takes nothing back of what came meanwhile."""
    async with both.database() as database:
        service = DatabaseSessionService(database)
        live = {
            each: await service.create_session(**USER, session_id=each) for each in ("s", "other")
        }
        await service.append_event(live["s"], said("before", state={"user:x": 1}))
        await both.settle(lambda: get(service))
        await both.pause()
        both.standby.hold(1, "answer")
        reading = asyncio.create_task(get(service))
        await both.standby.held.wait()
        await service.append_event(live[written], said("meanwhile", state={"user:x": 2}))
        both.standby.release()
        read = await reading
        assert (texts(read), read.state) == (["before"], {"user:x": 1}), "the standby answered"
        for _ in range(2):
            read = await get(service)
            assert texts(read) == (["before", "meanwhile"] if written == "s" else ["before"])
            assert read.state == {"user:x": 2}
            await asyncio.sleep(PAUSE_S)


async def test_a_standby_that_lags_more_than_is_allowed_is_noticed(both: Replicated) -> None:
    """Also by a process that wrote nothing, and saw nothing."""
    async with both.database(read_lag_s=0.2) as database, Database(both.primary_url) as theirs:
        memory, service = PgVectorMemoryService(database), DatabaseSessionService(database)
        assert await found(memory, "plums") == []
        await both.pause()
        others = DatabaseSessionService(theirs)
        await others.create_session(**PLACE)
        await remember_apart(PgVectorMemoryService(theirs), "I like plums")
        await asyncio.sleep(0.25)
        assert await found(memory, "plums") == ["I like plums"]
        assert (await get(service)).id == "s"
        await both.resume()

        async def answers() -> bool:
            with Asked(both) as asked:
                assert await found(memory, "plums") == ["I like plums"]
            return asked.standby > 0 and asked.primary == 0

        await until(answers)


async def test_a_memory_whose_id_another_process_told_is_found(both: Replicated) -> None:
    """The standby has replayed too little to know it."""
    async with both.database(read_lag_s=600) as database, Database(both.primary_url) as theirs:
        memory = PgVectorMemoryService(database)
        await both.settle(lambda: memory.count_memories(**USER))
        assert await memory.get_memory(**USER, memory_id="m-1") is None  # prepares the statements
        await both.pause()
        others = PgVectorMemoryService(theirs)
        await others.add_memory(**USER, memories=[entry("I like plums", "m-1")])
        with Asked(both) as asked:
            told = await memory.get_memory(**USER, memory_id="m-1")
        assert (told and told.id, asked.standby, asked.primary) == ("m-1", 1, 1)
        await both.resume()


async def test_an_idle_primary_is_not_mistaken_for_a_standby_that_lags(both: Replicated) -> None:
    async with both.database(read_lag_s=0.1) as database:
        memory = PgVectorMemoryService(database)
        await remember_apart(memory, "I like plums")

        async def answers() -> bool:
            with Asked(both) as asked:
                assert await found(memory, "plums") == ["I like plums"]
            return asked.standby > 0 and asked.primary == 0

        for _ in range(5):
            await asyncio.sleep(0.12)
            await until(answers)


async def test_a_standby_that_is_away_costs_no_error_and_one_try(both: Replicated) -> None:
    async with both.database() as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await both.settle(lambda: get(service))
        assert await get(service) == live
        await both.standby.leave()
        for _ in range(20):
            assert await get(service) == live
        await both.standby.come_back()

        async def answers() -> bool:
            with Asked(both) as asked:
                assert await get(service) == live
            return asked.standby > 0 and asked.primary == 0

        await until(answers)


async def test_a_standby_that_hangs_is_waited_for_once(both: Replicated) -> None:
    async with both.database(read_timeout_s=0.3) as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await both.settle(lambda: get(service))
        assert await get(service) == live
        both.standby.forget(silently=True)
        began = time.monotonic()
        for _ in range(5):
            assert await get(service) == live
        assert time.monotonic() - began < 5 * 0.3, "all of them had waited"


async def test_a_killed_standby_that_comes_back_is_asked_again(both: Replicated) -> None:
    async with both.database() as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await both.settle(lambda: get(service))
        assert await get(service) == live
        await both.pair.standby.kill()
        await service.append_event(live, said("meanwhile"))
        assert await get(service) == live
        await both.pair.standby.start()

        async def answers() -> bool:
            with Asked(both) as asked:
                assert await get(service) == live
            return asked.standby > 0 and asked.primary == 0

        await until(answers)


async def test_a_conflict_with_replay_costs_a_fallback(both: Replicated) -> None:
    """A long read on the standby, rows that the primary vacuums, and no patience."""
    standby = both.pair.standby
    await standby.execute("ALTER SYSTEM SET max_standby_streaming_delay = '10ms'")
    await standby.execute("SELECT pg_reload_conf()")
    async with both.database() as database, Database(both.primary_url) as theirs:
        memory = PgVectorMemoryService(database)
        await remember_apart(memory, *(f"I like plums {number}" for number in range(10)))
        await both.settle(lambda: found(memory, "plums"))
        held = asyncio.Event()
        conflicts = 0

        async def long_read() -> None:
            nonlocal conflicts
            async with database.standby.transaction() as transaction:  # type: ignore[union-attr]
                rows = await transaction._connection.fetch("SELECT count(*) FROM adkpg.memories")
                assert rows
                held.set()
                await transaction._connection.fetch(
                    "SELECT pg_sleep(20) FROM adkpg.memories LIMIT 1"
                )

        async def vacuum() -> None:
            await held.wait()
            owner = PgVectorMemoryService(theirs)
            for memory_ in (await owner.list_memories(**USER)).items:
                await owner.delete_memory(**USER, memory_id=memory_.id)
            await both.pair.primary.execute_in(both.name, "VACUUM adkpg.memories")

        reading = asyncio.create_task(long_read())
        await vacuum()
        with pytest.raises(Exception, match="conflict with recovery"):
            await reading
        assert await found(memory, "plums") == []
    await standby.execute("ALTER SYSTEM RESET max_standby_streaming_delay")
    await standby.execute("SELECT pg_reload_conf()")


async def test_a_search_that_replay_cancels_is_answered_by_the_primary_and_counted(
    both: Replicated,
) -> None:
    """It is under way on the standby while the primary removes what it reads."""
    keep_in_memory()
    watched = Watched()
    before = fallbacks(watched, "conflict")
    standby, name = both.pair.standby, f"{both.name}_reads"
    await standby.execute("ALTER SYSTEM SET max_standby_streaming_delay = '10ms'")
    await standby.execute("SELECT pg_reload_conf()")
    await both.pair.primary.execute_in(
        both.name,
        f"""
        CREATE FUNCTION adkpg.slow() RETURNS boolean LANGUAGE plpgsql AS
        'BEGIN IF pg_is_in_recovery() THEN PERFORM pg_sleep(60); END IF; RETURN true; END';
        CREATE ROLE {name} LOGIN;
        GRANT USAGE ON SCHEMA adkpg TO {name};
        GRANT SELECT ON ALL TABLES IN SCHEMA adkpg TO {name};
        ALTER TABLE adkpg.memories ENABLE ROW LEVEL SECURITY;
        CREATE POLICY slow ON adkpg.memories USING (adkpg.slow());
        """,
    )
    reads = both.standby.url.replace("postgres@", f"{name}@")
    settings = Settings(read_lag_s=600, read_timeout_s=30)
    async with (
        Database(both.primary.url, read_url=reads, settings=settings) as database,
        Database(both.primary_url) as theirs,
    ):
        owner, memory = PgVectorMemoryService(theirs), PgVectorMemoryService(database)
        await remember_apart(owner, *(f"I like plums {number}" for number in range(10)))
        await both.caught_up()
        sessions = DatabaseSessionService(database)
        await both.settle(lambda: sessions.get_user_state(**USER))
        searching = asyncio.create_task(found(memory, "plums"))
        sleeps = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"

        async def asleep() -> bool:
            return bool(await standby.value(sleeps))

        await until(asleep)
        kept, *others = (await owner.list_memories(**USER)).items
        for each in others:
            await owner.delete_memory(**USER, memory_id=each.id)
        await both.pair.primary.execute_in(both.name, "VACUUM adkpg.memories")
        # Pages are pruned as rows are deleted, too: replay may cancel it before all of them are.
        assert text_of(kept) in await searching
    assert fallbacks(watched, "conflict") > before
    await standby.execute("ALTER SYSTEM RESET max_standby_streaming_delay")
    await standby.execute("SELECT pg_reload_conf()")


async def test_writes_on_a_standby_say_so_and_nothing_migrates_it(both: Replicated) -> None:
    async with Database(both.standby_url, auto_upgrade=True) as standby:
        service = DatabaseSessionService(standby)
        assert (await service.list_sessions(**USER)).sessions == []
        with pytest.raises(ReadOnly, match="is a standby or was set read-only; connect to the"):
            await service.create_session(**PLACE)
        await standby.upgrade()  # there is nothing to do
        with pytest.raises(ReadOnly, match="is a standby"):
            await standby.downgrade("base")
        with pytest.raises(ReadOnly, match="is a standby"):
            await remember_apart(PgVectorMemoryService(standby), "x")


async def test_tables_that_are_not_there_yet_cost_a_fallback(both: Replicated) -> None:
    async with Database(both.primary_url) as database:
        await database.downgrade("base")
    await both.pause()
    async with both.database(auto_upgrade=True) as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        assert await get(service) == live
        assert await get(service) == live
    await both.resume()


async def test_another_database_is_never_read(both: Replicated) -> None:
    """Nor a primary of its own."""
    other = both.pair.primary.url_of("postgres")
    async with Database(other) as elsewhere:
        await elsewhere.upgrade()
        await DatabaseSessionService(elsewhere).create_session(**USER, session_id="theirs")
    try:
        async with Database(both.primary.url, read_url=other) as database:
            service = DatabaseSessionService(database)
            assert (await service.list_sessions(**USER)).sessions == []
            assert await service.get_session(**USER, session_id="theirs") is None
    finally:
        async with Database(other) as elsewhere:
            await elsewhere.downgrade("base")


async def test_without_a_primary_sessions_are_read_that_are_not_older_than_seen(
    both: Replicated,
) -> None:
    async with both.database(read_lag_s=0.1, retry_timeout_s=0) as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await service.append_event(live, said("one"))
        await both.settle(lambda: get(service))
        assert await get(service) == live
        await asyncio.sleep(0.15)
        await both.primary.leave()
        for _ in range(3):
            assert await get(service) == live
        await both.primary.come_back()


def test_a_replica_url_is_read_as_any_other_and_shows_no_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ADKPG_READ_URL", "postgresql://me:secret@standby/agents")
    database = Database("postgresql://me:secret@primary/agents")
    assert database.standby is not None
    assert database.standby.connections.url == "postgresql://me:***@standby/agents"
    assert Database("embedded").standby is None
    for url in ("embedded", "nonsense"):
        with pytest.raises(ConfigurationError):
            Database("postgresql://primary/agents", read_url=url)


async def test_each_user_sees_their_own_rows_on_the_standby_too(both: Replicated) -> None:
    async with guarded_roles(both.primary_url) as roles:
        await both.caught_up()
        urls = [
            make_url(proxy.url)
            .set(username=roles.name("serve"), password=PASSWORD)
            .render_as_string(hide_password=False)
            for proxy in (both.primary, both.standby)
        ]
        async with Database(urls[0], read_url=urls[1], settings=GUARDED) as database:
            service = DatabaseSessionService(database)
            memory = PgVectorMemoryService(database)
            with scope(**USER):
                live = await service.create_session(**PLACE)
                await remember_apart(memory, "I like plums")
            with scope(**USER):
                await both.settle(lambda: get(service), lambda: found(memory, "plums"))
                with Asked(both) as asked:
                    assert await get(service) == live
                assert (asked.primary, asked.standby) == (0, 1)
                assert await found(memory, "plums") == ["I like plums"]
            with scope(app_name="app", user_id="other"):

                async def asks() -> bool:
                    with Asked(both) as asked:
                        assert await service.get_session(**PLACE) is None
                        assert (await service.list_sessions(**USER)).sessions == []
                        assert await found(memory, "plums") == []
                    return asked.standby >= 1

                for _ in range(2):
                    await until(asks)
            with pytest.raises(ScopeMissing):
                await service.get_session(**PLACE)


@pytest.mark.parametrize("part", ["question", "answer"])
async def test_a_read_that_is_cancelled_on_the_standby_leaves_nothing(
    both: Replicated, part: Part
) -> None:
    async with both.database() as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await both.settle(lambda: get(service))
        both.standby.hold(1, part)
        reading = asyncio.create_task(get(service))
        await both.standby.held.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert database.standby is not None
        for each in (database, database.standby):
            assert each.connections.use()[0] == 0
        both.standby.release()
        assert await get(service) == live
        await nothing_runs(both)


@pytest.mark.parametrize("part", ["question", "answer"])
@pytest.mark.parametrize("of", ["primary", "standby"])
async def test_a_first_read_that_is_cancelled_in_any_round_trip_leaves_nothing(
    both: Replicated, of: Literal["primary", "standby"], part: Part
) -> None:
    """The pools are empty: reads connect, until the standby answers, which is looked at."""
    async with Database(both.primary_url) as database:
        live = await DatabaseSessionService(database).create_session(**PLACE)
    await both.caught_up()
    proxy = both.primary if of == "primary" else both.standby

    async def read(service: DatabaseSessionService) -> None:
        await both.settle(lambda: get(service))

    async with both.database() as database:
        before = proxy.round_trips
        await read(DatabaseSessionService(database))
        round_trips = proxy.round_trips - before
    assert round_trips > 2, "it was asked over a new connection"
    for number in range(1, round_trips + 1):
        async with both.database() as database:
            service = DatabaseSessionService(database)
            proxy.hold(number, part)
            reading = asyncio.create_task(read(service))
            held = asyncio.create_task(proxy.held.wait())
            await asyncio.wait({reading, held}, return_when=asyncio.FIRST_COMPLETED)
            held.cancel()
            reading.cancel()
            proxy.release()
            await asyncio.wait({reading})

            async def unused(database: Database = database) -> bool:  # not by a look, either
                assert database.standby is not None
                return all(each.connections.use()[0] == 0 for each in (database, database.standby))

            await until(unused)
            assert await get(service) == live
    await nothing_runs(both)


async def nothing_runs(both: Replicated) -> None:
    """Returns when no statement runs on the standby."""
    sql = (
        "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle'"
        " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )

    async def idle() -> bool:
        return bool(await both.pair.standby.value(sql) == 0)

    await until(idle)


def fallbacks(watched: Watched, reason: str) -> int:
    """How many there were for a reason since the process began."""
    points = watched.points("adkpg.replica.fallbacks")
    return sum(point.value for point in points if point.attributes["adkpg.reason"] == reason)


async def test_a_call_is_a_span_of_the_server_that_answered(both: Replicated) -> None:
    keep_in_memory()
    watched = Watched()
    async with both.database() as database:
        service = DatabaseSessionService(database)
        await service.create_session(**PLACE)
        await both.settle(lambda: get(service))
        watched.clear()
        await get(service)
        (call,) = watched.calls
        assert database.standby is not None
        port = database.standby.connections.place["server.port"]
        assert port != database.place["server.port"]
        assert (call.attributes or {})["server.port"] == port
        before = fallbacks(watched, "away")
        await both.standby.leave()
        await get(service)
        await both.standby.come_back()
        assert fallbacks(watched, "away") > before
        assert (watched.calls[-1].attributes or {})["server.port"] == database.place["server.port"]


def test_without_a_standby_statements_are_what_they_are() -> None:
    """Nothing is noted, and nothing compared."""
    database = Database("postgresql://primary/agents")
    assert database.standby is None
    assert database.run.replica is None


async def test_the_doctor_looks_at_the_standby(both: Replicated) -> None:
    async def replica(database: Database) -> Finding:
        findings = (await examine(database)).findings
        return next(each for each in findings if each.check == "replica")

    async with both.database() as database:
        well = await replica(database)
        assert well.status == "ok", well
        await both.pause()
        idle = await replica(database)
        assert (idle.status, "is paused" in idle.detail) == ("warning", True)
        letters = string.ascii_letters * 10_000
        await DatabaseSessionService(database).create_session(
            **PLACE, state={"z": "".join(random.sample(letters, len(letters)))}
        )
        lagging = await replica(database)
        assert (lagging.status, "bytes behind" in lagging.detail) == ("warning", True)
        await both.resume()
        await both.standby.leave()
        assert (await replica(database)).status == "failure"
        await both.standby.come_back()
    async with Database(both.primary.url) as alone:
        assert "replica" not in {each.check for each in (await examine(alone)).findings}


async def test_a_standby_where_no_prepared_statement_is_kept_answers_too(both: Replicated) -> None:
    """As behind a pooler that loses them: there long statements of one server are calls."""
    urls = [f"{proxy.url}&statement_cache_size=0" for proxy in (both.primary, both.standby)]
    async with Database(urls[0], read_url=urls[1]) as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await service.append_event(live, said("one"))

        async def answers() -> bool:
            with Asked(both) as asked:
                assert texts(await get(service)) == ["one"]
            return asked.standby > 0 and asked.primary == 0

        await until(answers)
