"""Remembered with the event, in the same statement; a worker in the same program adds vectors."""

import asyncio

from google.adk.events.event import Event
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService


async def main() -> None:
    """Says two things, and asks for them in other words."""
    async with Database(remember="redacted") as db:  # without secrets of known forms
        await db.upgrade()
        sessions = DatabaseSessionService(db)
        memory = PgVectorMemoryService(db)
        stop = asyncio.Event()
        worker = asyncio.create_task(memory.run_worker(stop))

        session = await sessions.create_session(app_name="capture", user_id="ana")
        for text in ("My bike is in the shed.", "Pay the hotel with 4111 1111 1111 1111."):
            content = types.Content(role="user", parts=[types.Part(text=text)])
            await sessions.append_event(session, Event(author="user", content=content))

        await memory.flush(timeout_s=60)
        for query in ("Where is my bicycle?", "How is the accommodation paid?"):
            hits = await memory.search(app_name="capture", user_id="ana", query=query, top_k=1)
            for hit in hits:
                print(query, *(part.text for part in hit.memory.content.parts or []), sep="  ")

        stop.set()
        await worker


if __name__ == "__main__":
    asyncio.run(main())
