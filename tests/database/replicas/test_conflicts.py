"""Replay that cancels reads at once, or waits for as long as they last: no caller sees it."""

import asyncio

import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER, entry, found
from tests.fakes.replicated import Replicated
from tests.fakes.replication import until

pytestmark = pytest.mark.fault

ROUNDS = 8


@pytest.mark.parametrize("delay", ["0", "-1"], ids=["at once", "never"])
@pytest.mark.parametrize("feedback", ["on", "off"])
async def test_readers_see_no_conflict_with_replay(
    both: Replicated, feedback: str, delay: str
) -> None:
    """Sessions, pages and memories are read while the primary deletes and vacuums."""
    standby = both.pair.standby
    given = {
        "hot_standby_feedback": feedback,
        "max_standby_streaming_delay": delay,
        "wal_receiver_status_interval": "1s",
    }
    for name, value in given.items():
        await standby.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    await standby.execute("SELECT pg_reload_conf()")
    settings = Settings(read_lag_s=600)
    ended = asyncio.Event()
    reads = 0

    async with (
        Database(both.primary_url, read_url=both.standby.url, settings=settings) as database,
        Database(both.primary_url) as theirs,
    ):
        service, memory = DatabaseSessionService(database), PgVectorMemoryService(database)
        live = await service.create_session(**USER, session_id="kept")
        await service.append_event(live, said("a pear"))
        await memory.add_memory(**USER, memories=[entry("I like plums", "kept")])
        others = DatabaseSessionService(theirs)
        owner = PgVectorMemoryService(theirs)

        async def read_on() -> None:
            nonlocal reads
            while not ended.is_set():
                assert await service.get_session(**USER, session_id="kept") == live
                ids = [each.id for each in (await service.list_sessions(**USER)).sessions]
                assert "kept" in ids
                page = await service.list_events_page(**USER, session_id="kept")
                assert len(page.items) == 1
                assert "I like plums" in await found(memory, "plums")
                assert await memory.get_memory(**USER, memory_id="kept")
                reads += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(read_on())
            for number in range(ROUNDS):
                gone = await others.create_session(**USER, session_id=f"gone {number}")
                await others.append_event(gone, said("gone"))
                await owner.add_memory(**USER, memories=[entry("plums are gone", f"g{number}")])
                await others.delete_session(**USER, session_id=gone.id, forget=True)
                await owner.delete_memory(**USER, memory_id=f"g{number}")
                for table in ("sessions", "events", "memories", "memory_lexemes"):
                    await both.pair.primary.execute_in(both.name, f"VACUUM adkpg.{table}")
                # Replay takes this lock, too, and cancels or waits for whoever reads the table.
                await both.pair.primary.execute_in(
                    both.name, "BEGIN; LOCK TABLE adkpg.memories; COMMIT"
                )
            goal = reads + 4

            async def read_again() -> bool:
                return reads >= goal

            await until(read_again)
            ended.set()
        await both.caught_up()
    assert both.standby.round_trips > ROUNDS, "the standby was read"
    for name in given:
        await standby.execute(f"ALTER SYSTEM RESET {name}")
    await standby.execute("SELECT pg_reload_conf()")
