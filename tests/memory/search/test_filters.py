"""Filters of a search against a model of them, before every cut-off, in every form."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from google.genai import types

from adkpg import Database, PgVectorMemoryService
from adkpg.database.runner import Runner
from adkpg.memory.filters import KINDS, SearchFilters
from adkpg.memory.records import Memory
from adkpg.memory.search.options import Mode
from tests.fakes.conversation import (
    MODES,
    USER,
    entry,
    found,
    said,
    text_of,
)
from tests.fakes.queries import written
from tests.fakes.toys import SeededEmbedder, ToyEmbedder

DAY = timedelta(days=1)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORS = ("ana", "bob", "O'Hara; DROP TABLE memories; --")
TOPICS = ("tea", "cats", "work")
SESSIONS = ("s1", "s2", "s3")
PLACES: tuple[dict[str, Any], ...] = (
    {"city": {"name": "Lisbon", "zip": 1100}, "tags": ["a", "b"]},
    {"city": {"name": "Porto", "zip": 4000.5}, "tags": ["b"], "nul": "x\x00y"},
    {"city": {"name": "Faro"}, "tags": [], "sub": "\x1a0000"},
)


def note(number: int, chance: random.Random) -> Memory:
    """A memory whose every side was thrown with dice."""
    return Memory(
        id=f"note {number}",
        content=types.Content(parts=[types.Part(text=f"oolong {number}")]),
        author=chance.choice(AUTHORS),
        timestamp=(NEW_YEAR + chance.randrange(100) * DAY).isoformat(),
        kind=chance.choice([kind for kind in KINDS if kind != "turn"]),
        topics=chance.sample(TOPICS, chance.randrange(3)),
        custom_metadata=chance.choice(PLACES),
    )


class Dice:
    """A user with hundreds of memories, and what a filter should leave of them."""

    def __init__(self, memory: PgVectorMemoryService, embedder: SeededEmbedder) -> None:
        self.memory = memory
        self.embedder = embedder
        self.stored: list[Memory] = []

    async def fill(self) -> None:
        chance = random.Random(7)
        await self.memory.add_memory(**USER, memories=[note(n, chance) for n in range(220)])
        for place, session_id in enumerate(SESSIONS):
            events = [
                said(
                    f"oolong {1_000 * (place + 1) + n}",
                    f"{session_id}/{n}",
                    author=chance.choice(AUTHORS),
                    timestamp=(NEW_YEAR + chance.randrange(100) * DAY).timestamp(),
                )
                for n in range(60)
            ]
            await self.memory.add_events_to_memory(
                **USER, events=events, session_id=session_id, custom_metadata=PLACES[place]
            )
        # What other scopes have must never count.
        await self.memory.add_memory(
            app_name="app", user_id="other", memories=[note(n, chance) for n in range(50)]
        )
        after = None
        while True:
            page = await self.memory.list_memories(**USER, limit=100, cursor=after)
            self.stored += page.items
            after = page.next_cursor
            if after is None:
                break
        assert len(self.stored) == 400

    def filters(self, chance: random.Random) -> dict[str, Any]:
        asked: dict[str, Any] = {}
        if chance.random() < 0.4:
            asked["after"] = NEW_YEAR + chance.randrange(60) * DAY
        if chance.random() < 0.4:
            asked["before"] = NEW_YEAR + chance.randrange(40, 100) * DAY
        for name, values in (("authors", AUTHORS), ("kinds", KINDS), ("topics", TOPICS)):
            if chance.random() < 0.3:
                asked[name] = chance.sample(values, chance.randrange(1, 3))
        if chance.random() < 0.2:
            asked["session_ids"] = chance.sample(SESSIONS, 2)
        if chance.random() < 0.3:
            asked["metadata"] = chance.choice(
                [{"tags": ["b"]}, {"city": {"name": "Lisbon"}}, {"nul": "x\x00y"}, *PLACES]
            )
        return asked

    def eligible(self, asked: dict[str, Any]) -> list[Memory]:
        return [memory for memory in self.stored if meets(memory, asked)]

    def cosines(self, question: str, memories: list[Memory]) -> list[float]:
        """The cosines of memories with a question, the highest first."""
        asked = np.array(self.embedder.vector(question))
        rows = np.array([self.embedder.vector(text_of(memory)) for memory in memories])
        if not len(rows):
            return []
        units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return sorted((units @ asked / np.linalg.norm(asked)).tolist(), reverse=True)


def meets(memory: Memory, asked: dict[str, Any]) -> bool:
    """Whether a memory meets conditions, in Python's words."""
    said_at = datetime.fromisoformat(memory.timestamp or "")
    return (
        ("after" not in asked or said_at >= asked["after"])
        and ("before" not in asked or said_at < asked["before"])
        and ("authors" not in asked or memory.author in asked["authors"])
        and ("kinds" not in asked or memory.kind in asked["kinds"])
        and ("topics" not in asked or not set(memory.topics).isdisjoint(asked["topics"]))
        and ("session_ids" not in asked or memory.session_id in asked["session_ids"])
        and ("metadata" not in asked or contains(memory.custom_metadata, asked["metadata"]))
    )


def contains(whole: Any, part: Any) -> bool:
    """What jsonb's ``@>`` says."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(whole[key], value) for key, value in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(
            any(contains(own, value) for own in whole) for value in part
        )
    return bool(whole == part)


@pytest.fixture
async def dice(database: Database) -> Dice:
    embedder = SeededEmbedder(dimensions=32)
    made = Dice(PgVectorMemoryService(database, embedder=embedder), embedder)
    await made.fill()
    return made


async def test_filters_leave_exactly_what_meets_them_and_the_nearest_of_that(dice: Dice) -> None:
    chance = random.Random(11)
    sizes = []
    for number in range(25):
        asked = dice.filters(chance)
        filters = SearchFilters(**asked)
        eligible = dice.eligible(asked)
        sizes.append(len(eligible))
        ids = {memory.id for memory in eligible}
        question = f"oolong {5_000 + number}"
        nearest = await dice.memory.search(
            **USER, query=question, filters=filters, mode="vector", top_k=10, min_relevance=-1
        )
        cosines = dice.cosines(question, eligible)[:10]
        assert [hit.reason.cosine for hit in nearest] == pytest.approx(cosines, abs=2e-3)
        assert all(meets(hit.memory, asked) for hit in nearest)
        for mode in MODES:
            query = question if mode == "vector" else "oolong"
            hits = await dice.memory.search(
                **USER, query=query, filters=filters, mode=mode, top_k=500, min_relevance=-1
            )
            assert {hit.memory.id for hit in hits} == ids, (mode, asked)
        assert await dice.memory.count_memories(**USER, filters=filters) == len(eligible)
    assert min(sizes) == 0 < sum(sizes) < 25 * 400


async def test_each_filter_alone(dice: Dice) -> None:
    middle = NEW_YEAR + 50 * DAY
    for asked in (
        {"after": middle},
        {"before": middle},
        {"authors": [AUTHORS[2]]},
        {"session_ids": ["s2"]},
        {"kinds": ["turn", "fact"]},
        {"topics": ["tea", "work"]},
        {"metadata": {"city": {"zip": 1100}}},
    ):
        expected = {memory.id for memory in dice.eligible(asked)}
        assert 0 < len(expected) < 400
        hits = await dice.memory.search(
            **USER,
            query="oolong",
            filters=SearchFilters(**asked),
            top_k=500,
        )
        assert {hit.memory.id for hit in hits} == expected


@pytest.mark.parametrize("mode", MODES)
async def test_one_memory_is_found_among_hundreds_that_fit_better(
    database: Database, mode: Mode
) -> None:
    memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
    await memory.add_memory(
        **USER,
        memories=[
            *(entry(f"kitten kitten {n}", author="bob") for n in range(600)),
            entry("a long story of a kitten and a car", "wanted", author="ana"),
        ],
    )
    filters = SearchFilters(authors=["ana"])
    hits = await memory.search(**USER, query="kitten", filters=filters, mode=mode, top_k=1)
    assert [hit.memory.id for hit in hits] == ["wanted"]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"n": 1}, ["ints"]),
        ({"n": 1.0}, ["ints"]),
        ({"n": "1"}, ["texts"]),
        ({"deep": {"er": {"est": [1, 2]}}}, ["deep"]),
        ({"deep": {"er": {}}}, ["deep"]),
        ({"deep": {"er": {"est": [2]}}}, ["deep"]),
        ({"deep": {"er": {"est": 2}}}, []),
        ({"nul\x00": "a\x00b"}, ["nul"]),
        ({"nul ": "a b"}, []),
        ({"half": "\ud800"}, ["half"]),
        ({"half": "\udfffx"}, []),
        ({"none": None}, ["none"]),
        ({"": ""}, ["empty"]),
        ({"'; DROP TABLE memories; --": "%_\\"}, ["sql"]),
        ({"big": 2**80}, ["big"]),
        ({"flag": True}, ["flag"]),
        ({"flag": 1}, []),
    ],
)
async def test_metadata_is_contained(
    memory: PgVectorMemoryService, metadata: dict[str, Any], expected: list[str]
) -> None:
    given: dict[str, dict[str, Any]] = {
        "ints": {"n": 1, "x": 2},
        "texts": {"n": "1"},
        "deep": {"deep": {"er": {"est": [1, 2, 3], "x": 1}}},
        "nul": {"nul\x00": "a\x00b"},
        "half": {"half": "\ud800"},
        "none": {"none": None},
        "empty": {"": ""},
        "sql": {"'; DROP TABLE memories; --": "%_\\"},
        "big": {"big": 2**80},
        "flag": {"flag": True},
    }
    await memory.add_memory(
        **USER,
        memories=[
            entry(f"kitten {name}", name, custom_metadata=value) for name, value in given.items()
        ],
    )
    hits = await memory.search(
        **USER, query="kitten", filters=SearchFilters(metadata=metadata), top_k=100
    )
    assert [hit.memory.id for hit in hits] == expected


async def test_moments_are_read_in_every_form(memory: PgVectorMemoryService) -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    await memory.add_memory(
        **USER,
        memories=[
            entry("kitten before", timestamp=(noon - timedelta(microseconds=1)).isoformat()),
            entry("kitten at noon", timestamp=noon.isoformat()),
        ],
    )
    naive = noon.replace(tzinfo=None)  # in the zone of the service, UTC
    for moment in (noon, noon.isoformat(), noon.timestamp(), naive, naive.isoformat()):
        later, earlier = SearchFilters(after=moment), SearchFilters(before=moment)
        assert await found(memory, "kitten", filters=later) == ["kitten at noon"]
        assert await found(memory, "kitten", filters=earlier) == ["kitten before"]
    nothing = SearchFilters(after=noon + DAY, before=noon)
    assert await found(memory, "kitten", filters=nothing) == []


async def test_what_no_longer_meets_them_when_it_is_read_is_no_hit(database: Database) -> None:
    """A search ranks what speaks for memories, and then reads the best."""
    memory = PgVectorMemoryService(database, mode="text")
    await memory.add_memory(
        **USER, memories=[entry(f"kitten {n}", f"m{n}", author="ana") for n in range(4)]
    )
    changes = iter(
        (
            "UPDATE memories SET author = 'bob' WHERE memory_id = 'm0'",
            "UPDATE memories SET invocation_id = 'running' WHERE memory_id = 'm1'",
            "UPDATE memories SET expires_at = now() WHERE memory_id = 'm2'",
        )
    )

    class Changing(Runner):
        async def fetch(self, query: Any, **options: Any) -> Any:
            fetch: Any = super().fetch
            if "positions" in query.parameters:
                for change in changes:
                    await fetch(written(change.replace("UPDATE ", "UPDATE adkpg.")))
            return await fetch(query, **options)

    database.run = Changing(database.connections, database.installation)
    filters = SearchFilters(authors=["ana"])
    for _ in range(2):
        hits = await memory.search(
            **USER, query="kitten", filters=filters, exclude_invocation_id="running"
        )
        assert [hit.memory.id for hit in hits] == ["m3"]
