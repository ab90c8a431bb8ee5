"""The service in this process and that on Postgres: the same memories, hits, scores and reasons."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.genai import types

from adkpg import Database, InMemoryVectorMemoryService, PgVectorMemoryService
from adkpg.embedding import LocalEmbedder
from adkpg.memory.filters import SearchFilters
from adkpg.memory.records import Memory
from adkpg.memory.search.hits import Hit
from tests.fakes.conversation import USER, entry, said, session_of, text_of
from tests.fakes.paraphrases import MEMORIES, QUESTIONS
from tests.fakes.toys import ToyEmbedder

Service = PgVectorMemoryService | InMemoryVectorMemoryService
MAY = datetime(2026, 5, 7, 12, tzinfo=UTC)
TALKS = {
    "pets": (
        "Did you get the kitten you wanted?",
        "Yes, her name is Olive and she sleeps all day",
        "What about your old dog?",
        "The hound chases her around the garden",
    ),
    "cars": (
        "My automobile broke down on the motorway",
        "Which garage did you take it to?",
        "The one beside order-9981's depot in Leeds",
        "A vehicle like yours needs a new clutch every 100,000 km",
    ),
    "tea": (
        "I brew oolong every morning",
        "Is it the tea from Taiwan?",
        "Yes, from report.pdf's list of growers; Ana sends it",
        "My puppy knocked the pot over while I was running around",
    ),
    "trip": (
        "Where did you spend your holidays?",
        "In Lisbon, with the children and the dog",
        "When are you travelling again?",
        "In September, if the trains are running",
    ),
}
ASKED = (
    "What is the kitten called?",
    "feline",
    "Where was the car repaired?",
    "order 9981",
    "Which tea does Ana send?",
    "dog",
    "holidays in Lisbon",
    "What happened on 8 May?",
    "running trains in September",
    "clutch of a vehicle",
    "volcanoes on Mars",
    "allergic reaction to peanuts",
)


async def remember_all(memory: Service) -> None:
    """Talks of four days, notes of one second, and what the app knows."""
    for day, (session_id, texts) in enumerate(TALKS.items()):
        at = (MAY + timedelta(days=day)).timestamp()
        events = [
            said(text, f"{session_id}{turn}", author="user" if turn % 2 == 0 else "companion",
                 timestamp=at + turn)
            for turn, text in enumerate(texts)
        ]  # fmt: skip
        await memory.add_session_to_memory(session_of(*events, session_id=session_id))
    notes = [
        noted("Olive the cat is allergic to peanuts", importance=0.9, topics=["pets", "health"]),
        noted("olive the cat is allergic to peanuts!", 1, importance=0.1, topics=["pets"]),
        noted("A secret about the dog", 2, expires_at="2026-05-08T00:00:00Z"),
        noted("Ana lives in Leeds", 3, author="ana", custom_metadata={"place": {"x": [1, 2]}}),
        noted("The Lisbon office opens at nine", 4, kind="fact", topics=["work"]),
    ]
    await memory.add_memory(**USER, memories=notes)
    known = [noted("Every vehicle is inspected in May"), noted("Dogs must be on a lead", 1)]
    await memory.add_memory(app_name="app", user_id=None, memories=known)


def noted(text: str, second: int = 0, **fields: Any) -> Memory:
    return Memory(
        id=text,
        content=types.Content(parts=[types.Part(text=text)]),
        timestamp=(MAY + timedelta(minutes=second + 1)).isoformat(),
        **fields,
    )


def shape_of(hits: list[Hit]) -> list[Any]:
    """What hits must have in common: all but the ids of memories that came from events."""
    return [
        (
            text_of(hit.memory),
            hit.memory.model_dump(exclude={"id"}),
            [text_of(each) for each in hit.neighbours],
            hit.reason.lexemes,
            pytest.approx(hit.score, abs=2e-3),
            pytest.approx(hit.reason.lexical, abs=1e-5),
            pytest.approx(hit.reason.recency, rel=1e-3),
            pytest.approx(hit.reason.importance, abs=1e-5),
            hit.reason.cosine is None or pytest.approx(hit.reason.cosine, abs=2e-3),
        )
        for hit in hits
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "text"},
        {"mode": "vector"},
        {"top_k": 1},
        {"similarity_top_k": 3, "vector_distance_threshold": 0.9},
        {"min_score": 0.2, "top_k": 30},
        {"half_life": timedelta(days=30), "top_k": 10},
        {"neighbours": 2, "max_tokens": 60, "top_k": 10},
        {"app_wide": False, "top_k": 10},
        {"filters": SearchFilters(after=MAY + timedelta(days=1), authors=["user"]), "top_k": 9},
        {"filters": SearchFilters(before=MAY + timedelta(days=1)), "top_k": 9},
        {"filters": SearchFilters(session_ids=["tea", "trip"], kinds=["turn"]), "top_k": 9},
        {"filters": SearchFilters(topics=["work", "health"]), "min_score": -1.0},
        {"filters": SearchFilters(metadata={"place": {"x": [2]}}), "min_score": -1.0},
    ],
    ids=str,
)
async def test_hits_are_those_of_postgres(
    memory: PgVectorMemoryService, options: dict[str, Any]
) -> None:
    local = InMemoryVectorMemoryService(embedder=ToyEmbedder())
    options = {"top_k": 5, **options} if "similarity_top_k" not in options else options
    for service in (memory, local):
        await remember_all(service)
    found = 0
    for query in ASKED:
        theirs = await memory.search(**USER, query=query, **options)
        ours = await local.search(**USER, query=query, **options)
        assert shape_of(ours) == shape_of(theirs), query
        found += len(ours)
    assert found


async def test_the_offline_model_ranks_as_in_postgres(database: Database) -> None:
    embedder = LocalEmbedder()
    memory = PgVectorMemoryService(database, embedder=embedder)
    local = InMemoryVectorMemoryService(embedder=embedder)
    for service in (memory, local):
        await remember_all(service)
        await service.add_memory(**USER, memories=[entry(text, text) for text in MEMORIES])
    overlaps = []
    for query in (*ASKED, *QUESTIONS):
        theirs = [text_of(hit.memory) for hit in await memory.search(**USER, query=query, top_k=5)]
        ours = [text_of(hit.memory) for hit in await local.search(**USER, query=query)]
        assert ours[:1] == theirs[:1], query
        overlaps.append(len({*ours} & {*theirs}) / max(len({*ours} | {*theirs}), 1) if ours else 1)
    assert sum(overlaps) / len(overlaps) >= 0.9


@pytest.mark.parametrize("size", [*range(1, 10), 30])
async def test_in_a_small_scope_one_word_of_the_question_is_enough(
    database: Database, size: int
) -> None:
    """With four to seven memories a question of three words found nothing by one of them."""
    others = ("tea", "rain", "shed", "train", "Porto", "soup", "river", "night", "boots")
    notes = [entry(f"{others[n % 9]} {n}") for n in range(size - 1)]
    for memory in (
        PgVectorMemoryService(database, mode="text"),
        InMemoryVectorMemoryService(mode="text"),
    ):
        await memory.add_memory(**USER, memories=[entry("My bike is red."), *notes])
        hits = await memory.search(**USER, query="Where did Ana park her bike?", mode="text")
        assert [text_of(hit.memory) for hit in hits] == ["My bike is red."]


async def test_what_is_written_and_read_is_what_postgres_has(
    memory: PgVectorMemoryService,
) -> None:
    local = InMemoryVectorMemoryService(embedder=ToyEmbedder())
    for service in (memory, local):
        await remember_all(service)
        await service.update_memory(
            **USER, memory_id="Ana lives in Leeds", text="Ana lives in Porto", importance=0.8
        )
        await service.update_memory(
            **USER,
            memory_id="The Lisbon office opens at nine",
            topics=["hours"],
            expires_at="2099-01-01T00:00:00Z",
            custom_metadata={"k": 1},
        )
        await service.delete_memory(**USER, memory_id="Olive the cat is allergic to peanuts")
        await service.add_events_to_memory(
            **USER,
            events=[
                said("again", "tea0"),
                said("more tea", "tea9", timestamp=MAY.timestamp() - 9),
            ],
            session_id="tea",
            custom_metadata={"topics": ["drinks"], "ttl": "90000000s"},
        )
    for filters in (None, SearchFilters(topics=["drinks", "hours"]), SearchFilters(kinds=["turn"])):
        for scope in (USER, {"app_name": "app", "user_id": None}, {**USER, "user_id": "nobody"}):
            assert await local.count_memories(**scope, filters=filters) == (
                await memory.count_memories(**scope, filters=filters)
            )
            for limit, live in ((3, True), (50, False)):
                ours = await pages(local, scope, limit=limit, filters=filters, live=live)
                theirs = await pages(memory, scope, limit=limit, filters=filters, live=live)
                assert ours == theirs
    gone = await local.get_memory(**USER, memory_id="A secret about the dog")
    assert gone == await memory.get_memory(**USER, memory_id="A secret about the dog")
    assert gone is not None


async def pages(memory: Service, scope: dict[str, Any], **options: Any) -> list[Any]:
    """Every page of a list; ids of events' memories and moments counted from now left out."""
    read: list[Any] = []
    after = None
    while True:
        page = await memory.list_memories(**scope, after=after, **options)
        read.append(
            [
                each.model_dump(exclude={"expires_at", "id"} if each.event_id else {"expires_at"})
                for each in page.memories
            ]
        )
        after = page.next
        if after is None:
            return read
