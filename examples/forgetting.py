"""Forgetting: what ends by itself, what is pruned, one memory deleted, a whole person erased."""

import asyncio
from typing import Any

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.erasure import forget, prune

WHO: dict[str, Any] = {"app_name": "forgetting", "user_id": "ana"}
NOTES = (
    ("The door code is 4711.", {"ttl": "3600s"}),
    ("The parcel of last year has come.", {"expires_at": "2026-01-31T00:00:00Z"}),
    ("Ana likes oolong.", {"importance": 0.9}),
    ("Ana was in a hurry.", {"importance": 0.1}),
)


def content(text: str) -> types.Content:
    """Returns a content with a text."""
    return types.Content(role="user", parts=[types.Part(text=text)])


async def show(memory: PgVectorMemoryService, when: str) -> None:
    """Prints what is remembered, the oldest first."""
    page = await memory.list_memories(**WHO)
    said = [entry.content.parts[0].text for entry in page.items[::-1] if entry.content.parts]
    print(f"{when}: {said}")


async def main() -> None:
    """Remembers a few things, and forgets them in four ways."""
    async with Database() as db:
        await db.upgrade()
        sessions = DatabaseSessionService(db, remember=True)
        memory = PgVectorMemoryService(db, mode="text")
        session = await sessions.create_session(**WHO, state={"user:tea": "oolong"})
        secret = Event(id="e1", author="user", content=content("My salary is 50,000."))
        await sessions.append_event(session, secret)
        for text, metadata in NOTES:
            await memory.add_memory(
                **WHO, memories=[MemoryEntry(content=content(text))], custom_metadata=metadata
            )
        await show(memory, "what has ended is gone already")

        for hit in await memory.search(**WHO, query="salary"):
            await memory.delete_memory(**WHO, memory_id=hit.memory.id)
        await memory.add_session_to_memory(session)  # does not bring it back
        await show(memory, "deleted for good")

        for dry_run in (True, False):
            for pruned in await prune(db, **WHO, max_importance=0.2, dry_run=dry_run):
                would = "would go" if dry_run else "gone"
                print(f"prune: {pruned.expired} expired, {pruned.faded} unimportant {would}")
        await show(memory, "pruned")

        for dry_run in (True, False):
            erased = await forget(db, **WHO, dry_run=dry_run)
            print(f"forget: {dict(erased.rows)} {'would go' if dry_run else 'gone'}")
        await show(memory, "forgotten")


if __name__ == "__main__":
    asyncio.run(main())
