"""An embedder of your own: a name, a length, and two functions. No base class is needed."""

import asyncio
import hashlib
import math

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import Database, PgVectorMemoryService


class LetterPairs:
    """Counts pairs of letters: nothing like a language model, but it forgives misspellings."""

    model = "letter-pairs"
    dimensions = 256
    weight = 0.1  # it counts less than a language model: 0.2 if left out

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns one vector per text, ``[n, 256]``."""
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        """Returns the vector of a text, ``[256]``."""
        vector = [1e-3] * self.dimensions
        for pair in zip(text.lower(), text.lower()[1:], strict=False):
            vector[hashlib.sha256("".join(pair).encode()).digest()[0]] += 1
        norm = math.hypot(*vector)
        return [value / norm for value in vector]


async def main() -> None:
    """Remembers a note and finds it by a misspelled question."""
    async with Database() as db:
        await db.upgrade()
        memory = PgVectorMemoryService(db, embedder=LetterPairs())
        note = types.Content(parts=[types.Part(text="Accommodation is booked in Marrakesh.")])
        await memory.add_memory(
            app_name="notes", user_id="ana", memories=[MemoryEntry(id="trip", content=note)]
        )
        for hit in await memory.search(app_name="notes", user_id="ana", query="acomodation"):
            print(f"{hit.reason.cosine:.2f} {hit.memory.content.parts[0].text}")  # type: ignore[index] # it has one part


if __name__ == "__main__":
    asyncio.run(main())
