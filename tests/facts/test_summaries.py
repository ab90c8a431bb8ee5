"""Facts.summarize: what a session was about."""

import json
import re

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.erasure import forget
from adkpg.errors import ConfigurationError, ModelError
from adkpg.facts.extractor import Extraction, Summary, Turn, Usage
from adkpg.facts.service import Facts, SessionSummary
from adkpg.memory.filters import SearchFilters
from tests.fakes.conversation import USER, found, text_of
from tests.fakes.facts_llm import ONE_CALL, OutOfOrder, Script, lines
from tests.fakes.people import Meanwhile, memories, remember, turn_id

TRIP = {"summary": "Ana plans a trip to Rome.", "topics": ["Travel"]}


async def test_a_summary_is_a_memory_of_its_session(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, "I want to go to Rome.", "By train.")
    await remember(memory, 2, "It rains.")
    script.says(TRIP)
    summary = await facts.summarize(**USER, session_id="day1")
    assert summary.usage == ONE_CALL
    assert summary.memory is not None
    assert text_of(summary.memory) == "Ana plans a trip to Rome."
    assert (summary.memory.kind, summary.memory.session_id) == ("summary", "day1")
    assert summary.memory.topics == ["travel"]
    assert summary.memory.timestamp == "2026-03-02T12:00:01+00:00", "when its last turn was said"
    assert [line["text"] for line in lines(script.prompt, "turns")] == [
        "I want to go to Rome.",
        "By train.",
    ]
    of_session = SearchFilters(kinds=("summary",), session_ids=("day1",))
    assert await found(memory, "trip", filters=of_session) == ["Ana plans a trip to Rome."]
    assert await facts.topics(**USER) == [("travel", 1)]


async def test_the_same_turns_are_summed_up_once(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, "I want to go to Rome.")
    script.says(TRIP)
    first = await facts.summarize(**USER, session_id="day1")
    await remember(memory, 1, "I want to go to Rome.")
    assert await facts.summarize(**USER, session_id="day1") == SessionSummary(first.memory)
    assert len(script.requests) == 1


async def test_a_longer_session_replaces_its_summary(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, "I want to go to Rome.")
    script.says(TRIP, {"summary": "Ana goes to Rome by train.", "topics": []})
    first = await facts.summarize(**USER, session_id="day1")
    await remember(memory, 1, "I want to go to Rome.", "By train.")
    second = await facts.summarize(**USER, session_id="day1")
    assert first.memory is not None
    assert second.memory is not None
    assert second.memory.id == first.memory.id
    assert [text_of(each) for each in await memories(memory, "summary")] == [
        "Ana goes to Rome by train."
    ]


@pytest.mark.parametrize("way", ["a turn", "a turn changed", "the session", "the person"])
async def test_a_summary_goes_with_what_it_was_drawn_from(
    database: Database,
    memory: PgVectorMemoryService,
    facts: Facts,
    script: Script,
    connection: asyncpg.Connection,
    way: str,
) -> None:
    """It has its vector and words no longer, either; another user's stays."""
    for user in ("user", "other"):
        await remember(memory, 1, "I want to go to Rome.", "By train.", user_id=user)
        script.says(TRIP)
        await facts.summarize(app_name="app", user_id=user, session_id="day1")
    assert await found(memory, "trip") == ["Ana plans a trip to Rome."]
    if way == "a turn":
        turn = await turn_id(memory, "By train.")
        await memory.delete_memory(**USER, memory_id=turn)
    elif way == "a turn changed":
        turn = await turn_id(memory, "By train.")
        await memory.update_memory(**USER, memory_id=turn, text="By bus.")
    elif way == "the session":
        sessions = DatabaseSessionService(database)
        await sessions.delete_session(**USER, session_id="day1", forget=True)
    else:
        await forget(database, **USER)
    assert await memories(memory, "summary") == []
    assert await found(memory, "trip") == []
    left = "SELECT count(*) FROM memory_provenance WHERE user_id = 'user'"
    assert await connection.fetchval(left) == 0
    left = "SELECT count(*) FROM memory_lexemes WHERE user_id = 'user' AND lexeme = 'trip'"
    assert await connection.fetchval(left) == 0
    assert await found(memory, "trip", user_id="other") == ["Ana plans a trip to Rome."]


async def test_a_long_session_is_summed_up_to_its_last_word(
    memory: PgVectorMemoryService, facts: Facts, script: Script, connection: asyncpg.Connection
) -> None:
    long = [f"{'We walked on. ' * 3_000} Then came stop{number}." for number in range(6)]
    await remember(memory, 1, *long)

    def sums_up(prompt: str) -> str:
        return json.dumps({"summary": " ".join(re.findall(r"stop\d", prompt)), "topics": []})

    script.says(*[sums_up] * 20)
    summary = await facts.summarize(**USER, session_id="day1")
    assert summary.memory is not None
    assert text_of(summary.memory) == "stop0 stop1 stop2 stop3 stop4 stop5"
    assert len(script.requests) > 2
    assert await connection.fetchval("SELECT count(*) FROM memory_provenance") == 6


async def test_a_session_that_is_not_remembered_has_none(facts: Facts, script: Script) -> None:
    assert await facts.summarize(**USER, session_id="nowhere") == SessionSummary(None)
    assert script.requests == []


async def test_without_a_usable_answer_nothing_is_written(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, "I want to go to Rome.")
    script.says("no", "no", OutOfOrder())
    for _ in range(2):
        with pytest.raises(ModelError):
            await facts.summarize(**USER, session_id="day1")
    assert await memories(memory, "summary") == []


class Summing(Meanwhile):
    """Sums up while something happens."""

    async def summarize(self, turns: list[Turn]) -> Summary:
        await self._happens()
        return Summary("Nothing.", usage=Usage(1, 1, 1))


async def test_a_session_that_changes_meanwhile_is_not_summed_up(
    memory: PgVectorMemoryService,
) -> None:
    async def changes() -> None:
        await remember(memory, 1, "I want to stay.")

    await remember(memory, 1, "I want to go to Rome.")
    summing = Facts(memory, extractor=Summing(changes, lambda turns, known: Extraction()))
    with pytest.raises(ModelError, match="changed while the extractor read them"):
        await summing.summarize(**USER, session_id="day1")
    assert await memories(memory, "summary") == []


async def test_a_broken_summarizer_is_an_error_with_its_cause(
    memory: PgVectorMemoryService,
) -> None:
    async def breaks() -> None:
        raise OutOfOrder

    await remember(memory, 1, "I want to go to Rome.")
    broken = Facts(memory, extractor=Summing(breaks, lambda turns, known: Extraction()))
    with pytest.raises(ModelError, match="Summing failed with OutOfOrder"):
        await broken.summarize(**USER, session_id="day1")


async def test_an_extractor_need_not_sum_up(memory: PgVectorMemoryService) -> None:
    async def nothing() -> None:
        pass

    extractor = Meanwhile(nothing, lambda turns, known: Extraction())
    with pytest.raises(ConfigurationError, match="a method summarize"):
        await Facts(memory, extractor=extractor).summarize(**USER, session_id="day1")
