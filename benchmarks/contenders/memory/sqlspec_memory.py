"""sqlspec[adk]: its memory service on asyncpg, given vectors, or by words alone."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sqlspec.adapters.asyncpg import AsyncpgConfig
from sqlspec.adapters.asyncpg.adk import AsyncpgADKMemoryStore
from sqlspec.extensions.adk.memory import SQLSpecMemoryService

from benchmarks.contenders.memory import copying
from benchmarks.contenders.memory.contender import APP, TOP_K, Embedding, Way
from benchmarks.contenders.memory.events import events, texts
from benchmarks.corpus import DIMENSIONS, Corpus, Said

_TABLE = "adk_memory_entries"


class SqlspecMemory:
    """`SQLSpecMemoryService`; it never embeds, so the caller gives it vectors."""

    name = "sqlspec"
    package = "sqlspec"
    ways: tuple[Way, ...] = ("vectors", "words")
    whole = False

    def __init__(self, url: str, embedding: Embedding) -> None:
        self.ingest_note = "inserts row by row"
        self.search_notes: dict[Way, str] = {
            "vectors": "one HNSW index for all users; ADK's tools never give it a vector",
            "words": "finds only what has all of the question's words",
        }
        self._url = url
        self._embedding = embedding
        self._config: Any = None
        self._memory: Any = None

    async def prepare(self) -> None:
        connection = await copying.connect(self._url, extension=True)
        await connection.close()
        self._config = AsyncpgConfig(
            connection_config={"dsn": self._url, "min_size": 1, "max_size": 10},
            extension_config={
                "adk": {
                    "vector_dimensions": DIMENSIONS,
                    "memory_use_fts": True,
                    "memory_max_results": TOP_K,
                    "memory_table": _TABLE,
                }
            },
        )
        store = AsyncpgADKMemoryStore(self._config)
        await store.create_tables()
        self._memory = SQLSpecMemoryService(store)

    async def load(self, corpus: Corpus) -> None:
        connection = await copying.connect(self._url)
        try:
            async with copying.bare(connection, _TABLE):
                await copying.copy(
                    connection,
                    _TABLE,
                    "id session_id app_name user_id event_id author timestamp embedding"
                    " content_json content_text",
                    _rows(corpus),
                )
        finally:
            await connection.close()

    async def ingest(self, user: str, batch: Sequence[Said]) -> None:
        await self._memory.add_events_to_memory(
            app_name=APP,
            user_id=user,
            events=events(batch),
            session_id=batch[0].session_id,
            embeddings={said.event_id: self._embedding.of(said.text) for said in batch},
        )

    async def search(self, user: str | None, question: str, way: Way) -> list[str]:
        found = await self._memory.search_memory(
            app_name=APP,
            user_id=user,
            query=question,
            embedding=self._embedding.of(question) if way == "vectors" else None,
        )
        return texts(found.memories)

    async def count(self) -> int:
        return await copying.count(self._url, _TABLE)

    async def close(self) -> None:
        if self._config is not None:
            await self._config.close_pool()


def _rows(corpus: Corpus) -> Iterator[Sequence[Any]]:
    for user, said in corpus.owned():
        content = json.dumps({"parts": [{"text": said.text}], "role": "user"})
        yield (
            said.event_id,
            said.session_id,
            APP,
            user,
            said.event_id,
            "user",
            said.time,
            corpus.vectors[said.number],
            content,
            said.text,
        )
