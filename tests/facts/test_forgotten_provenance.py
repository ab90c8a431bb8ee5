"""A fact or summary goes when a memory of its provenance goes."""

import asyncpg
import pytest

from adkpg import PgVectorMemoryService
from adkpg.facts.service import Facts
from adkpg.memory.filters import SearchFilters
from tests.fakes.conversation import USER, found
from tests.fakes.facts_llm import Script, add, operations, supersede, update
from tests.fakes.people import known, memories, remember, turn_id

SAID = ("I have a cat.", "It is ill.")


@pytest.fixture(autouse=True)
async def _known(memory: PgVectorMemoryService, facts: Facts, script: Script) -> None:
    """Two facts of one turn each, and one of both."""
    await remember(memory, 1, *SAID)
    script.says(
        operations(
            add("Ana has a cat.", "t1"),
            add("Something is ill.", "t2"),
            add("Ana has an ill cat.", "t1", "t2"),
        )
    )
    await facts.extract(**USER)
    script.says({"summary": "Ana spoke of a cat.", "topics": []})
    await facts.summarize(**USER, session_id="day1")


async def _left(memory: PgVectorMemoryService, facts: Facts) -> tuple[list[str], int]:
    return await known(facts), len(await memories(memory, "summary"))


async def test_all_is_there(memory: PgVectorMemoryService, facts: Facts) -> None:
    texts, summaries = await _left(memory, facts)
    assert sorted(texts) == ["Ana has a cat.", "Ana has an ill cat.", "Something is ill."]
    assert summaries == 1


async def test_an_erased_turn_takes_what_was_drawn_from_it(
    memory: PgVectorMemoryService, facts: Facts, connection: asyncpg.Connection
) -> None:
    await memory.delete_memory(**USER, memory_id=await turn_id(memory, SAID[0]))
    assert await _left(memory, facts) == (["Something is ill."], 0)
    assert await found(memory, "cat") == []
    assert await connection.fetchval("SELECT count(*) FROM memory_provenance") == 1
    for table in ("memory_lexemes", "memory_vectors"):
        orphans = await connection.fetchval(
            f"SELECT count(*) FROM {table} LEFT JOIN memories USING (app_name, user_id, position) "
            "WHERE memories.memory_id IS NULL"
        )
        assert orphans == 0


async def test_a_replaced_turn_takes_what_was_drawn_from_it(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, "I have a dog.", SAID[1])
    assert await _left(memory, facts) == (["Something is ill."], 0)
    script.says(operations(add("Ana has a dog.", "t1")))
    await facts.extract(**USER)
    assert sorted(await known(facts)) == ["Ana has a dog.", "Something is ill."]


async def test_a_turn_that_left_its_session_takes_what_was_drawn_from_it(
    memory: PgVectorMemoryService, facts: Facts
) -> None:
    await remember(memory, 1, SAID[0])
    assert await _left(memory, facts) == (["Ana has a cat."], 0)


async def test_an_edited_turn_takes_what_was_drawn_from_it(
    memory: PgVectorMemoryService, facts: Facts
) -> None:
    memory_id = await turn_id(memory, SAID[0])
    await memory.update_memory(**USER, memory_id=memory_id, text="I have nothing.")
    assert await _left(memory, facts) == (["Something is ill."], 0)


async def test_adding_the_session_again_takes_nothing(
    memory: PgVectorMemoryService, facts: Facts
) -> None:
    before = await _left(memory, facts)
    for _ in range(3):
        await remember(memory, 1, *SAID)
    assert await _left(memory, facts) == before


async def test_a_superseded_fact_goes_too(
    memory: PgVectorMemoryService, facts: Facts, script: Script, connection: asyncpg.Connection
) -> None:
    await remember(memory, 2, "I have a dog now.")
    script.says(operations(supersede("f1", "Ana has a dog.", "t1")))
    await facts.extract(**USER)
    assert "Ana has a dog." in await known(facts)
    await memory.delete_memory(**USER, memory_id=await turn_id(memory, SAID[0]))
    bodies = [row["body"] for row in await connection.fetch("SELECT body FROM memories")]
    assert not any("cat" in body for body in bodies)


async def test_an_updated_fact_rests_on_old_and_new_sources(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 2, "He is called Tom.")
    script.says(operations(update("f1", "Ana has a cat named Tom.", "t1")))
    await facts.extract(**USER)
    assert "Ana has a cat named Tom." in await known(facts)
    await memory.delete_memory(**USER, memory_id=await turn_id(memory, SAID[0]))
    assert not any("Tom" in text for text in await known(facts))


async def test_a_deleted_fact_leaves_its_sources(
    memory: PgVectorMemoryService, facts: Facts
) -> None:
    for fact in (await facts.profile(**USER)).facts:
        await memory.delete_memory(**USER, memory_id=str(fact.memory.id))
    assert await known(facts) == []
    assert len(await memories(memory, "turn")) == 2
    assert await found(memory, "cat", filters=SearchFilters(kinds=["turn"])) != []


async def test_an_edited_fact_keeps_its_sources(
    memory: PgVectorMemoryService, facts: Facts
) -> None:
    (fact,) = (
        fact for fact in (await facts.profile(**USER)).facts if fact.text == "Ana has a cat."
    )
    fact_id = str(fact.memory.id)
    await memory.update_memory(**USER, memory_id=fact_id, text="Ana has an old cat.")
    assert "Ana has an old cat." in await known(facts)
    await memory.delete_memory(**USER, memory_id=await turn_id(memory, SAID[0]))
    assert await known(facts) == ["Something is ill."]
