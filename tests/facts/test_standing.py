"""Standing instructions and preferences: in each turn of their person, as long as they hold."""

from collections.abc import Sequence
from typing import Any

import pytest
from google.adk.memory.memory_entry import MemoryEntry

from adkpg import PgVectorMemoryService
from adkpg.erasure import forget
from adkpg.facts import Facts
from adkpg.memory.records import Memory
from adkpg.memory.search.hits import tokens_of
from adkpg.tooling.testing import said
from adkpg.tooling.testing.scripted_llm import text
from adkpg.tools import PreloadMemoryTool, preload_memory
from adkpg.tools.block import HEADING
from tests.fakes.conversation import entry
from tests.fakes.facts_llm import Script, add, label, operations, supersede
from tests.fakes.stage import APP, USER
from tests.fakes.tool_stage import sent, stage_on

ADA: dict[str, Any] = {"app_name": APP, "user_id": USER}
BOB: dict[str, Any] = {"app_name": APP, "user_id": "bob"}


async def bullets(
    memory: PgVectorMemoryService, tool: PreloadMemoryTool = preload_memory
) -> list[str]:
    """What Ada's agent is sent of memory before a turn that has nothing to do with any of it."""
    stage = stage_on(memory, tool)
    stage.script("root", text("Over there."))
    await stage.say("Where is the station?")
    block = sent(stage, 0)[0]
    if not block.startswith(HEADING):
        return []
    return [line for line in block.splitlines() if line.startswith("- ")]


async def told(memory: PgVectorMemoryService, words: str, number: int, **who: Any) -> str:
    """Remembers what somebody says; returns the memory's id."""
    event = said(words, id=f"e{number}", timestamp=1_700_000_000.0 + number)
    await memory.add_events_to_memory(**who, session_id="s", events=[event])
    (turn,) = [
        each for each in (await memory.list_memories(**who)).items if each.event_id == event.id
    ]
    return str(turn.id)


@pytest.fixture
async def wish(memory: PgVectorMemoryService, facts: Facts, script: Script) -> str:
    """A wish of Ada's, and another of Bob's; the id of the turn in which Ada says hers."""
    await facts.enable(APP)
    turns = {}
    for who, words in ((ADA, "Be brief with me."), (BOB, "Always rhyme.")):
        turns[who["user_id"]] = await told(memory, words, 1, **who)
        script.says(operations(add(f"Wants: {words}", "t1", topics=["instruction"])))
        await facts.extract(**who)
    return turns[USER]


@pytest.mark.usefixtures("wish")
async def test_a_wish_comes_before_every_turn_of_its_person_alone(
    memory: PgVectorMemoryService,
) -> None:
    (bullet,) = await bullets(memory)
    assert "Wants: Be brief with me." in bullet
    assert await bullets(memory, preload_memory(standing=0)) == []


@pytest.mark.parametrize("way", ["the fact", "its turn", "its turn changed", "the person"])
async def test_a_wish_ends_with_what_it_was_drawn_from(
    memory: PgVectorMemoryService, wish: str, way: str
) -> None:
    if way == "the fact":
        page = await memory.list_memories(**ADA)
        (fact,) = [each for each in page.items if each.kind == "fact"]
        await memory.delete_memory(**ADA, memory_id=str(fact.id))
    elif way == "its turn":
        await memory.delete_memory(**ADA, memory_id=wish)
    elif way == "its turn changed":
        await memory.update_memory(**ADA, memory_id=wish, text="Never mind.")
    else:
        await forget(memory.database, **ADA)
    assert await bullets(memory) == []
    kept = await memory.facts_about(**BOB, topics=["instruction"], limit=9)
    assert len(kept) == 1


@pytest.mark.usefixtures("wish")
async def test_of_two_wishes_that_contradict_each_other_the_newer_holds(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    newer = await told(memory, "Tell me everything at length.", 2, **ADA)
    script.says(
        lambda prompt: operations(
            supersede(
                label(prompt, "known_facts", "Be brief"),
                "Wants: long answers.",
                label(prompt, "turns", "at length"),
                topics=["instruction"],
            )
        )
    )
    report = await facts.extract(**ADA)
    assert report.superseded == 1
    (bullet,) = await bullets(memory)
    assert "Wants: long answers." in bullet
    await memory.delete_memory(**ADA, memory_id=newer)
    assert await bullets(memory) == [], "what it superseded does not come back"


def _facts(words: Sequence[str], topic: str = "preference", **fields: Any) -> list[MemoryEntry]:
    return [
        Memory(content=entry(each).content, kind="fact", topics=[topic], **fields) for each in words
    ]


async def test_the_most_important_of_many_come_however_old_they_are(
    memory: PgVectorMemoryService,
) -> None:
    old: dict[str, Any] = {"importance": 1.0, "timestamp": "2020-01-01T00:00:00+00:00"}
    await memory.add_memory(**ADA, memories=_facts(["Is allergic to nuts."], **old))
    many = [f"Likes band number {number}." for number in range(120)]
    await memory.add_memory(**ADA, memories=_facts(many, importance=0.5))
    await memory.add_memory(**ADA, memories=_facts(["Lives in Porto."], topic="home"))
    found = await bullets(memory)
    assert len(found) == 3
    assert "Is allergic to nuts." in found[0]
    assert all("Likes band" in each for each in found[1:])


async def test_wishes_keep_to_the_budget(memory: PgVectorMemoryService) -> None:
    long = [f"Likes {number}: {'a lot of words ' * 20}" for number in range(8)]
    await memory.add_memory(**ADA, memories=_facts(long))
    await memory.add_memory(**ADA, memories=[entry("The station is by the sea.")])
    for budget, most in ((1_000, 9), (200, 3), (20, 1)):
        found = await bullets(memory, preload_memory(max_tokens=budget, standing=8))
        assert 1 <= len(found) <= most
        assert sum(map(tokens_of, found)) <= budget
    assert any("by the sea" in each for each in await bullets(memory, preload_memory(standing=2)))
