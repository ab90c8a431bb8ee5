"""Erasing a turn while facts drawn from it are being committed leaves none of them."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence

import asyncpg
import pytest

from adkpg import PgVectorMemoryService
from adkpg.erasure.erasing import forget, forget_session
from adkpg.facts.extractor import Add, Extraction, KnownFact, Turn, Update
from adkpg.facts.service import Facts
from tests.fakes.conversation import USER
from tests.fakes.locks import locked
from tests.fakes.people import Meanwhile, remember, turn_id

pytestmark = pytest.mark.race

Erase = Callable[[PgVectorMemoryService], Coroutine[None, None, None]]
OLD, NEW = "I have a cat.", "It is called Tom."


async def _delete_old(memory: PgVectorMemoryService) -> None:
    await memory.delete_memory(**USER, memory_id=await turn_id(memory, OLD))


async def _delete_new(memory: PgVectorMemoryService) -> None:
    await memory.delete_memory(**USER, memory_id=await turn_id(memory, NEW))


async def _replace_old(memory: PgVectorMemoryService) -> None:
    await remember(memory, 1, "I have none.")


async def _replace_new(memory: PgVectorMemoryService) -> None:
    await remember(memory, 2, "I have none.")


async def _edit_old(memory: PgVectorMemoryService) -> None:
    memory_id = await turn_id(memory, OLD)
    await memory.update_memory(**USER, memory_id=memory_id, text="I have none.")


async def _edit_new(memory: PgVectorMemoryService) -> None:
    memory_id = await turn_id(memory, NEW)
    await memory.update_memory(**USER, memory_id=memory_id, text="I have none.")


async def _forget_session(memory: PgVectorMemoryService) -> None:
    await forget_session(memory.database, **USER, session_id="day1")


async def _forget_person(memory: PgVectorMemoryService) -> None:
    await forget(memory.database, **USER)


def _says(turns: Sequence[Turn], known: Sequence[KnownFact]) -> Extraction:
    sources = tuple(turn.memory_id for turn in turns)
    if not known:
        return Extraction((Add("Ana has a cat.", sources),))
    return Extraction((Update(known[0].memory_id, "Ana has a cat named Tom.", sources),))


@pytest.mark.parametrize(
    "erase",
    [
        _delete_old,
        _delete_new,
        _replace_old,
        _replace_new,
        _edit_old,
        _edit_new,
        _forget_session,
        _forget_person,
    ],
)
async def test_a_source_erased_while_its_facts_are_committed_takes_them_along(
    memory: PgVectorMemoryService,
    database_url: str,
    connection: asyncpg.Connection,
    erase: Erase,
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()
    go.set()

    async def waits() -> None:
        asked.set()
        await go.wait()

    facts = Facts(memory, extractor=Meanwhile(waits, _says))
    await facts.enable("app")
    await remember(memory, 1, OLD)
    await facts.extract(**USER)
    await remember(memory, 2, NEW)
    asked.clear()
    go.clear()
    extracting = asyncio.create_task(facts.extract(**USER))
    await asked.wait()
    # The facts are written, and their transaction waits to end the job.
    jobs = "SELECT FROM adkpg.memory_jobs WHERE work = 'extract' FOR UPDATE"
    async with locked(database_url, jobs) as lock:
        go.set()
        await lock.until_blocked(1)
        erasing = asyncio.create_task(erase(memory))
        await lock.until_blocked(2)
        await lock.release()
        await asyncio.gather(extracting, erasing)
    drawn = await connection.fetch("SELECT body FROM memories WHERE kind = 'fact'")
    assert drawn == []
    assert await connection.fetch("SELECT * FROM memory_provenance") == []
