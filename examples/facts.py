"""Facts: what is known of a person, drawn from sessions that contradict each other."""

import asyncio
import os
import re
from collections.abc import Sequence
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import Database, PgVectorMemoryService
from adkpg.facts import (
    Add,
    Extraction,
    FactExtractor,
    Facts,
    KnownFact,
    MemoryExtractor,
    Operation,
    Supersede,
    Turn,
)


class Towns:
    """An extractor of your own: it understands where somebody lives, and nothing else."""

    async def extract(self, turns: Sequence[Turn], known: Sequence[KnownFact]) -> Extraction:
        """Returns the towns that the turns tell; a new one takes the place of the known one."""
        operations: list[Operation] = []
        for turn in turns:
            if found := re.search(r"I (?:live in|moved to) (\w+)", turn.text):
                fact = Add(f"Lives in {found[1]}.", (turn.memory_id,), topics=("home",))
                homes = [each.memory_id for each in known if "home" in each.topics]
                operations.append(Supersede(homes[0], fact) if homes else fact)
        return Extraction(tuple(operations))


async def main() -> None:
    """Hears of two towns, and knows which one is true and which one was."""
    extractor: MemoryExtractor = Towns()
    if os.environ.get("GOOGLE_API_KEY"):
        extractor = FactExtractor("gemini-3.5-flash")
    async with Database() as db:
        await db.upgrade()
        memory = PgVectorMemoryService(db)
        facts = Facts(memory, extractor=extractor)
        await facts.enable("notes")
        who: dict[str, Any] = {"app_name": "notes", "user_id": "ana"}
        for day, text in enumerate(("I live in Berlin.", "It rains.", "I moved to Paris."), 1):
            said = types.Content(role="user", parts=[types.Part(text=text)])
            event = Event(id="e1", author="user", content=said, timestamp=1_772_366_400 + day)
            await memory.add_session_to_memory(Session(id=f"s{day}", **who, events=[event]))
        report = await facts.extract(**who)
        print(f"{report.turns} turns, {report.added} facts, {report.superseded} superseded")
        for fact in (await facts.profile(**who)).facts:
            print(f"{fact.text} From: {[turn.event_id for turn in fact.provenance]}")
            for past in await facts.history(**who, memory_id=str(fact.memory.id)):
                print(past.timestamp, past.content.parts[0].text)  # type: ignore[index] # it has one


if __name__ == "__main__":
    asyncio.run(main())
