"""What becomes of turns when the extractor fails, is late, or is not alone."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

import asyncpg
import pytest
from google.adk.models.llm_response import LlmResponse
from google.genai.errors import APIError

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.facts.extractor import Add, Extraction, KnownFact, Supersede, Turn, Usage
from adkpg.facts.llm import FactExtractor
from adkpg.facts.service import Extracting, ExtractionReport, Facts
from tests.fakes.conversation import USER, said, session_of
from tests.fakes.facts_llm import ONE_CALL, OutOfOrder, Script, add, lines, operations
from tests.fakes.people import Meanwhile, known, remember, turn_id, waiting
from tests.fakes.toys import BrokenEmbedder, ToyEmbedder

pytestmark = pytest.mark.fault

CAT = add("Ana has a cat.", "t1")
FIRST = "I have a cat."


class Failing:
    """An extractor that raises an error, whatever it reads or only of a word."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.of = ""

    async def extract(self, turns: Sequence[Turn], known: Sequence[KnownFact]) -> Extraction:
        if any(self.of in turn.text for turn in turns):
            raise self.error
        return Extraction()


async def _due_again(connection: asyncpg.Connection) -> None:
    await connection.execute("UPDATE memory_jobs SET due_at = now()")


async def test_unreadable_answers_are_tried_again_later(
    memory: PgVectorMemoryService, facts: Facts, script: Script, connection: asyncpg.Connection
) -> None:
    await remember(memory, 1, FIRST)
    script.says("Sorry?", "Sorry!")
    report = await facts.extract(**USER)
    assert (report.turns, report.failed, report.usage) == (0, 1, ONE_CALL + ONE_CALL)
    assert "cannot be read" in report.errors[0]
    assert await known(facts) == []
    (job,) = await connection.fetch("SELECT *, due_at > now() AS later FROM memory_jobs")
    assert (job["work"], job["attempts"], job["later"]) == ("extract", 1, True)
    assert "answered twice" in job["error"]
    assert await facts.extract(**USER) == ExtractionReport(), "it is not due"
    assert len(script.requests) == 2

    await _due_again(connection)
    script.says(operations(CAT))
    assert (await facts.extract(**USER)).added == 1
    assert await waiting(connection) == 0


async def test_one_failing_session_does_not_hold_up_the_others(
    memory: PgVectorMemoryService, facts: Facts, script: Script, connection: asyncpg.Connection
) -> None:
    await remember(memory, 1, "Poison.")
    await remember(memory, 2, FIRST)
    script.says("no", "no", operations(CAT))
    report = await facts.extract_pending()
    assert (report.turns, report.failed, report.added) == (1, 1, 1)
    assert await waiting(connection) == 1


async def test_a_turn_that_fails_again_is_read_alone(
    memory: PgVectorMemoryService, facts: Facts, script: Script, connection: asyncpg.Connection
) -> None:
    await remember(memory, 1, "Poison.", FIRST)
    for _ in range(2):
        script.says("no", "no")
        assert (await facts.extract(**USER)).failed == 2
        await _due_again(connection)
    script.says("no", "no", operations(add("Ana has a cat.", "t2")))
    report = await facts.extract(**USER)
    assert (report.turns, report.failed) == (1, 1)
    assert await known(facts) == ["Ana has a cat."]


async def test_a_model_that_is_down_uses_up_no_attempt_and_ends_the_round(
    memory: PgVectorMemoryService, facts: Facts, script: Script, connection: asyncpg.Connection
) -> None:
    await remember(memory, 1, FIRST)
    await remember(memory, 2, "It rains.")
    await remember(memory, 1, FIRST, user_id="other")
    script.says(LlmResponse(error_code="503"), LlmResponse(error_code="503"))
    report = await facts.extract_pending()
    assert report.failed == 1
    assert len(script.requests) == 1
    jobs = await connection.fetch("SELECT * FROM memory_jobs WHERE work = 'extract'")
    assert [(job["attempts"], job["dead"], job["lease_expires_at"]) for job in jobs] == [
        (0, False, None)
    ] * 3


async def test_turns_that_are_refused_for_ever_are_given_up(
    database_url: str,
    extractor: FactExtractor,
    script: Script,
    connection: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ADKPG_JOB_MAX_ATTEMPTS", "1")
    async with PgVectorMemoryService(database_url, mode="text") as memory:
        facts = Facts(memory, extractor=extractor)
        await facts.enable("app")
        await remember(memory, 1, FIRST)
        script.says("no", "no")
        await facts.extract(**USER)
        assert await connection.fetchval("SELECT dead FROM memory_jobs WHERE work = 'extract'")
        await _due_again(connection)
        assert await facts.extract(**USER) == ExtractionReport()


async def test_an_extractor_with_a_bug_fails_its_turns_only(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    async def breaks() -> None:
        raise OutOfOrder("I have a cat.")

    facts = Facts(memory, extractor=Meanwhile(breaks, lambda turns, known: Extraction()))
    await facts.enable("app")
    await remember(memory, 1, FIRST)
    report = await facts.extract(**USER)
    assert report.errors == (
        "Meanwhile failed with OutOfOrder; fix the fault that its error, the cause of this one, "
        "names.",
    )
    assert await waiting(connection) == 1


@pytest.mark.parametrize("error", [OutOfOrder(), APIError(400, {"error": {"message": "key"}})])
async def test_turns_are_given_up_only_if_the_extractor_reads_others(
    database_url: str, connection: asyncpg.Connection, error: Exception
) -> None:
    """Whatever it raises, be it a refusal in so many words."""
    extractor = Failing(error)
    settings = Settings(job_max_attempts=1)
    async with Database(database_url, settings=settings) as database:
        memory = PgVectorMemoryService(database, mode="text")
        facts = Facts(memory, extractor=extractor)
        await facts.enable("app")
        await remember(memory, 1, FIRST)
        work = Extracting(facts)
        for _ in range(3):
            work.forgive()
            assert (await facts.extract(**USER)).unavailable
            assert work.pause_s() > 0.0
            await _due_again(connection)
        dead = "SELECT dead FROM memory_jobs WHERE work = 'extract'"
        assert not await connection.fetchval(dead)
        extractor.of = "cat"
        work.forgive()
        assert not (await facts.extract(**USER)).unavailable
        assert await connection.fetchval(dead)


async def test_a_cancelled_extraction_gives_its_turns_back(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, FIRST)
    asked = asyncio.Event()
    script.says(asked)
    task = asyncio.create_task(facts.extract(**USER))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    script.says(operations(CAT))
    assert (await facts.extract(**USER)).added == 1, "somebody else may go on at once"


async def test_a_failing_embedder_loses_no_fact(
    database: Database, extractor: FactExtractor, script: Script, connection: asyncpg.Connection
) -> None:
    async def fails(texts: list[str]) -> list[list[float]]:
        raise OutOfOrder

    memory = PgVectorMemoryService(database, embedder=BrokenEmbedder(failure=fails))
    facts = Facts(memory, extractor=extractor)
    await facts.enable("app")
    await remember(memory, 1, FIRST)
    script.says(operations(CAT))
    await facts.extract(**USER)
    assert await known(facts) == ["Ana has a cat."]
    assert await waiting(connection, "embed") == 2


async def test_facts_of_an_app_with_another_embedding_model_wait_for_their_vectors(
    memory: PgVectorMemoryService,
    facts: Facts,
    database: Database,
    script: Script,
    connection: asyncpg.Connection,
    extractor: FactExtractor,
) -> None:
    await remember(memory, 1, FIRST)
    other = PgVectorMemoryService(database, embedder=ToyEmbedder(model="other"))
    script.says(operations(CAT), {"summary": "They have a cat."})
    elsewhere = Facts(other, extractor=extractor)
    assert (await elsewhere.extract(**USER)).added == 1
    assert (await elsewhere.summarize(**USER, session_id="day1")).memory is not None
    assert await known(facts) == ["Ana has a cat."]
    assert await waiting(connection, "embed") == 2


def _says_cat(turns: Sequence[Turn], known: Sequence[KnownFact]) -> Extraction:
    return Extraction((Add("Ana has a cat.", tuple(turn.memory_id for turn in turns)),))


async def test_a_turn_erased_meanwhile_leaves_no_fact(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    async def erases() -> None:
        memory_id = await turn_id(memory, FIRST)
        await memory.delete_memory(**USER, memory_id=memory_id)

    facts = Facts(memory, extractor=Meanwhile(erases, _says_cat))
    await facts.enable("app")
    await remember(memory, 1, FIRST)
    report = await facts.extract(**USER)
    assert (report.added, report.failed) == (0, 1)
    assert await known(facts) == []
    assert await waiting(connection) == 0


async def test_a_turn_replaced_meanwhile_is_read_again(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    seen: list[str] = []

    async def replaces() -> None:
        await remember(memory, 1, "I have no cat.")

    def says(turns: Sequence[Turn], known: Sequence[KnownFact]) -> Extraction:
        seen.extend(turn.text for turn in turns)
        return Extraction(tuple(Add(turn.text, (turn.memory_id,)) for turn in turns))

    facts = Facts(memory, extractor=Meanwhile(replaces, says))
    await facts.enable("app")
    await remember(memory, 1, FIRST)
    while (await facts.extract(**USER)).added == 0:
        assert len(seen) < 5
    assert seen == [FIRST, "I have no cat."]
    assert await known(facts) == ["I have no cat."], "nothing is kept of a text that is gone"
    assert await waiting(connection) == 0


async def test_a_turn_that_expired_waits_no_longer(
    memory: PgVectorMemoryService, facts: Facts, script: Script, connection: asyncpg.Connection
) -> None:
    await memory.add_events_to_memory(
        **USER,
        events=[said(FIRST, "e1")],
        session_id="s",
        custom_metadata={"expires_at": "2001-01-01T00:00:00+00:00"},
    )
    await facts.extract(**USER)
    assert script.requests == []
    assert await waiting(connection) == 0


async def test_what_another_worker_wrote_meanwhile_is_known(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    async def another_finishes() -> None:
        await connection.execute("UPDATE memory_jobs SET lease_expires_at = NULL")
        await other.extract(**USER)

    async def nothing() -> None:
        pass

    other = Facts(memory, extractor=Meanwhile(nothing, _says_cat))
    facts = Facts(
        memory,
        extractor=Meanwhile(
            another_finishes,
            lambda turns, known: Extraction(
                (Add("Ana owns a feline.", tuple(turn.memory_id for turn in turns)),)
            ),
        ),
    )
    await facts.enable("app")
    await remember(memory, 1, FIRST)
    report = await facts.extract(**USER)
    assert report.dropped == {"read before": 1}
    assert await known(facts) == ["Ana has a cat."], "a turn is read once, however it is worded"


async def test_two_workers_that_supersede_one_fact_leave_the_later_one(
    memory: PgVectorMemoryService,
) -> None:
    """Each has seen the first town only; whoever writes last finds what the other wrote."""
    barrier = asyncio.Barrier(2)

    def moved(turns: Sequence[Turn], known: Sequence[KnownFact]) -> Extraction:
        (turn,) = turns
        says = Add(f"Ana lives in {turn.text}", (turn.memory_id,))
        return Extraction((Supersede(known[0].memory_id, says) if known else says,))

    async def nothing() -> None:
        pass

    first = Facts(memory, extractor=Meanwhile(nothing, moved))
    await first.enable("app")
    await remember(memory, 1, "Berlin")
    await first.extract(**USER)
    await remember(memory, 2, "Paris")
    await remember(memory, 3, "Rome")
    workers = [
        Facts(memory, extractor=Meanwhile(barrier.wait, moved), batch_turns=1) for _ in range(2)
    ]
    reports = await asyncio.gather(*(worker.extract(**USER) for worker in workers))
    assert [report.turns for report in reports] == [1, 1]
    assert await known(first) == ["Ana lives in Rome"]


async def test_many_workers_read_each_turn_once(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    for day in range(6):
        await remember(memory, day, f"Turn {day}.", user_id=f"user{day % 3}")
    reports = await asyncio.gather(*(facts.extract_pending() for _ in range(4)))
    assert sum(report.turns for report in reports) == 6
    shown = [
        line["text"]
        for request in script.requests
        for line in lines(str(request.contents[0].parts[0].text), "turns")  # type: ignore[index] # each has one
    ]
    assert sorted(shown) == [f"Turn {day}." for day in range(6)]


async def test_erasing_and_extracting_at_once_never_deadlocks(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    """Facts are changed while their sources are erased: both lock sources before facts."""

    def restated(prompt: str) -> str:
        updates = [
            {**add(f"{line['fact']}!?+", "t1"), "action": "update", "fact": line["id"]}
            for line in lines(prompt, "known_facts")
        ]
        return operations(*updates, add(f"Said {lines(prompt, 'turns')[0]['text']}", "t1"))

    for day in range(8):
        await remember(memory, day, f"turn {day}")
    script.says(*[restated] * 8)
    await facts.extract(**USER, session_id="day0")

    async def erase() -> None:
        for day in range(0, 8, 2):
            await memory.delete_memory(**USER, memory_id=await turn_id(memory, f"turn {day}"))

    report, _ = await asyncio.gather(facts.extract(**USER), erase())
    # A turn that goes while the extractor reads it is no deadlock; its batch is read again.
    assert all("changed while" in error for error in report.errors)
    for fact in (await facts.profile(**USER)).facts:
        assert fact.provenance, "no fact without what it rests on"


async def test_usage_of_failures_is_reported_too(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, FIRST)
    await remember(memory, 2, FIRST)
    script.says(operations(CAT), OutOfOrder())
    report = await facts.extract(**USER)
    assert report.usage == ONE_CALL + Usage(calls=1)


async def test_a_fact_with_a_time_to_live_is_past_when_that_is_over(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, FIRST)
    script.says(operations(CAT))
    await facts.extract(**USER)
    (fact,) = (await facts.profile(**USER)).facts
    await memory.update_memory(
        **USER,
        memory_id=str(fact.memory.id),
        expires_at=fact.provenance[0].timestamp,
    )
    assert await known(facts) == []
    await memory.add_session_to_memory(
        session_of(
            said(
                FIRST,
                "later",
                timestamp=datetime.fromisoformat(str(fact.provenance[0].timestamp)).timestamp()
                + 60,
            ),
            session_id="again",
        )
    )
    script.says(operations(CAT))
    await facts.extract(**USER)
    assert await known(facts) == ["Ana has a cat."], "what is said again is known again"
