"""Every option of a search but its filters, against a real server."""

from datetime import timedelta
from math import hypot
from operator import mul
from random import Random
from statistics import fmean, pstdev
from typing import Any

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.embedding.embedder import weight_of
from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.memory.filters import KINDS, SearchFilters
from adkpg.memory.search import ranking
from adkpg.memory.search.hits import tokens
from adkpg.memory.search.options import Mode
from tests.fakes.conversation import (
    MODES,
    USER,
    conversation,
    entry,
    found,
    remember_apart,
    said,
    session_of,
    text_of,
)
from tests.fakes.toys import ToyEmbedder

DAY = timedelta(days=1)
WORDS = ["kitten", "feline", "dog", "car", "tea", "rain", "moon"]
QUERIES = ("kitten dog", "car and tea", "moon kitten rain")


async def test_a_half_life_is_a_factor_of_the_age(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(**USER, memories=[entry(f"kitten {n}", str(n)) for n in (0, 1, 2, 9)])
    await connection.execute(
        "UPDATE memories SET timestamp ="
        " (now() AT TIME ZONE 'UTC' - interval '1 day' * memory_id::int) AT TIME ZONE 'UTC'"
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
async def test_fewer_hits_are_the_first_of_more_whatever_importance_lifts(
    memory: PgVectorMemoryService, mode: Mode
) -> None:
    """Of many candidates only those are looked up that importance could lift among the best."""
    random = Random(0)
    notes = [
        entry(
            f"note{number} {' '.join(random.choices(WORDS, k=4))}",
            custom_metadata={"importance": random.random()},
        )
        for number in range(70)
    ]
    await memory.add_memory(**USER, memories=notes)
    for query in QUERIES:
        every = await memory.search(**USER, query=query, mode=mode, top_k=70)
        assert len({hit.reason.importance for hit in every}) == len(every) > 20
        for top_k in (1, 3, 10):
            options = {"mode": mode, "top_k": top_k}
            best = [text_of(hit.memory) for hit in every[:top_k]]
            assert await found(memory, query, **options) == best


@pytest.mark.parametrize("half_life", [None, DAY])
@pytest.mark.parametrize("mode", MODES)
async def test_fewer_hits_are_the_first_of_more_where_importance_is_usual(
    memory: PgVectorMemoryService, mode: Mode, half_life: timedelta | None
) -> None:
    """Only as many are looked up as are returned, unless age tells them apart."""
    random = Random(1)
    days = random.sample(range(1, 28), k=27)
    notes = [
        entry(
            # With words of its own, or the newer of two that speak of the same thing comes first.
            " ".join([*random.choices(WORDS, k=4), *(f"n{number}w{n}" for n in range(8))]),
            timestamp=f"2026-02-{days[number % 27]:02}T00:00:{number:02}+00:00",
        )
        for number in range(50)
    ]
    await memory.add_memory(**USER, memories=notes)
    for query in QUERIES:
        options: dict[str, Any] = {"mode": mode, "half_life": half_life}
        every = await memory.search(**USER, query=query, top_k=50, **options)
        assert len(every) > 20
        scores = [hit.score for hit in every]
        assert scores == sorted(scores, reverse=True)
        for top_k in (1, 3, 10):
            few = await memory.search(**USER, query=query, top_k=top_k, **options)
            assert [hit.memory.id for hit in few] == [hit.memory.id for hit in every[:top_k]]


@pytest.mark.parametrize("mode", MODES)
async def test_a_score_is_what_its_reason_says(
    memory: PgVectorMemoryService, embedder: ToyEmbedder, mode: Mode
) -> None:
    notes = [*("my kitten and a car", "a feline", "the kitten, the kitten!", "puppy", "bread")]
    notes += [*("kitten car", "vehicle of a hound", "feline automobile", "a car of tea")]
    await remember_apart(memory, *notes)
    query = "kitten car"
    by_words = await memory.search(**USER, query=query, mode="text")
    covered = max(hit.reason.relevance for hit in by_words)
    asked = await embedder.embed_query(query)
    cosines = [
        sum(map(mul, vector, asked)) / hypot(*vector) / hypot(*asked)
        for vector in await embedder.embed_documents(notes)
    ]
    hits = await memory.search(**USER, query=query, mode=mode, half_life=DAY)
    reasons = [hit.reason for hit in hits]
    best = max(reason.lexical for reason in reasons)
    for reason in reasons:
        factor = reason.recency * reason.importance
        if mode == "vector":
            assert reason.lexical == 0
            plain = reason.cosine
        elif mode == "text":
            assert reason.cosine is None
            plain = reason.lexical / best * covered
        else:
            assert reason.cosine is not None
            z = (reason.cosine - fmean(cosines)) / pstdev(cosines)
            plain = reason.lexical / best * covered + weight_of(embedder) * max(z, 0)
        assert reason.score == pytest.approx((plain or 0) * factor, abs=2e-3)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(hits) >= 4


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


async def test_vertex_name_is_an_option(memory: PgVectorMemoryService, database: Database) -> None:
    await remember_apart(memory, "feline", "feline puppy", "kitten puppy car", "sleepy")
    assert len(await found(memory, "kitten", similarity_top_k=1)) == 1
    with pytest.raises(InvalidInput, match="twice"):
        await found(memory, "kitten", top_k=3, similarity_top_k=4)
    own = PgVectorMemoryService(database, embedder=ToyEmbedder(), similarity_top_k=2)
    assert sorted(await found(own, "kitten")) == ["feline", "kitten puppy car"]
    assert len(await found(own, "kitten", similarity_top_k=3)) == 3
    with pytest.raises(ConfigurationError, match="twice"):
        PgVectorMemoryService(database, mode="text", top_k=3, similarity_top_k=4)


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 2**40},
        {"min_relevance": "high"},
        {"half_life": 3600},
        {"half_life": timedelta()},
        {"max_tokens": 0},
        {"neighbours": 11},
        {"neighbours": 1.5},
        {"mode": "magic"},
        {"filters": {"authors": ["ana"]}},
        {"similarity_top_k": 0},
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
    "min_relevance": 0.1,
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


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"top_k": 2},
        {"neighbours": 1},
        {"passages": True},
        {"gather": True},
        {"passages": True, "gather": True},
        {"passages": True, "gather": True, "max_tokens": 60},
        {"max_tokens": 40},
        {"neighbours": 1, "max_tokens": 60},
    ],
    ids=str,
)
@pytest.mark.parametrize("query", ["my kitten sleeps in the car", "Where does my kitten sleep?"])
async def test_adks_call_answers_with_the_memories_of_the_same_search(
    database: Database, mode: Mode, options: dict[str, Any], query: str
) -> None:
    memory = PgVectorMemoryService(database, embedder=ToyEmbedder(), mode=mode, **options)
    long = "The kitten sleeps where it likes. " + "There is rain, and tea, and the moon. " * 20
    for week, text in enumerate(
        (
            "My kitten always sleeps in the car, behind the seats.",
            "My kitten always sleeps in the car behind the seats",
            long,
            "My kitten always sleeps in the shed now, behind the seats.",
        )
    ):
        own = said(text, f"e{week}", timestamp=1_770_000_000.0 + week * 7 * 86_400)
        after = said("The moon is up.", f"f{week}", timestamp=own.timestamp + 1)
        await memory.add_session_to_memory(session_of(own, after, session_id=f"s{week}"))
    hits = await memory.search(**USER, query=query)
    response = await memory.search_memory(**USER, query=query)
    assert len(hits) > 1
    assert response.memories == [hit.memory.plain() for hit in hits]
