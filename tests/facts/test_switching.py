"""Switching extraction off while another switches it on and queues an app's turns."""

import asyncio

import asyncpg
import pytest

from adkpg import PgVectorMemoryService
from adkpg.facts.service import Facts
from tests.fakes.conversation import USER
from tests.fakes.locks import locked
from tests.fakes.people import remember


@pytest.mark.race
async def test_switching_off_waits_for_turns_that_are_being_queued_and_ends_their_wait(
    memory: PgVectorMemoryService, database_url: str, connection: asyncpg.Connection
) -> None:
    facts = Facts(memory)
    await remember(memory, 1, "I have a cat.")
    on = "SELECT extract_facts FROM app_settings"
    waiting = "SELECT count(*) FROM memory_jobs WHERE work = 'extract'"
    same = (
        "INSERT INTO adkpg.memory_jobs (app_name, user_id, position, work)"
        " SELECT app_name, user_id, position, 'extract' FROM adkpg.memories"
    )
    async with locked(database_url, same) as lock:
        enabling = asyncio.create_task(facts.enable(USER["app_name"]))
        await lock.until_blocked(1)
        disabling = asyncio.create_task(facts.disable(USER["app_name"]))
        await lock.until_blocked(2)
        assert await connection.fetchval(on), "it waits before it switches"
        await lock.release()
        await asyncio.gather(enabling, disabling)
    assert not await connection.fetchval(on)
    assert await connection.fetchval(waiting) == 0
