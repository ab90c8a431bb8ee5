"""What a search finds: words, meaning, neighbours, dates; what it leaves out, and in what order."""

from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, SearchFilters, Settings
from adkpg.errors import ConfigurationError, InvalidInput
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
from tests.fakes.queries import written
from tests.fakes.toys import ToyEmbedder


async def test_meaning_finds_what_shares_no_word(memory: PgVectorMemoryService) -> None:
    await remember_apart(memory, "the kitten sleeps", "a new automobile", "nothing much")
    assert await found(memory, "feline") == ["the kitten sleeps"]
    assert await found(memory, "which vehicle?") == ["a new automobile"]


async def test_what_was_never_said_finds_nothing(memory: PgVectorMemoryService) -> None:
    await remember_apart(memory, "the kitten sleeps", "a new automobile")
    await memory.add_session_to_memory(conversation("hello", "hello yourself"))
    for mode in ("hybrid", "vector", "text"):
        assert await found(memory, "volcanoes on Mars", mode=mode) == []


async def test_modes_search_one_way_or_both(memory: PgVectorMemoryService) -> None:
    await remember_apart(memory, "the kitten sleeps", "the feline purrs")
    assert await found(memory, "kitten", mode="text") == ["the kitten sleeps"]
    assert sorted(await found(memory, "kitten", mode="vector")) == [
        "the feline purrs",
        "the kitten sleeps",
    ]
    assert await found(memory, "kitten", mode="hybrid") == [
        "the kitten sleeps",
        "the feline purrs",
    ]


async def test_scores_tell_the_two_ways_apart(memory: PgVectorMemoryService) -> None:
    await remember_apart(memory, "the kitten sleeps", "the feline purrs", "a new kitten automobile")
    hits = await memory.search(**USER, query="kitten")
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    scores = {text_of(hit.memory): hit for hit in hits}
    assert (
        scores["the kitten sleeps"].reason.lexical > scores["the feline purrs"].reason.lexical == 0
    )
    assert scores["the kitten sleeps"].reason.cosine == pytest.approx(1, abs=1e-3)
    assert scores["a new kitten automobile"].reason.cosine == pytest.approx(0.5**0.5, abs=1e-3)
    (text_hit, other) = await memory.search(**USER, query="kitten", mode="text")
    assert text_hit.reason.cosine is None
    by_words = text_hit.reason.lexical / other.reason.lexical
    assert text_hit.score / other.score == pytest.approx(by_words)
    for hit in await memory.search(**USER, query="kitten", mode="vector"):
        assert (hit.score, hit.reason.lexical) == (hit.reason.cosine, 0)


async def test_equal_scores_are_ordered_by_time(memory: PgVectorMemoryService) -> None:
    texts = {
        f"2026-01-0{day}T00:00:00Z": f"oolong {word}"
        for day, word in enumerate(("one", "two", "six"), 1)
    }
    await memory.add_memory(
        **USER, memories=[entry(text, timestamp=time) for time, text in texts.items()]
    )
    for mode in ("hybrid", "text", "vector"):
        assert await found(memory, "oolong", mode=mode) == list(texts.values())[::-1]


async def test_at_most_top_k_are_returned_the_best(memory: PgVectorMemoryService) -> None:
    await remember_apart(memory, *(f"oolong {'sencha ' * (n % 2)}{n}" for n in range(30)))
    assert len(await found(memory, "oolong")) == 20
    for top_k in (1, 5):
        best = await found(memory, "oolong sencha", top_k=top_k)
        assert len(best) == top_k
        assert all("sencha" in text for text in best)
    assert len(await found(memory, "oolong", top_k=1_000)) == 30


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
async def test_more_than_the_candidates_may_be_asked_for(
    memory: PgVectorMemoryService, mode: Mode
) -> None:
    await remember_apart(memory, *(f"kitten {number}" for number in range(130)))
    assert len(await memory.search(**USER, query="kitten", mode=mode, top_k=125)) == 125


async def test_options_of_the_service_are_those_of_search_memory(database: Database) -> None:
    memory = PgVectorMemoryService(database, embedder=ToyEmbedder(), top_k=2, mode="text")
    await remember_apart(memory, "kitten one", "kitten two", "kitten three", "feline")
    response = await memory.search_memory(**USER, query="kitten")
    assert len(response.memories) == 2
    assert len(await found(memory, "kitten", top_k=4, mode="hybrid")) == 4


async def test_relevance_is_the_share_of_the_question_that_a_memory_covers(
    memory: PgVectorMemoryService,
) -> None:
    await remember_apart(memory, "feline", "feline puppy", "kitten puppy car", "sleepy")
    # Cosines with the question: 1, 0.71, 0.58 and 0; only the third shares a word with it.
    hits = await memory.search(**USER, query="kitten")
    relevance = {text_of(hit.memory): hit.reason.relevance for hit in hits}
    assert relevance["feline"] == relevance["kitten puppy car"] == pytest.approx(1, abs=1e-3)
    assert 0 < relevance["feline puppy"] < 1
    assert "sleepy" not in relevance
    hits = await memory.search(**USER, query="kitten", mode="vector")
    nearness = [hit.reason.relevance for hit in hits]
    assert nearness == sorted(nearness, reverse=True)
    hits = await memory.search(**USER, query="kitten umbrella", mode="text")
    assert [(text_of(hit.memory), 0 < hit.reason.relevance < 1) for hit in hits] == [
        ("kitten puppy car", True)
    ]


async def test_what_is_less_relevant_than_is_asked_for_is_no_hit(
    memory: PgVectorMemoryService,
) -> None:
    await remember_apart(memory, "feline", "feline puppy", "kitten puppy car", "sleepy")
    for mode in MODES:
        hits = await memory.search(**USER, query="kitten umbrella", mode=mode)
        for least in (0.0, *(hit.reason.relevance for hit in hits), 1.0):
            expected = [hit for hit in hits if hit.reason.relevance >= least]
            few = await memory.search(
                **USER, query="kitten umbrella", mode=mode, min_relevance=least
            )
            assert [hit.memory.id for hit in few] == [hit.memory.id for hit in expected]
    strict = PgVectorMemoryService(memory.database, embedder=ToyEmbedder(), min_relevance=0.9)
    assert len(await found(strict, "kitten")) == 2
    assert len(await found(strict, "kitten", min_relevance=0.0)) == 3


@pytest.mark.parametrize(
    "options", [{"top_k": 0}, {"top_k": -1}, {"min_relevance": 1.1}, {"mode": "x"}]
)
async def test_options_out_of_range_are_refused(
    memory: PgVectorMemoryService, options: dict[str, object]
) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        await found(memory, "kitten", **options)


async def test_vectors_alone_need_an_embedder(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    with pytest.raises(ConfigurationError, match="embedder"):
        await found(memory, "kitten", mode="vector")


async def test_a_match_in_a_neighbouring_turn_counts(memory: PgVectorMemoryService) -> None:
    await memory.add_session_to_memory(
        conversation(
            "far",
            "nice weather",
            "good morning",
            "Where did you spend your holidays?",
            "Lisbon",
            "I see",
            "so nice",
            "far away",
        )
    )
    texts = await found(memory, "holidays", top_k=10)
    assert set(texts[:2]) == {"Lisbon", "Where did you spend your holidays?"}
    assert set(texts[2:]) == {"I see", "so nice", "good morning", "nice weather"}
    # What a neighbour said is covered in part.
    assert await found(memory, "holidays", min_relevance=0.5) == texts[:2]
    assert await found(memory, "holidays", min_relevance=0.9) == texts[1:2]


async def test_sessions_are_no_neighbours(memory: PgVectorMemoryService) -> None:
    await memory.add_session_to_memory(conversation("about holidays", session_id="1"))
    await memory.add_session_to_memory(conversation("Lisbon", session_id="2"))
    await remember_apart(memory, "Porto", "Faro")
    assert await found(memory, "holidays") == ["about holidays"]


async def test_a_deleted_turn_takes_its_words_from_its_neighbours(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_session_to_memory(conversation("Hi", "My password is swordfish", "Thanks"))
    assert len(await found(memory, "swordfish")) == 3
    (secret,) = await memory.search(**USER, query="swordfish", top_k=1)
    await memory.delete_memory(**USER, memory_id=secret.memory.id)
    assert await found(memory, "swordfish") == []
    assert await found(memory, "password") == []
    assert await connection.fetchval(
        "SELECT count(*) FROM memory_lexemes WHERE lexeme IN ('swordfish', 'password')"
    ) == 0  # fmt: skip


async def test_a_rewritten_turn_takes_its_words_along(memory: PgVectorMemoryService) -> None:
    await memory.add_session_to_memory(conversation("Hi", "swordfish", "Thanks"))
    await memory.add_session_to_memory(conversation("Hi", "never mind", "Thanks"))
    assert await found(memory, "swordfish") == []


async def test_a_question_about_the_user_finds_not_all_that_was_said(
    memory: PgVectorMemoryService,
) -> None:
    """Every person's author is "user", so no question with that word was answered by nothing."""
    await memory.add_session_to_memory(conversation("the kitten sleeps", "a new automobile"))
    assert await found(memory, "What is the user's shoe size?") == []
    await memory.add_events_to_memory(**USER, events=[said("each user has a key"), said("hi")])
    assert (await found(memory, "user"))[0] == "each user has a key"
    await memory.add_memory(**USER, memories=[entry("a walk", author="Caroline")])
    assert await found(memory, "Caroline") == ["a walk"]


async def test_a_date_finds_what_was_said_then(memory: PgVectorMemoryService) -> None:
    may = datetime.fromisoformat("2023-05-07T12:00:00+00:00").timestamp()
    june = datetime.fromisoformat("2023-06-09T12:00:00+00:00").timestamp()
    await memory.add_session_to_memory(
        session_of(said("We went sailing", timestamp=may), said("So nice", timestamp=june))
    )
    now = datetime(2023, 7, 1, tzinfo=UTC)
    assert await found(memory, "What happened in May 2023?") == ["We went sailing"]
    assert await found(memory, "What happened on 7 May 2023?") == ["We went sailing"]
    assert await found(memory, "in June", now=now) == ["So nice"]
    # A date is a memory's own: its neighbour of another month is not found by it.
    assert await found(memory, "on 7 May", now=now) == ["We went sailing"]
    # Relevant or not.
    assert await found(memory, "on 7 May 2023", min_relevance=1.0) == ["We went sailing"]
    filters = SearchFilters(authors=["user"])
    dated = {"now": now, "filters": filters, "mode": "text"}
    assert await found(memory, "on 7 May", **dated) == ["We went sailing"]
    await memory.add_memory(
        app_name="app",
        user_id=None,
        memories=[
            entry("The harbour opened", timestamp="2023-05-07T10:00:00+00:00"),
            *(entry(f"The harbour closed {n}", timestamp="2023-08-07T10:00:00Z") for n in (1, 2)),
        ],
    )
    assert await found(memory, "on 7 May", now=now) == ["We went sailing", "The harbour opened"]


async def test_numbers_and_ids_are_found(memory: PgVectorMemoryService) -> None:
    await remember_apart(
        memory,
        "Your order 9981 has shipped",
        "Your order 9982 is late",
        "The ticket is ABC-123",
        "Write to joe@example.com",
        "See https://example.org/a/b?c=d",
        "It runs version 2.13.0",
    )
    assert (await found(memory, "Where is order 9981?"))[0] == "Your order 9981 has shipped"
    assert await found(memory, "9982") == ["Your order 9982 is late"]
    assert await found(memory, "abc-123") == ["The ticket is ABC-123"]
    assert (await found(memory, "joe@example.com"))[0] == "Write to joe@example.com"
    assert (await found(memory, "example.org/a/b?c=d"))[0] == "See https://example.org/a/b?c=d"
    assert await found(memory, "2.13.0") == ["It runs version 2.13.0"]


async def test_a_repeated_question_is_embedded_once(
    memory: PgVectorMemoryService, embedder: ToyEmbedder
) -> None:
    await remember_apart(memory, "the kitten sleeps")
    for _ in range(5):
        assert await found(memory, "feline") == ["the kitten sleeps"]
    await memory.search_memory(**USER, query=" feline ")
    await memory.search_memory(app_name="app", user_id="other", query="feline")
    assert embedder.questions == ["feline"]
    await found(memory, "kitten", mode="text")
    assert embedder.questions == ["feline"]


async def test_no_question_is_kept_where_none_is_wanted(database_url: str) -> None:
    embedder = ToyEmbedder()
    async with Database(database_url, settings=Settings(query_cache_size=0)) as database:
        memory = PgVectorMemoryService(database, embedder=embedder)
        await found(memory, "feline")
        await found(memory, "feline")
    assert embedder.questions == ["feline", "feline"]


@pytest.mark.parametrize(
    ("config", "text", "question", "is_found"),
    [
        ("english", "He was running to the houses", "run house", True),
        ("simple", "He was running to the houses", "run house", False),
        ("simple", "to be or not to be", "to", True),
        ("english", "to be or not to be", "to", False),
        ("german", "Die Häuser stehen am See", "Haus", True),
        ("english", "Die Häuser stehen am See", "Haus", False),
        ("pg_catalog.spanish", "Los gatos duermen", "gato", True),
    ],
)
async def test_the_language_of_words_is_a_setting(
    database_url: str, config: str, text: str, question: str, is_found: bool
) -> None:
    settings = Settings(text_search_config=config)
    async with Database(database_url, settings=settings) as database:
        memory = PgVectorMemoryService(database, mode="text")
        await remember_apart(memory, text)
        assert bool(await found(memory, question)) is is_found


async def test_words_that_are_no_key_of_an_index_are_left_out(
    memory: PgVectorMemoryService,
) -> None:
    await remember_apart(memory, f"oolong {'x' * 600} {'y' * 5_000}", "\U0001d49c" * 700)
    assert await found(memory, "oolong") == [f"oolong {'x' * 600} {'y' * 5_000}"]
    assert await found(memory, "x" * 600) == []


@pytest.mark.parametrize(
    "word",
    [
        *("\U0001d49c-" * 49_000, "ab cd. " * 14_000, "a.bc/d?" * 14_000, "é1x " * 25_000),
        *("a_b-c_" * 16_000, "a<!--" * 19_000),
    ],
    ids=["hyphens", "short words", "addresses", "mixed", "one run", "comments without end"],
)
async def test_any_hundred_thousand_characters_are_remembered(
    memory: PgVectorMemoryService, word: str
) -> None:
    text = "oolong " + word
    await remember_apart(memory, text, "oolong")
    assert sorted(map(len, await found(memory, "oolong"))) == [len("oolong"), len(text)]


async def test_many_different_words_are_remembered(memory: PgVectorMemoryService) -> None:
    text = " ".join(f"w{number:x}" for number in range(15_000))
    await remember_apart(memory, text)
    assert len(await found(memory, "w3a97")) == 1


async def test_a_hit_of_a_huge_memory_is_the_text_that_is_searched(
    memory: PgVectorMemoryService,
) -> None:
    """Each search that hit it shipped and parsed all of it."""
    text = "oolong " + "a leaf of \U0001d49c " * 200_000
    await memory.add_memory(**USER, memories=[entry(text, "huge", author="user"), entry("oolong")])
    hits = {hit.cut: hit.memory for hit in await memory.search(**USER, query="oolong")}
    assert text_of(hits[True]) == text[:100_000]
    assert text_of(hits[False]) == "oolong"
    whole = await memory.get_memory(**USER, memory_id="huge")
    assert whole is not None
    assert text_of(whole) == text
    (plain, _) = (await memory.search_memory(**USER, query="oolong leaf")).memories
    assert text_of(plain) == text[:100_000]


async def test_what_is_said_in_an_invocation_is_not_recalled_to_it(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_session_to_memory(
        session_of(said("oolong"), said("what was my tea?"), said("tea, you said"))
    )
    await connection.execute(
        "UPDATE memories SET invocation_id = 'running' WHERE body <> 'user: oolong'"
    )
    everything: dict[str, Any] = {"query": "which tea was it", "neighbours": 2}
    assert len(await memory.search(**USER, **everything)) > 1
    (hit,) = await memory.search(**USER, **everything, exclude_invocation_id="running")
    assert (text_of(hit.memory), hit.neighbours, hit.reason.lexical) == ("oolong", (), 0)
    other = await memory.search(**USER, **everything, exclude_invocation_id="another")
    assert other == await memory.search(**USER, **everything)


@pytest.mark.prepared
async def test_the_longest_search_is_prepared_once(
    memory: PgVectorMemoryService, database: Database
) -> None:
    """asyncpg prepares a statement of more than 15 kB each time, unless it is told."""
    await remember_apart(memory, "the kitten sleeps")
    filters = SearchFilters(kinds=["note"], session_ids=[""], before="2999-01-01")
    for _ in range(3):
        assert len(await memory.search(**USER, query="kitten", filters=filters)) == 1
    runs = await database.run.fetch(
        written(
            "SELECT generic_plans + custom_plans AS runs FROM pg_prepared_statements"
            " WHERE statement LIKE 'WITH%promising%'"
        )
    )
    assert [row["runs"] for row in runs] == [3]


async def test_meaning_is_heard_as_far_as_it_stands_out(memory: PgVectorMemoryService) -> None:
    """Before all that has a common word of the question."""
    others = [f"The shelf number {number} is red." for number in range(40)]
    await remember_apart(memory, *others, "My kitten sleeps.")
    (kitten, *_) = await memory.search(**USER, query="Where is the cat of the red shelf?")
    assert text_of(kitten.memory) == "My kitten sleeps."
    assert kitten.reason.lexical == 0


async def test_by_words_a_name_that_nobody_said_hides_nothing(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    talk = [f"The cat number {n} sleeps on mat {n}." for n in range(30)]
    rest = [f"The weather of day {n} is fine and warm." for n in range(30)]
    await remember_apart(memory, *talk, *rest)
    texts = await found(memory, "What does my cat think of whiskas?", top_k=50)
    assert len(texts) == 30
    assert all("cat" in each for each in texts)
    assert await found(memory, "What is whiskas?") == []
    assert len(await found(memory, "cat", top_k=50)) == 30
