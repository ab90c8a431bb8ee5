"""Memory in this process, as in a notebook or a test: no server, nothing is left behind."""

import asyncio

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import InMemoryVectorMemoryService
from adkpg.embedding import LocalEmbedder

SAID = (
    ("user", "I adopted a golden retriever called Biscuit."),
    ("companion", "Congratulations! How old is he?"),
    ("user", "Two years. He came from the shelter in Leeds."),
)


async def main() -> None:
    """Remembers a conversation and asks about it."""
    memory = InMemoryVectorMemoryService(embedder=LocalEmbedder())
    events = [
        Event(author=author, content=types.Content(parts=[types.Part(text=text)]))
        for author, text in SAID
    ]
    session = Session(id="first", app_name="notebook", user_id="ana", events=events)
    await memory.add_session_to_memory(session)
    found = await memory.search_memory(
        app_name="notebook", user_id="ana", query="What is the name of my dog?"
    )
    for entry in found.memories:
        print(entry.content.parts[0].text)  # type: ignore[index] # it has one part


if __name__ == "__main__":
    asyncio.run(main())
