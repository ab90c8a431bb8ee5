"""A LangChain embedding model for the memory; this one is tiny, so that it runs anywhere."""

import asyncio

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import Database, PgVectorMemoryService
from adkpg.embedding import LangChainEmbedder


class TopicEmbeddings:
    """Has the methods of LangChain's ``Embeddings``; any object of LangChain's own fits here."""

    model = "three-topics"
    topics = (("bike", "cycle", "ride"), ("tea", "coffee", "drink"), ("paris", "trip", "travel"))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns one vector per text, ``[n, 3]``."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Returns how often a text touches each topic, ``[3]``."""
        return [0.1 + sum(text.lower().count(word) for word in words) for words in self.topics]


async def main() -> None:
    """Remembers two notes and finds one by a word of the same topic."""
    async with Database() as db:
        await db.upgrade()
        embedder = LangChainEmbedder(TopicEmbeddings(), dimensions=3)
        memory = PgVectorMemoryService(db, embedder=embedder, min_relevance=0.5)
        for name, text in (("a", "The bike is in the shed."), ("b", "Ana likes green tea.")):
            note = types.Content(parts=[types.Part(text=text)])
            await memory.add_memory(
                app_name="langchain", user_id="ana", memories=[MemoryEntry(id=name, content=note)]
            )
        answer = await memory.search_memory(
            app_name="langchain", user_id="ana", query="What should we drink?"
        )
        for entry in answer.memories:
            for part in entry.content.parts or []:
                print(part.text)


if __name__ == "__main__":
    asyncio.run(main())
