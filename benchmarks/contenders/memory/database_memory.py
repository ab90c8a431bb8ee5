"""adk-database-memory: keywords in Postgres."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from adk_database_memory import DatabaseMemoryService

from benchmarks.contenders.memory import copying
from benchmarks.contenders.memory.contender import APP, TOP_K, Embedding, Way
from benchmarks.contenders.memory.events import events, texts
from benchmarks.corpus import Corpus, Said


class DatabaseMemory:
    """`DatabaseMemoryService`; it has no vectors."""

    name = "adk-database-memory"
    package = "adk-database-memory"
    ways: tuple[Way, ...] = ("words",)
    whole = False

    def __init__(self, url: str, embedding: Embedding) -> None:
        self.ingest_note = "stores no vectors"
        self.search_notes: dict[Way, str] = {
            "words": "reads all of the user's memories and returns what shares a word, unranked; "
            "the first ten count"
        }
        self._url = url
        self._memory: Any = DatabaseMemoryService(
            url.replace("postgresql://", "postgresql+asyncpg://", 1), pool_size=10
        )

    async def prepare(self) -> None:
        # It makes its table at its first use.
        await self._memory.search_memory(app_name=APP, user_id="nobody", query="table")

    async def load(self, corpus: Corpus) -> None:
        connection = await copying.connect(self._url, extension=True)
        try:
            async with copying.bare(connection, "adk_memory_entries"):
                await copying.copy(
                    connection,
                    "adk_memory_entries",
                    "app_name user_id keywords author content timestamp",
                    _rows(corpus, self._memory.stop_words),
                )
        finally:
            await connection.close()

    async def ingest(self, user: str, batch: Sequence[Said]) -> None:
        await self._memory.add_events_to_memory(
            app_name=APP, user_id=user, events=events(batch), session_id=batch[0].session_id
        )

    async def search(self, user: str | None, question: str, way: Way) -> list[str]:
        found = await self._memory.search_memory(app_name=APP, user_id=user, query=question)
        return texts(found.memories[:TOP_K])

    async def count(self) -> int:
        return await copying.count(self._url, "adk_memory_entries")

    async def close(self) -> None:
        await self._memory.close()


def _rows(corpus: Corpus, stop_words: set[str]) -> Iterator[Sequence[Any]]:
    for user, said in corpus.owned():
        keywords = " ".join(sorted(set(said.text.split()) - stop_words))
        content = json.dumps({"parts": [{"text": said.text}], "role": "user"})
        yield APP, user, keywords, "user", content, said.time.timestamp()
