"""Two embedding models side by side: an app changes over from one to the other while it is used."""

import asyncio
from typing import Any

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import Database, PgVectorMemoryService
from adkpg.embedding import CallableEmbedder
from adkpg.errors import ModelNotActive
from adkpg.tooling.models import Models, Progress

APP = "change-over"
WHO: dict[str, Any] = {"app_name": APP, "user_id": "ana"}
SAID = ("I ride my bike to work.", "We had green tea.", "Lunch was soup.", "Paris was lovely.")
TOPICS = (("bike", "cycle", "ride"), ("tea", "coffee", "drink"), ("soup", "lunch", "eat"))


def topics(texts: list[str]) -> list[list[float]]:
    """Stands for a model: how often a text touches each topic, ``[n, 3]``."""
    return [[0.1 + sum(text.lower().count(w) for w in words) for words in TOPICS] for text in texts]


def places_too(texts: list[str]) -> list[list[float]]:
    """Stands for a better model, of another length: it knows journeys too, ``[n, 4]``."""
    return [
        [*row, 0.1 + sum(text.lower().count(w) for w in ("paris", "travel"))]
        for text, row in zip(texts, topics(texts), strict=True)
    ]


async def ask(memory: PgVectorMemoryService) -> None:
    """Asks by vectors alone, and prints the answer or what is in its way."""
    name = memory.embedder.model if memory.embedder else ""
    try:
        hits = await memory.search(**WHO, query="Where did we travel?", mode="vector", top_k=1)
    except ModelNotActive as exc:
        print(f"{name}: {exc}")
        return
    for hit in hits:
        print(f"{name}: {hit.memory.content.parts[0].text}")  # type: ignore[index] # it has one
    if not hits:
        print(f"{name}: nothing")


def show(progress: Progress) -> None:
    """Prints how far it is; `adkpg reembed` draws a bar."""
    print(f"  {progress.covered} of {progress.memories} memories have a vector of the new model")


async def main() -> None:
    """Remembers with one model, changes over to another, and could go back."""
    old = CallableEmbedder(topics, model="topics", dimensions=3)
    new = CallableEmbedder(places_too, model="topics-and-places", dimensions=4)
    async with Database() as db:
        await db.upgrade()
        models = Models(db)
        await models.add(old.model, dimensions=old.dimensions)
        # The first embedding of an app would do the same; this starts a second run afresh.
        await models.activate(old.model, app_name=APP, force=True)
        before = PgVectorMemoryService(db, embedder=old)
        after = PgVectorMemoryService(db, embedder=new)
        entries = [
            MemoryEntry(id=text, content=types.Content(parts=[types.Part(text=text)]))
            for text in SAID
        ]
        await before.add_memory(**WHO, memories=entries)
        await ask(before)
        await ask(after)

        print("adkpg reembed:")
        await models.reembed(new, app_name=APP, progress=show)
        await ask(after)
        await ask(before)

        for model in await models.list_models():
            for app in model.apps:
                if app.app_name == APP:
                    state = "active" if app.active else "kept, to go back"
                    print(f"{model.name}: {app.vectors} vectors of {app.memories}, {state}")


if __name__ == "__main__":
    asyncio.run(main())
