"""Memories one by one: listed in pages, read, counted, changed."""

from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import PgVectorMemoryService
from adkpg.errors import InvalidInput
from adkpg.keys import APP_WIDE
from adkpg.memory.filters import SearchFilters
from adkpg.memory.records import Memory
from tests.fakes.conversation import USER, entry, found
from tests.fakes.toys import ToyEmbedder

OTHER: dict[str, Any] = {"app_name": "app", "user_id": "other"}


def noted(text: str, second: int, **fields: Any) -> Memory:
    return Memory(
        id=text,
        content=types.Content(parts=[types.Part(text=text)]),
        timestamp=datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC).isoformat(),
        **fields,
    )


def texts(memories: list[Memory]) -> list[str]:
    return [memory.content.parts[0].text or "" for memory in memories if memory.content.parts]


async def pages(
    memory: PgVectorMemoryService, limit: int, filters: SearchFilters | None = None
) -> list[list[str]]:
    read: list[list[str]] = []
    after = None
    while True:
        page = await memory.list_memories(**USER, limit=limit, cursor=after, filters=filters)
        read.append(texts(page.items))
        after = page.next_cursor
        if after is None:
            return read


async def test_pages_hold_every_memory_once_newest_first(memory: PgVectorMemoryService) -> None:
    # Four of one second: their places decide.
    given = [noted(f"m{number}", number // 4) for number in range(12)]
    await memory.add_memory(**USER, memories=given)
    await memory.add_memory(**OTHER, memories=[noted("theirs", 9)])
    whole = (await pages(memory, 50))[0]
    assert sorted(whole) == sorted(texts(given))
    assert [int(text[1:]) // 4 for text in whole] == [2] * 4 + [1] * 4 + [0] * 4
    for limit in (1, 5, 12):
        read = await pages(memory, limit)
        assert [text for page in read for text in page] == whole
        assert {len(page) for page in read[:-1]} <= {limit}
        assert read[-1]


async def test_pages_are_stable_while_memories_come_and_go(memory: PgVectorMemoryService) -> None:
    await memory.add_memory(**USER, memories=[noted(f"m{number}", number) for number in range(6)])
    first = await memory.list_memories(**USER, limit=3)
    assert texts(first.items) == ["m5", "m4", "m3"]
    await memory.add_memory(**USER, memories=[noted("new", 59), noted("behind", 0)])
    await memory.delete_memory(**USER, memory_id="m3")  # the one the cursor stands on
    await memory.delete_memory(**USER, memory_id="m2")
    second = await memory.list_memories(**USER, limit=50, cursor=first.next_cursor)
    assert texts(second.items)[0] == "m1"
    assert set(texts(second.items)) == {"m1", "m0", "behind"}
    assert second.next_cursor is None


async def test_pages_and_counts_take_filters(memory: PgVectorMemoryService) -> None:
    await memory.add_memory(
        **USER,
        memories=[
            noted("tea", 1, author="ann", topics=["drinks"], custom_metadata={"place": {"no": 1}}),
            noted("car", 2, author="bob", kind="fact", topics=["cars", "travel"]),
            noted("cat", 3, author="ann", kind="summary"),
        ],
    )
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["cat", "car", "tea"]),
        ({"authors": ["ann"]}, ["cat", "tea"]),
        ({"kinds": ["fact", "summary"]}, ["cat", "car"]),
        ({"topics": ["travel", "drinks"]}, ["car", "tea"]),
        ({"metadata": {"place": {"no": 1}}}, ["tea"]),
        ({"after": "2026-01-01T00:00:02+00:00"}, ["cat", "car"]),
        ({"before": datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC), "authors": ["ann"]}, ["tea"]),
        ({"session_ids": ["nowhere"]}, []),
    ]
    for asked, expected in cases:
        filters = SearchFilters(**asked)
        page = await memory.list_memories(**USER, filters=filters)
        assert texts(page.items) == expected, asked
        assert await memory.count_memories(**USER, filters=filters) == len(expected), asked
    assert await pages(memory, 1, SearchFilters(authors=["ann"])) == [["cat"], ["tea"]]


async def test_what_has_expired_is_read_only_if_it_is_asked_for(
    memory: PgVectorMemoryService,
) -> None:
    await memory.add_memory(
        **USER, memories=[noted("tea", 1, expires_at="2026-01-02T00:00:00Z"), noted("car", 2)]
    )
    assert texts((await memory.list_memories(**USER)).items) == ["car"]
    assert texts((await memory.list_memories(**USER, live=False)).items) == ["car", "tea"]
    assert await memory.count_memories(**USER) == 1
    gone = await memory.get_memory(**USER, memory_id="tea")
    assert gone is not None
    assert gone.expires_at == "2026-01-02T00:00:00+00:00"
    later = await memory.update_memory(**USER, memory_id="tea", expires_at=4_000_000_000)
    assert later is not None
    assert later.expires_at == "2096-10-02T07:06:40+00:00"
    assert await memory.count_memories(**USER) == 2
    assert await found(memory, "oolong") == ["tea"]


@pytest.mark.parametrize("after", ["", "nonsense", "bm9uc2Vuc2U=", "MjAyNi0wMS0wMSAx", "\x00é"])
async def test_a_cursor_that_is_none_is_refused(memory: PgVectorMemoryService, after: str) -> None:
    with pytest.raises(InvalidInput, match="did not come from a page"):
        await memory.list_memories(**USER, cursor=after)


async def test_a_limit_below_one_is_refused(memory: PgVectorMemoryService) -> None:
    with pytest.raises(InvalidInput, match="limit=0"):
        await memory.list_memories(**USER, limit=0)


@pytest.mark.parametrize(
    "place", [{"user_id": "\x00"}, {"user_id": APP_WIDE}, {"app_name": "\ud800"}]
)
async def test_scopes_that_nothing_is_stored_under_are_empty(
    memory: PgVectorMemoryService, place: dict[str, str]
) -> None:
    await memory.add_memory(app_name="app", user_id=None, memories=[entry("tea")])
    scope = USER | place
    assert (await memory.list_memories(**scope)).items == []
    assert await memory.count_memories(**scope) == 0
    assert await memory.get_memory(**scope, memory_id="m") is None
    assert await memory.update_memory(**scope, memory_id="m", importance=1) is None


async def test_the_text_is_changed_in_its_place(
    memory: PgVectorMemoryService, embedder: ToyEmbedder, connection: asyncpg.Connection
) -> None:
    given = [noted("A car.", 1, author="ann", topics=["t"]), noted("A kitten.", 2)]
    earlier = [entry(f"Bread {n}.", timestamp="2025-06-01T00:00:00Z") for n in range(2)]
    await memory.add_memory(**USER, memories=[*given, *earlier])
    kept = "SELECT position, session_id, author, timestamp, created_at FROM memories WHERE "
    before = await connection.fetchrow(f"{kept} memory_id = 'A car.'")
    changed = await memory.update_memory(**USER, memory_id="A car.", text="Oolong, by train.")
    assert changed is not None
    assert (texts([changed]), changed.id, changed.author, changed.topics) == (
        ["Oolong, by train."],
        "A car.",
        "ann",
        ["t"],
    )
    assert await connection.fetchrow(f"{kept} memory_id = 'A car.'") == before
    assert embedder.documents[-1] == ["ann: Oolong, by train."]
    assert await found(memory, "train", mode="text") == ["Oolong, by train."]
    assert await found(memory, "brew", mode="vector") == ["Oolong, by train."]
    assert await found(memory, "car", mode="text") == []
    assert await found(memory, "vehicle", mode="vector") == []
    assert await found(memory, "January 2026", mode="text")  # its time is its own
    lengths = "SELECT length FROM memories WHERE memory_id = 'A car.'"
    assert await connection.fetchval(lengths) == 3
    assert await connection.fetchval("SELECT count(*) FROM memory_jobs") == 0


async def test_changing_a_text_takes_what_was_drawn_from_it_but_keeps_its_own_sources(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(
        **USER,
        memories=[noted("turn", 1), noted("fact", 2, kind="fact"), noted("more", 3, kind="fact")],
    )
    await connection.execute(
        "INSERT INTO memory_provenance VALUES ('app', 'user', 'fact', 'turn'), "
        "('app', 'user', 'more', 'fact')"
    )
    await memory.update_memory(**USER, memory_id="fact", text="better fact")
    assert await memory.get_memory(**USER, memory_id="more") is None
    rows = await connection.fetch("SELECT memory_id, origin_id FROM memory_provenance")
    assert [tuple(row) for row in rows] == [("fact", "turn")]
    await memory.delete_memory(**USER, memory_id="turn")
    assert await memory.count_memories(**USER) == 0


async def test_an_update_revives_a_job_that_was_given_up(
    memory: PgVectorMemoryService, connection: asyncpg.Connection, embedder: ToyEmbedder
) -> None:
    silent = PgVectorMemoryService(memory.database, mode="text")
    await silent.add_memory(**USER, memories=[noted("car", 1)])
    await connection.execute("UPDATE memory_jobs SET dead = true, attempts = 10, error = 'no'")
    await memory.update_memory(**USER, memory_id="car", text="oolong")
    assert embedder.documents == [["oolong"]]
    assert await connection.fetchval("SELECT count(*) FROM memory_jobs") == 0


async def test_facets_change_one_by_one_without_a_new_vector(
    memory: PgVectorMemoryService, embedder: ToyEmbedder
) -> None:
    await memory.add_memory(**USER, memories=[noted("car", 1, custom_metadata={"importance": 0.9})])
    embedder.documents.clear()

    async def changed(**fields: Any) -> tuple[list[str], float, str | None, dict[str, Any]]:
        now = await memory.update_memory(**USER, memory_id="car", **fields)
        assert now is not None
        assert texts([now]) == ["car"]
        return now.topics, now.importance, now.expires_at, now.custom_metadata

    far = "2099-01-01T00:00:00+00:00"
    assert await changed() == ([], 0.9, None, {"importance": 0.9})
    assert await changed(importance=0.2) == ([], 0.2, None, {"importance": 0.2})
    # The metadata said 0.9 once; it must not come back with the next change.
    assert await changed(topics=["b", "a"]) == (["a", "b"], 0.2, None, {"importance": 0.2})
    assert await changed(expires_at=far) == (["a", "b"], 0.2, far, {"importance": 0.2})
    assert await changed(custom_metadata={"k": 1, "topics": ["c"]}) == (
        ["c"],
        0.2,
        far,
        {"k": 1, "topics": ["c"]},
    )
    assert await changed(topics=[]) == ([], 0.2, far, {"k": 1, "topics": []})
    assert embedder.documents == []


async def test_a_changed_note_becomes_what_is_given_when_it_is_added_again(
    memory: PgVectorMemoryService,
) -> None:
    await memory.add_memory(**USER, memories=[noted("car", 1)])
    await memory.update_memory(**USER, memory_id="car", text="tea", importance=0.7)
    await memory.add_memory(**USER, memories=[noted("car", 1)])
    again = await memory.get_memory(**USER, memory_id="car")
    assert again is not None
    assert (texts([again]), again.importance) == (["car"], 0.5)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"text": " \x00"}, "without text"),
        ({"importance": 1.5}, "importance"),
        ({"importance": "high"}, "importance"),
        ({"topics": ["cars", 5]}, "topics"),
        ({"topics": "cars"}, "topics"),
        ({"expires_at": "soon"}, "expires_at"),
        ({"custom_metadata": {"ttl": "soon"}}, "ttl"),
    ],
)
async def test_an_update_that_cannot_be_stored_changes_nothing(
    memory: PgVectorMemoryService, wrong: dict[str, Any], sentence: str
) -> None:
    await memory.add_memory(**USER, memories=[noted("car", 1)])
    before = await memory.get_memory(**USER, memory_id="car")
    with pytest.raises(InvalidInput, match=sentence):
        await memory.update_memory(**USER, memory_id="car", **wrong)
    assert await memory.get_memory(**USER, memory_id="car") == before


async def test_unknown_memories_are_none(memory: PgVectorMemoryService) -> None:
    await memory.add_memory(**OTHER, memories=[noted("car", 1)])
    assert await memory.get_memory(**USER, memory_id="car") is None
    assert await memory.update_memory(**USER, memory_id="car", text="tea") is None
    assert isinstance(await memory.get_memory(**OTHER, memory_id="car"), MemoryEntry)
