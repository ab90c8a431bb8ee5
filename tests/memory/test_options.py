"""Every option of a search against a real server, and filters against a model of them."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import numpy as np
import pytest
from google.genai import types

from adkpg import Database, PgVectorMemoryService
from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.memory import ranking
from adkpg.memory.filters import KINDS, SearchFilters
from adkpg.memory.hits import tokens
from adkpg.memory.options import Mode
from adkpg.memory.records import Memory
from tests.memory.conversation import (
    USER,
    conversation,
    entry,
    found,
    remember_apart,
    said,
    session_of,
    text_of,
)
from tests.memory.toys import SeededEmbedder, ToyEmbedder

MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")
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
            page = await self.memory.list_memories(**USER, limit=100, after=after)
            self.stored += page.memories
            after = page.next
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
            **USER, query=question, filters=filters, mode="vector", top_k=10
        )
        cosines = dice.cosines(question, eligible)[:10]
        assert [hit.reason.cosine for hit in nearest] == pytest.approx(cosines, abs=2e-3)
        assert all(meets(hit.memory, asked) for hit in nearest)
        for mode in MODES:
            # With words, what has none of them is no hit; all have this one.
            query = question if mode == "vector" else "oolong"
            hits = await dice.memory.search(
                **USER, query=query, filters=filters, mode=mode, top_k=500, min_score=-1
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
        ({"half": "\udfff"}, []),
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
    local = noon.astimezone().replace(tzinfo=None)
    for moment in (noon, noon.isoformat(), noon.timestamp(), local, local.isoformat()):
        later, earlier = SearchFilters(after=moment), SearchFilters(before=moment)
        assert await found(memory, "kitten", filters=later) == ["kitten at noon"]
        assert await found(memory, "kitten", filters=earlier) == ["kitten before"]
    nothing = SearchFilters(after=noon + DAY, before=noon)
    assert await found(memory, "kitten", filters=nothing) == []


async def test_a_half_life_is_a_factor_of_the_age(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(**USER, memories=[entry(f"kitten {n}", str(n)) for n in (0, 1, 2, 9)])
    await connection.execute(
        "UPDATE memories SET timestamp = now() - interval '1 day' * memory_id::int"
    )
    await connection.execute(
        "UPDATE memories SET timestamp = now() + interval '5 days' WHERE memory_id = '0'"
    )
    plain = {hit.memory.id: hit for hit in await memory.search(**USER, query="kitten")}
    faded = await memory.search(**USER, query="kitten", half_life=2 * DAY)
    for hit in faded:
        days = int(hit.memory.id or 0)  # what is to come is as fresh as what is now
        assert hit.reason.recency == pytest.approx(0.5 ** (days / 2), rel=1e-4)
        expected = plain[hit.memory.id].score * hit.reason.recency
        assert hit.score == hit.reason.score == pytest.approx(expected)
        assert plain[hit.memory.id].reason.recency == 1
    assert [hit.memory.id for hit in faded] == ["0", "1", "2", "9"]
    instant = await memory.search(**USER, query="kitten", half_life=timedelta.resolution)
    assert len(instant) == 4
    assert all(hit.score >= 0 for hit in instant)
    for_ever = await memory.search(**USER, query="kitten", half_life=timedelta.max)
    assert all(hit.reason.recency == pytest.approx(1) for hit in for_ever)


async def test_importance_is_a_factor_that_is_one_in_the_middle(
    memory: PgVectorMemoryService,
) -> None:
    low, high = ranking.RANKING.importance_factors
    await memory.add_memory(
        **USER,
        memories=[
            entry(f"kitten {value}", str(value), custom_metadata={"importance": value})
            for value in (0.0, 0.25, 1.0)
        ]
        + [entry("kitten plain", "0.5")],
    )
    hits = await memory.search(**USER, query="kitten", mode="vector")
    assert [hit.memory.id for hit in hits] == ["1.0", "0.5", "0.25", "0.0"]
    for hit in hits:
        factor = low + float(hit.memory.id or 0) * (high - low)
        assert hit.reason.importance == pytest.approx(factor)
        assert hit.score == pytest.approx((hit.reason.cosine or 0) * factor, abs=1e-6)


@pytest.mark.parametrize("mode", MODES)
async def test_a_score_is_what_its_reason_says(memory: PgVectorMemoryService, mode: Mode) -> None:
    await memory.add_session_to_memory(
        conversation("my kitten and a car", "a feline", "the kitten, the kitten!", "puppy", "bread")
    )
    await remember_apart(memory, "kitten car", "vehicle of a hound", "feline automobile")
    hits = await memory.search(**USER, query="kitten car", mode=mode, min_score=-1, half_life=DAY)
    reasons = [hit.reason for hit in hits]
    best = max(reason.lexical for reason in reasons)
    cosines = [reason.cosine for reason in reasons if reason.cosine is not None]
    for reason in reasons:
        factor = reason.recency * reason.importance
        if mode == "vector":
            assert reason.lexical == 0
            plain = reason.cosine
        elif mode == "text":
            assert reason.cosine is None
            plain = reason.lexical
        else:
            assert reason.cosine is not None
            meaning = (reason.cosine - min(cosines)) / (max(cosines) - min(cosines))
            plain = reason.lexical / best + ranking.RANKING.vector * meaning
        assert reason.score == pytest.approx(plain * factor if plain else 0)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(hits) >= 5


async def test_reasons_name_the_words_that_matched(memory: PgVectorMemoryService) -> None:
    await memory.add_session_to_memory(conversation("Running kittens", "They slept", "far", "away"))
    await remember_apart(memory, "feline")
    hits = await memory.search(**USER, query="the kitten runs and runs", mode="text")
    lexemes = {text_of(hit.memory): hit.reason.lexemes for hit in hits}
    assert set(lexemes["Running kittens"]) == {"kitten", "run"}
    assert set(lexemes["They slept"]) == {"kitten", "run"}
    assert "feline" not in lexemes
    for mode in ("hybrid", "vector"):
        hits = await memory.search(**USER, query="kitten", mode=mode)
        (feline,) = [hit for hit in hits if text_of(hit.memory) == "feline"]
        assert (feline.reason.lexical, feline.reason.lexemes) == (0, ())


async def test_an_answer_never_costs_more_than_its_budget(memory: PgVectorMemoryService) -> None:
    texts = [f"turn {n} of a kitten " + "purr " * (n % 7) for n in range(20)]
    await memory.add_session_to_memory(conversation(*texts))
    whole = await memory.search(**USER, query="kitten", neighbours=1)
    for budget in (1, 5, 10, 25, 100, 1_000, 10**9):
        for neighbours in (0, 1):
            hits = await memory.search(
                **USER, query="kitten", max_tokens=budget, neighbours=neighbours
            )
            spent = sum(tokens(each) for hit in hits for each in (hit.memory, *hit.neighbours))
            assert spent <= budget
            assert [hit.memory.id for hit in hits] == [
                hit.memory.id for hit in whole if hit.memory.id in {h.memory.id for h in hits}
            ]
    assert len(hits) == len(whole) == 20
    assert await memory.search(**USER, query="kitten", max_tokens=1) == []


async def test_neighbours_are_the_turns_around_in_order(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    for session_id in ("a", "b"):
        await memory.add_session_to_memory(
            session_of(
                *(said(f"{session_id}{n}", f"e{n}") for n in range(3)),
                said(f"kitten of {session_id}", "e3"),
                *(said(f"{session_id}{n}", f"e{n}") for n in range(4, 7)),
                session_id=session_id,
            )
        )
    hits = await memory.search(**USER, query="kitten", neighbours=2, mode="vector")
    around = {text_of(hit.memory): [text_of(each) for each in hit.neighbours] for hit in hits}
    assert around == {
        "kitten of a": ["a1", "a2", "a4", "a5"],
        "kitten of b": ["b1", "b2", "b4", "b5"],
    }
    await connection.execute("UPDATE memories SET expires_at = now() WHERE body = 'user: a2'")
    (gone,) = await connection.fetch("SELECT memory_id FROM memories WHERE body = 'user: b4'")
    await memory.delete_memory(**USER, memory_id=gone["memory_id"])
    hits = await memory.search(**USER, query="kitten", neighbours=10, mode="vector")
    around = {text_of(hit.memory): [text_of(each) for each in hit.neighbours] for hit in hits}
    assert around == {
        "kitten of a": ["a0", "a1", "a4", "a5", "a6"],
        "kitten of b": ["b0", "b1", "b2", "b5", "b6"],
    }
    for hit in await memory.search(**USER, query="kitten", mode="vector"):
        assert hit.neighbours == ()


async def test_neighbours_are_of_the_same_scope(memory: PgVectorMemoryService) -> None:
    """A note of the user and one of the app may have the same id."""
    await memory.add_memory(**USER, memories=[entry("my kitten", "same")])
    await memory.add_memory(app_name="app", user_id=None, memories=[entry("its kitten", "same")])
    await memory.add_session_to_memory(conversation("before", "kitten", "after"))
    hits = await memory.search(**USER, query="kitten", neighbours=1, mode="vector")
    around = {text_of(hit.memory): [text_of(each) for each in hit.neighbours] for hit in hits}
    assert around == {"my kitten": [], "its kitten": [], "kitten": ["before", "after"]}


async def test_vertex_names_are_options(memory: PgVectorMemoryService, database: Database) -> None:
    await remember_apart(memory, "feline", "feline puppy", "kitten puppy car", "sleepy")
    assert len(await found(memory, "kitten", similarity_top_k=1)) == 1
    for distance in (0.1, 0.4, 1.0):
        assert await found(
            memory, "kitten", vector_distance_threshold=distance, mode="vector"
        ) == await found(memory, "kitten", min_score=1 - distance, mode="vector")
    with pytest.raises(InvalidInput, match="twice"):
        await found(memory, "kitten", top_k=3, similarity_top_k=4)
    own = PgVectorMemoryService(
        database, embedder=ToyEmbedder(), similarity_top_k=2, vector_distance_threshold=0.1
    )
    assert await found(own, "kitten") == ["kitten puppy car", "feline"]
    assert len(await found(own, "kitten", similarity_top_k=4, min_score=-1)) == 4
    with pytest.raises(ConfigurationError, match="twice"):
        PgVectorMemoryService(database, mode="text", top_k=3, similarity_top_k=4)


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 2**40},
        {"min_score": "high"},
        {"half_life": 3600},
        {"half_life": timedelta()},
        {"max_tokens": 0},
        {"neighbours": 11},
        {"neighbours": 1.5},
        {"mode": "magic"},
        {"filters": {"authors": ["ana"]}},
        {"vector_distance_threshold": 3},
        {"app_wide": "no"},
    ],
)
async def test_bad_values_are_refused_before_anything_is_asked(
    database_url: str, options: dict[str, Any]
) -> None:
    """The database's name is wrong: whoever asked it would hear of that."""
    embedder = ToyEmbedder()
    async with Database(database_url.replace("postgresql://", "postgresql://nobody@", 1)) as wrong:
        memory = PgVectorMemoryService(wrong, embedder=embedder)
        with pytest.raises(InvalidInput):
            await memory.search(**USER, query="kitten", **options)
    assert embedder.questions == []


EVERY_OPTION: dict[str, Any] = {
    "filters": SearchFilters(
        after="2000-01-01",
        before=4e9,
        authors=["ana", "x\x00"],
        session_ids=["s"],
        metadata={"x\x00": ["\ud800"]},
        kinds=KINDS,
        topics=["tea"],
    ),
    "top_k": 3,
    "min_score": 0.1,
    "half_life": DAY,
    "max_tokens": 100,
    "neighbours": 2,
    "app_wide": True,
}


@pytest.mark.parametrize(
    "query",
    [
        "",
        " \n\t",
        "\x00",
        "\ud800\x00",
        "'; DROP TABLE memories; --",
        "$1 :query %(query)s {0} \\",
        "a & b | !c <-> (d:*",
        "oolong " * 3_000,
        "".join(chr(33 + n % 90) for n in range(20_000)),
        "漢字" * 7_000,
        "🙂" * 5_000,
    ],
    ids=lambda query: f"{query[:6]!r} {len(query)}",
)
@pytest.mark.parametrize("options", [{}, EVERY_OPTION], ids=["plain", "every option"])
async def test_any_text_is_a_query_with_any_options(
    memory: PgVectorMemoryService, query: str, options: dict[str, Any]
) -> None:
    await memory.add_events_to_memory(
        **USER,
        events=[said("oolong a & b", "e1", author="ana"), said("'; DROP TABLE", author="ana")],
        session_id="s",
        custom_metadata={"topics": ["tea"], "x\x00": ["\ud800"]},
    )
    for mode in MODES:
        hits = await memory.search(**USER, query=query, mode=mode, **options)
        assert len(hits) <= 3
        assert hits == [] or query.strip(" \n\t\x00\ud800")
    assert await memory.count_memories(**USER) == 2


async def test_adding_twenty_times_changes_no_answer(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    session = conversation("my kitten sleeps", "a hound barks", "order 9981", "oolong")
    answers = []
    for _ in range(20):
        await memory.add_session_to_memory(session)
        hits = await memory.search(**USER, query="kitten order 9981", neighbours=1)
        scored = [(hit.memory.id, round(hit.score, 9), hit.folded) for hit in hits]  # sums vary
        answers.append((scored, [hit.neighbours for hit in hits]))
    assert answers == [answers[0]] * 20
    counts = await connection.fetchrow(
        "SELECT (SELECT count(*) FROM memories), (SELECT count(*) FROM memory_vectors),"
        " (SELECT count(*) FROM memory_jobs), (SELECT count(DISTINCT position) FROM memories)"
    )
    assert tuple(counts or ()) == (4, 4, 0, 4)
