"""Servers that lose what they showed, and commits that one server shows before another."""

import asyncio

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.tooling.operations import examine
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER, found, remember_apart
from tests.fakes.replicated import PAUSE_S
from tests.fakes.replication import Pair, replicated, until

pytestmark = [pytest.mark.fault, pytest.mark.program]

PLACE = {**USER, "session_id": "s"}
SETTINGS = Settings(read_lag_s=600, retry_timeout_s=20)


async def _migrated(pair: Pair) -> None:
    async with Database(pair.primary.url) as database:
        await database.upgrade()
    await pair.standby.caught_up(pair.primary)


async def test_a_standby_that_recovers_from_a_crash_does_not_show_what_it_showed() -> None:
    """It says of itself what it said before, and replays from its last restartpoint on."""
    async with replicated(synchronous=False) as pair:
        await _migrated(pair)
        async with Database(
            pair.primary.url, read_url=pair.standby.url, settings=SETTINGS
        ) as database:
            sessions, memory = DatabaseSessionService(database), PgVectorMemoryService(database)
            await sessions.create_session(**PLACE)
            await remember_apart(memory, "I hate plums")
            await pair.primary.execute("CHECKPOINT")
            await pair.standby.caught_up(pair.primary)
            await pair.standby.execute("CHECKPOINT")
            await sessions.delete_session(**PLACE)
            page = await memory.list_memories(**USER)
            await memory.delete_memory(**USER, memory_id=page.items[0].id)
            await remember_apart(memory, "I like pears")
            await pair.standby.caught_up(pair.primary)
            await asyncio.sleep(PAUSE_S)

            async def right() -> None:
                assert await sessions.get_session(**PLACE) is None
                assert (await sessions.list_sessions(**USER)).sessions == []
                assert await found(memory, "pears plums") == ["I like pears"]
                assert await memory.count_memories(**USER) == 1

            await right()
            # What it replays anew stays out for as long as the test takes.
            await pair.standby.execute("ALTER SYSTEM SET recovery_min_apply_delay = '1h'")
            await pair.standby.execute("SELECT pg_reload_conf()")
            await pair.standby.crash()

            async def lost() -> bool:
                try:
                    return bool(await pair.standby.value("SELECT count(*) = 1 FROM adkpg.sessions"))
                except (OSError, asyncpg.PostgresError):  # it recovers
                    return False

            await until(lost)
            for _ in range(5):
                await right()
                await asyncio.sleep(PAUSE_S)


async def test_a_primary_that_was_set_back_is_noticed_and_its_standby_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By a snapshot of its disk: the history is the same by all that both say of it."""
    async with replicated(synchronous=False) as pair:
        await _migrated(pair)
        async with Database(
            pair.primary.url, read_url=pair.standby.url, settings=SETTINGS
        ) as database:
            service = DatabaseSessionService(database)
            await service.create_session(**USER, session_id="before")
            await pair.standby.caught_up(pair.primary)
            snapshot = await pair.primary.snapshot()
            await pair.primary.start()
            await service.create_session(**USER, session_id="lost")
            await pair.primary.execute("CREATE TABLE bulk AS SELECT generate_series(1, 100000)")
            await pair.standby.caught_up(pair.primary)
            await pair.primary.set_back(snapshot)
            await service.create_session(**USER, session_id="new")
            for _ in range(3):
                await asyncio.sleep(PAUSE_S)
                listed = (await service.list_sessions(**USER)).sessions
                assert {each.id for each in listed} == {"before", "new"}
            findings = (await examine(database)).findings
        said_of_it = next(each for each in findings if each.check == "replica")
        assert (said_of_it.status, "set back" in said_of_it.detail) == ("failure", True)
    assert caplog.text.count("has replayed changes") == 1


async def test_a_commit_that_waits_for_another_standby_is_not_taken_for_a_lost_one() -> None:
    """The primary hides it until then, and the standby that is read shows it."""
    async with replicated(synchronous=False, standbys=2) as pair:
        await _migrated(pair)
        await pair.second.caught_up(pair.primary)
        await pair.primary.wait_for(pair.second)
        async with (
            Database(pair.primary.url, read_url=pair.standby.url, settings=SETTINGS) as database,
            Database(pair.primary.url) as theirs,
        ):
            service, others = DatabaseSessionService(database), DatabaseSessionService(theirs)
            live = await others.create_session(**PLACE)
            await others.append_event(live, said("one"))
            await pair.standby.caught_up(pair.primary)
            session = await service.get_session(**PLACE)
            with pair.second.frozen():
                committing = asyncio.create_task(others.append_event(live, said("two")))

                async def shown() -> bool:
                    nonlocal session
                    session = await service.get_session(**PLACE)
                    return session is not None and texts(session) == ["one", "two"]

                await until(shown)
                assert session is not None
                appending = asyncio.create_task(service.append_event(session, said("three")))
                waits = (
                    "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                    " AND query LIKE '%FOR SHARE%'"
                )

                async def waiting() -> bool:
                    return bool(await pair.primary.value(waits))

                await until(waiting)
            await committing
            await appending
            session = await service.get_session(**PLACE)
            assert session is not None
            assert texts(session) == ["one", "two", "three"]


async def test_what_others_committed_without_waiting_and_was_seen_does_not_go_away() -> None:
    """No standby has it before it is on the primary's disk."""
    async with replicated(synchronous=False) as pair:
        await pair.primary.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        await pair.primary.execute("SELECT pg_reload_conf()")
        await _migrated(pair)
        hasty = f"{pair.primary.url}?options=-c%20synchronous_commit%3Doff"
        async with (
            Database(pair.primary.url, read_url=pair.standby.url, settings=SETTINGS) as database,
            Database(hasty) as theirs,
        ):
            service, others = DatabaseSessionService(database), DatabaseSessionService(theirs)
            live = await service.create_session(**PLACE)
            for number in range(5):
                await service.append_event(live, said(str(number)))  # the primary is asked next
                await others.create_session(**USER, session_id=f"hasty {number}")
                listed = (await service.list_sessions(**USER)).sessions
                assert f"hasty {number}" in {each.id for each in listed}
                for _ in range(3):
                    await asyncio.sleep(PAUSE_S)
                    listed = (await service.list_sessions(**USER)).sessions
                    assert f"hasty {number}" in {each.id for each in listed}
