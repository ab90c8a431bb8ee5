"""Searches by what a question says besides its words: when, by whom, and whether it asks."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from google.adk.events.event import Event
from google.adk.platform.time import reset_time_provider, set_time_provider
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import Database, PgVectorMemoryService, SearchFilters
from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.memory.search.hits import Hit
from adkpg.memory.search.options import SearchOptions
from tests.fakes.conversation import USER, entry

FIRST = datetime(2023, 4, 26, 9, tzinfo=UTC)
ABOUT = ("boats", "bread", "chess", "dogs", "eggs", "films", "games", "hats", "ice", "jam")


def said(number: int, author: str, text: str, moment: datetime) -> Event:
    return Event(
        id=f"e{number}",
        author=author,
        timestamp=moment.timestamp(),
        content=types.Content(role="user", parts=[types.Part(text=text)]),
    )


@pytest.fixture
async def words(database: Database) -> PgVectorMemoryService:
    """Ten days of a user and an assistant, two turns a day, and another user's."""
    memory = PgVectorMemoryService(database, mode="text")
    for user in (USER, USER | {"user_id": "other"}):
        for number, about in enumerate(ABOUT):
            moment = FIRST + timedelta(days=number)
            events = [
                said(2 * number, "user", f"My thoughts today were of {about}", moment),
                said(2 * number + 1, "helper", f"Here are my thoughts of {about}", moment),
            ]
            session = Session(id=f"s{number}", events=events, **user)
            await memory.add_session_to_memory(session)
    return memory


async def texts(memory: PgVectorMemoryService, query: str, **options: object) -> list[Hit]:
    return await memory.search(**USER, query=query, **options)  # type: ignore[arg-type] # by name


async def test_a_day_that_the_question_names_comes_first(words: PgVectorMemoryService) -> None:
    hits = await texts(words, "What did we say on April 30th?")
    assert {hit.memory.session_id for hit in hits[:2]} == {"s4"}
    assert all(hit.reason.date > 0 for hit in hits[:2])
    assert all(hit.reason.date == 0 for hit in hits[2:])


async def test_a_day_in_another_language_needs_no_word_in_common(
    words: PgVectorMemoryService,
) -> None:
    hits = await texts(words, "5月4号我们聊了什么?")
    assert {hit.memory.session_id for hit in hits[:2]} == {"s8"}


async def test_the_first_conversation(words: PgVectorMemoryService) -> None:
    hits = await texts(words, "What was our first conversation about?")
    assert {hit.memory.session_id for hit in hits[:2]} == {"s0"}


async def test_yesterday_counts_from_the_clock_that_is_given(words: PgVectorMemoryService) -> None:
    now = FIRST + timedelta(days=4)
    hits = await texts(words, "What did I tell you yesterday?", now=now)
    assert {hit.memory.session_id for hit in hits if hit.reason.date} == {"s3"}
    assert not any(hit.reason.date for hit in await texts(words, "What was it yesterday?"))


@pytest.mark.parametrize(
    ("options", "session"),
    [
        ({"now": datetime(2023, 4, 30, 1, tzinfo=UTC)}, "s3"),  # a clock in UTC
        ({"now": datetime(2023, 4, 30, 1, tzinfo=ZoneInfo("America/New_York"))}, "s3"),
        ({"now": datetime(2023, 4, 30, 1, tzinfo=UTC), "time_zone": "Asia/Tokyo"}, "s3"),
        ({"time_zone": "America/New_York"}, "s2"),
        ({"time_zone": ZoneInfo("America/New_York")}, "s2"),
        ({}, "s3"),
    ],
)
async def test_yesterday_is_where_the_clock_is(
    words: PgVectorMemoryService, options: dict[str, Any], session: str
) -> None:
    set_time_provider(lambda: datetime(2023, 4, 30, 1, tzinfo=UTC).timestamp())
    try:
        hits = await texts(words, "What did I tell you yesterday?", **options)
    finally:
        reset_time_provider()
    assert {hit.memory.session_id for hit in hits if hit.reason.date} == {session}


async def test_days_of_filters_begin_where_the_service_is(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text", time_zone="Asia/Tokyo")
    morning = "2026-01-31T22:00:00+00:00"  # seven o'clock on the first of February, in Tokyo
    await memory.add_memory(**USER, memories=[entry("Good morning", timestamp=morning)])
    filters = SearchFilters(after=date(2026, 2, 1), before="2026-02-02")
    assert await texts(memory, "morning", filters=filters)
    assert not await texts(memory, "morning", filters=filters, time_zone="UTC")
    assert (await memory.list_memories(**USER, filters=filters)).items
    assert await memory.count_memories(**USER, filters=filters) == 1


def test_a_service_of_a_time_zone_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'Mars' is not a time zone"):
        PgVectorMemoryService("postgresql://nobody@localhost/none", mode="text", time_zone="Mars")


async def test_a_clock_needs_an_offset() -> None:
    with pytest.raises(InvalidInput, match="offset"):
        SearchOptions(now=datetime(2023, 4, 26))  # noqa: DTZ001 - what is refused


@pytest.mark.parametrize(
    ("question", "sessions"),
    [
        ("What did we say before April 28th, 2023?", {"s0", "s1"}),
        ("What did we say until 2023-04-28?", {"s0", "s1", "s2"}),
        ("What did we say since May 4th, 2023?", {"s8", "s9"}),
        ("2023年5月4日以后我们聊了什么?", {"s9"}),
    ],
)
async def test_a_span_that_is_open(
    words: PgVectorMemoryService, question: str, sessions: set[str]
) -> None:
    hits = await texts(words, question)
    assert {hit.memory.session_id for hit in hits if hit.reason.date} == sessions


async def test_a_time_that_is_most_of_all_says_nothing(words: PgVectorMemoryService) -> None:
    hits = await texts(words, "What were the thoughts in 2023?")
    assert hits
    assert not any(hit.reason.date for hit in hits)


async def test_a_time_does_not_leave_filters(words: PgVectorMemoryService) -> None:
    hits = await texts(
        words, "What did we say on April 30th?", filters=SearchFilters(authors=["user"])
    )
    assert {hit.memory.author for hit in hits} == {"user"}


@pytest.mark.parametrize(
    ("question", "author"),
    [
        ("What thoughts of chess did I have?", "user"),
        ("What thoughts of chess did you mention?", "helper"),
    ],
)
async def test_who_is_asked_for_comes_first(
    words: PgVectorMemoryService, question: str, author: str
) -> None:
    hits = await texts(words, question)
    assert hits[0].memory.author == author
    assert hits[0].reason.speaker > 0
    assert "chess" in str(hits[0].memory.content)


async def test_a_long_answer_does_not_crowd_out_a_short_turn(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    long = " ".join(f"word{n} boat harbour budget" for n in range(200))
    events = [
        said(1, "user", "Our budget for the boat in the harbour is 9,000 pounds.", FIRST),
        *(
            said(2 + n, "helper", f"{long} topic{n}", FIRST + timedelta(minutes=1 + n))
            for n in range(12)
        ),
        *(
            said(20 + n, "user", f"Something about nothing much {n}", FIRST + timedelta(hours=n))
            for n in range(1, 8)
        ),
    ]
    await memory.add_session_to_memory(Session(id="s", events=events, **USER))
    hits = await texts(memory, "What is the budget for the boat in the harbour?")
    assert hits[0].memory.event_id == "e1"


async def test_notes_have_no_author_and_are_found(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await memory.add_memory(**USER, memories=[entry("The boat is blue")])
    hits = await texts(memory, "Which boat did I say is blue?")
    assert [hit.reason.speaker for hit in hits] == [0]


async def test_gathering_has_all_about_a_thing_in_order_of_time(
    words: PgVectorMemoryService,
) -> None:
    hits = await texts(words, "What are my thoughts of everything?", gather=True, top_k=1)
    assert len(hits) == 2 * len(ABOUT)
    times = [hit.memory.timestamp or "" for hit in hits]
    assert times == sorted(times)
    pairs = {(hit.memory.author, hit.memory.session_id): place for place, hit in enumerate(hits)}
    assert all(pairs["user", f"s{n}"] < pairs["helper", f"s{n}"] for n in range(len(ABOUT)))


async def test_gathering_keeps_to_its_budget_with_the_best(words: PgVectorMemoryService) -> None:
    hits = await texts(words, "What thoughts of chess and dogs?", gather=True, max_tokens=40)
    assert 1 < len(hits) < 5
    assert {hit.memory.session_id for hit in hits} <= {"s2", "s3"}
    assert await texts(words, "", gather=True) == []


async def test_gather_is_a_truth_value() -> None:
    with pytest.raises(InvalidInput, match="gather"):
        SearchOptions(gather="all")  # type: ignore[arg-type] # what is refused
