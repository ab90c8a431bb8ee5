"""Of two memories that contradict each other, the newer is found first."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from google.adk.events.event import Event

from adkpg import Database, Hit, PgVectorMemoryService
from adkpg.facts import Add, Extraction, Facts, KnownFact, Supersede, Turn
from tests.fakes.conversation import USER, said, session_of

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def remember(memory: PgVectorMemoryService, *texts: str, apart: bool = True) -> None:
    """Each a week after the one before: in a session of its own, or all in one."""
    events: list[Event] = []
    for week, text in enumerate(texts):
        event = said(text, f"e{week}")
        event.timestamp = (START + timedelta(weeks=week)).timestamp()
        events.append(event)
    sessions = [[event] for event in events] if apart else [events]
    for number, own in enumerate(sessions):
        await memory.add_session_to_memory(session_of(*own, session_id=f"s{number}"))


async def ask(memory: PgVectorMemoryService, query: str, *, mode: str = "text") -> list[Hit]:
    return await memory.search(**USER, query=query, mode=mode)  # type: ignore[arg-type] # a literal


def events(hits: Sequence[Hit]) -> list[str | None]:
    return [hit.memory.event_id for hit in hits if hit.memory.kind == "turn"]


RUN = "My weekly run is twelve kilometres, always on Sundays along the river."
LONGER = "My weekly run is eighteen kilometres now, mostly on Sundays."
QUESTION = "How many kilometres is my weekly run?"


async def test_the_newer_turn_about_the_same_thing_comes_first(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await remember(memory, RUN, "The cat sleeps all day.", LONGER)
    first, second = await ask(memory, QUESTION)
    assert events([first, second]) == ["e2", "e0"]
    assert first.score >= second.score, "the score is the order"
    assert first.reason.newer > 0, "words alone would have it otherwise"
    assert first.reason.score == first.score
    assert second.reason.newer == 0


async def test_a_conversation_may_come_back_to_what_it_is_about(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await remember(memory, RUN, "The cat sleeps all day.", LONGER, apart=False)
    hits = await ask(memory, QUESTION)
    assert all(hit.reason.newer == 0 for hit in hits)


@pytest.mark.parametrize(
    "query",
    [
        "How many kilometres is my weekly run",
        "kilometres weekly run",
        "Hello! How many kilometres is my weekly run?",
        "Can you tell me how many kilometres my weekly run is?",
        "Tell me about my weekly run.",
    ],
)
async def test_it_does_so_however_it_is_asked_for(database: Database, query: str) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await remember(memory, RUN, "The cat sleeps all day.", LONGER)
    assert events(await ask(memory, query))[:2] == ["e2", "e0"]


async def test_newer_turns_of_other_things_stay_where_they_are(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await remember(memory, RUN, "My weekly call with Ada is on Mondays at noon.")
    assert events(await ask(memory, QUESTION))[0] == "e0"


class Moves:
    """Takes each turn for a fact; one about a move replaces the last about a home."""

    async def extract(self, turns: Sequence[Turn], known: Sequence[KnownFact]) -> Extraction:
        operations: list[Add | Supersede] = []
        for turn in turns:
            add = Add(f"Home: {turn.text.split()[-1]}", (turn.memory_id,))
            homes = [fact for fact in known if fact.text.startswith("Home")]
            operations.append(Supersede(homes[-1].memory_id, by=add) if homes else add)
        return Extraction(tuple(operations))


async def extracted(memory: PgVectorMemoryService, sessions: int) -> None:
    facts = Facts(memory, extractor=Moves())
    await facts.enable("app")
    for number in range(sessions):
        await facts.extract(**USER, session_id=f"s{number}")


async def test_turns_of_superseded_facts_stand_below_those_of_the_facts_that_replaced_them(
    database: Database,
) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await remember(
        memory,
        "Home is the town of Porto.",
        "We packed everything and call another place home: Braga.",
        "Sold all of it again, since home is wherever the boat lies: Faro.",
    )
    question = "In which town is my home?"
    assert events(await ask(memory, question))[0] == "e0"
    await extracted(memory, 3)
    hits = await ask(memory, question)
    assert events(hits) == ["e2", "e1", "e0"]
    texts = [(hit.memory.content.parts or [])[0].text for hit in hits]
    assert "Home: Faro." in texts[: texts.index("Home is the town of Porto.")]
    assert not {"Home: Porto.", "Home: Braga."} & set(texts)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


async def test_facts_of_others_change_nothing(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    texts = ("My home is in Porto.", "My home, or so they say, is since the flood in Braga.")
    await remember(memory, *texts)
    session = session_of(said(texts[0], "e0"), session_id="s0", user_id="bob")
    await memory.add_session_to_memory(session)
    await extracted(memory, 2)
    hits = await memory.search(app_name="app", user_id="bob", query="Where is my home?")
    assert events(hits) == ["e0"]
