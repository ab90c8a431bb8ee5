"""One question asked in several ways: filters, half-life, a budget, neighbours; and why."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import Database, Memory, PgVectorMemoryService, SearchFilters

NOW = datetime.now(UTC)
CONVERSATIONS = {
    NOW - timedelta(days=150): (
        ("user", "The hotel in Lisbon is called Miramar."),
        ("guide", "Shall I note how you get there?"),
        ("user", "By night train, 180 euros for two."),
    ),
    NOW - timedelta(days=3): (
        ("user", "In Porto we stay at the Douro, a hotel by the river."),
        ("guide", "I wrote to them that you arrive late; breakfast is included."),
    ),
}
ASKED: dict[str, dict[str, Any]] = {
    "the best three": {"top_k": 3},
    "the newer, the better": {"top_k": 3, "half_life": timedelta(days=60)},
    "said by the guide": {"filters": SearchFilters(authors=["guide"])},
    "said in the last month": {"filters": SearchFilters(after=NOW - timedelta(days=30))},
    "within 15 tokens": {"max_tokens": 15},
    "the best, and a turn on each side": {"top_k": 1, "neighbours": 1},
}


def line(memory: Memory) -> str:
    """Returns when a memory was said, by whom, and what."""
    said = " ".join(part.text or "" for part in memory.content.parts or [])
    return f"{(memory.timestamp or '')[:10]} {memory.author}: {said}"


async def main() -> None:
    """Remembers two conversations and asks about the hotel."""
    who: dict[str, Any] = {"app_name": "trips", "user_id": "ana"}
    async with Database() as db:
        await db.upgrade()
        memory = PgVectorMemoryService(db)
        for name, (start, turns) in enumerate(CONVERSATIONS.items()):
            events = [
                Event(
                    id=f"e{number}",
                    author=author,
                    timestamp=start.timestamp() + number,
                    content=types.Content(parts=[types.Part(text=text)]),
                )
                for number, (author, text) in enumerate(turns)
            ]
            await memory.add_session_to_memory(Session(id=f"talk-{name}", **who, events=events))
        for what, options in ASKED.items():
            print(f"\n{what}:")
            for hit in await memory.search(**who, query="What is the hotel called?", **options):
                why = hit.reason
                cosine = "no vector" if why.cosine is None else f"cosine {why.cosine:.2f}"
                words = f"words {', '.join(why.lexemes)}: {why.lexical:.2f}"
                print(f"  {line(hit.memory)}")
                print(f"    {hit.score:.2f} ({words}; {cosine}; recency {why.recency:.2f})")
                for turn in hit.neighbours:
                    print(f"    next to it: {line(turn)}")


if __name__ == "__main__":
    asyncio.run(main())
