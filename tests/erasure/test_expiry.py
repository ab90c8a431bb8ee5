"""A memory with an end: from then on it is as if it had never been said."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from adkpg import PgVectorMemoryService
from adkpg.errors import InvalidInput
from adkpg.memory.records import Memory
from adkpg.memory.search.options import Mode
from tests.fakes.conversation import USER, entry, found, said, text_of

MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")
AHEAD = datetime(2100, 1, 1, tzinfo=UTC)
ENDS = [
    {"ttl": 3600},
    {"ttl": "3600s"},
    {"ttl": timedelta(hours=1)},
    {"expires_at": AHEAD},
    {"expires_at": AHEAD.isoformat()},
    {"expire_time": AHEAD.timestamp()},
]


async def pass_the_end(connection: asyncpg.Connection, where: str = "true") -> None:
    """Lets what has an end have reached it."""
    status = await connection.execute(
        f"UPDATE memories SET expires_at = now() WHERE expires_at > now() AND {where}"
    )
    assert status != "UPDATE 0"


async def everything(memory: PgVectorMemoryService, query: str) -> list[str]:
    """Returns all that searches in every mode find, with the turns around."""
    texts = []
    for mode in MODES:
        for hit in await memory.search(**USER, query=query, mode=mode, neighbours=2):
            texts += [text_of(each) for each in (hit.memory, *hit.neighbours)]
    return texts


@pytest.mark.parametrize("end", ENDS)
async def test_a_note_ends(
    memory: PgVectorMemoryService, connection: asyncpg.Connection, end: dict[str, Any]
) -> None:
    await memory.add_memory(**USER, memories=[entry("my kitten sleeps", "m")], custom_metadata=end)
    assert set(await everything(memory, "kitten")) == {"my kitten sleeps"}
    assert await memory.count_memories(**USER) == 1
    stored = await memory.get_memory(**USER, memory_id="m")
    assert stored is not None
    assert stored.expires_at is not None
    assert not set(end) & set(stored.custom_metadata)

    await pass_the_end(connection)

    assert await everything(memory, "kitten") == []
    assert await everything(memory, "feline") == []
    assert await memory.count_memories(**USER) == 0
    assert (await memory.list_memories(**USER)).items == []
    ended = (await memory.list_memories(**USER, live=False)).items
    assert [text_of(each) for each in ended] == ["my kitten sleeps"]
    answer = await memory.search_memory(**USER, query="kitten")
    assert answer.memories == []


async def test_an_entrys_own_end_wins(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(
        **USER,
        memories=[
            entry("oolong", custom_metadata={"ttl": 60}),
            Memory(content=entry("sencha").content, expires_at=AHEAD.isoformat()),
            entry("matcha"),
        ],
        custom_metadata={"expires_at": "2099-01-01T00:00:00+00:00"},
    )
    rows = await connection.fetch(
        "SELECT body, expires_at - now() < interval '1 hour' AS soon, expires_at FROM memories"
    )
    ends = {row["body"]: row["expires_at"].year for row in rows if not row["soon"]}
    assert ends == {"sencha": 2099, "matcha": 2099}
    assert {row["body"] for row in rows if row["soon"]} == {"oolong"}


@pytest.mark.parametrize("end", ENDS)
async def test_a_turn_ends_and_its_neighbours_know_nothing_of_it(
    memory: PgVectorMemoryService, connection: asyncpg.Connection, end: dict[str, Any]
) -> None:
    place: dict[str, Any] = {**USER, "session_id": "s"}
    await memory.add_events_to_memory(**place, events=[said("we set off", "e1")])
    await memory.add_events_to_memory(
        **place, events=[said("my kitten Pixel sleeps", "e2")], custom_metadata=end
    )
    await memory.add_events_to_memory(**place, events=[said("so we stay", "e3")])
    assert set(await found(memory, "Pixel")) == {
        "my kitten Pixel sleeps",
        "we set off",
        "so we stay",
    }

    await pass_the_end(connection)

    assert await everything(memory, "Pixel") == []
    assert await everything(memory, "feline") == []
    hits = await memory.search(**USER, query="Pixel sleeps, so we set off", neighbours=5)
    assert [text_of(hit.memory) for hit in hits] == ["we set off", "so we stay"]
    for hit in hits:
        assert "my kitten Pixel sleeps" not in [text_of(each) for each in hit.neighbours]
        assert not {"pixel", "sleep"} & set(hit.reason.lexemes)
        assert set(hit.reason.lexemes) <= {"set", "stay"}


async def test_a_prolonged_memory_is_found_again(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(**USER, memories=[entry("oolong", "m")], custom_metadata={"ttl": 60})
    await pass_the_end(connection)
    await memory.update_memory(**USER, memory_id="m", expires_at=AHEAD)
    assert await found(memory, "oolong") == ["oolong"]


async def test_an_end_is_taken_away(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(**USER, memories=[entry("oolong", "m")], custom_metadata={"ttl": 60})
    ends: tuple[dict[str, Any], ...] = ({"expires_at": AHEAD}, {"custom_metadata": {"ttl": 5}})
    for wrong in ends:
        with pytest.raises(InvalidInput, match="never_expires"):
            await memory.update_memory(**USER, memory_id="m", never_expires=True, **wrong)
    changes: tuple[dict[str, Any], ...] = ({}, {"text": "oolong tea", "importance": 0.9})
    for change in changes:
        changed = await memory.update_memory(**USER, memory_id="m", never_expires=True, **change)
        assert changed is not None
        assert changed.expires_at is None
    assert await connection.fetchval("SELECT count(expires_at) FROM memories") == 0
    assert await found(memory, "oolong") == ["oolong tea"]


async def test_an_end_in_the_past_is_an_end(memory: PgVectorMemoryService) -> None:
    await memory.add_memory(
        **USER, memories=[entry("oolong", "m")], custom_metadata={"expires_at": 0}
    )
    assert await everything(memory, "oolong brew") == []
    await memory.update_memory(**USER, memory_id="m", expires_at=AHEAD)
    assert await found(memory, "oolong") == ["oolong"]
    await memory.update_memory(**USER, memory_id="m", expires_at="2001-01-01T00:00:00Z")
    assert await everything(memory, "oolong brew") == []
