"""Memory in this process, as in a notebook or a test: no server, nothing is left behind."""

import asyncio

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import InMemoryVectorMemoryService

SAID = (
    ("user", "I adopted a golden retriever called Biscuit."),
    ("companion", "Congratulations! How old is he?"),
    ("user", "Two years. He came from the shelter in Leeds."),
)


async def main() -> None:
    """Remembers a conversation and says why each hit was found."""
    memory = InMemoryVectorMemoryService()
    events = [
        Event(author=author, content=types.Content(parts=[types.Part(text=text)]))
        for author, text in SAID
    ]
    session = Session(id="first", app_name="notebook", user_id="ana", events=events)
    await memory.add_session_to_memory(session)
    for hit in await memory.search(
        app_name="notebook", user_id="ana", query="What is the name of my dog?"
    ):
        parts = hit.memory.content.parts or []
        cosine = "no vector" if hit.reason.cosine is None else f"cosine {hit.reason.cosine:.2f}"
        print(f"{hit.score:.2f} {parts[0].text} ({cosine}, words {hit.reason.lexemes})")


if __name__ == "__main__":
    asyncio.run(main())
