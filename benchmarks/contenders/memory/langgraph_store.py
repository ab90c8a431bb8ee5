"""LangGraph's AsyncPostgresStore, with its own index and embedding hook."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

from langgraph.store.base import PutOp
from langgraph.store.postgres.aio import AsyncPostgresStore

from benchmarks.contenders.memory import copying
from benchmarks.contenders.memory.contender import APP, TOP_K, Embedding, Way
from benchmarks.corpus import DIMENSIONS, Corpus, Said


class LangGraphStore:
    """`AsyncPostgresStore` with a namespace for each user."""

    name = "langgraph store"
    package = "langgraph-checkpoint-postgres"
    ways: tuple[Way, ...] = ("vectors",)
    whole = True

    def __init__(self, url: str, embedding: Embedding) -> None:
        self.ingest_note = ""
        self.search_notes: dict[Way, str] = {"vectors": "one HNSW index for all users"}
        self._url = url
        self._embedding = embedding
        self._open = AsyncExitStack()
        self._store: Any = None

    async def prepare(self) -> None:
        self._store = await self._open.enter_async_context(
            AsyncPostgresStore.from_conn_string(
                self._url,
                pool_config={"min_size": 1, "max_size": 10},
                index={
                    "dims": DIMENSIONS,
                    "embed": self._embed,
                    "fields": ["text"],
                    "ann_index_config": {"kind": "hnsw", "vector_type": "vector"},
                    "distance_type": "cosine",
                },
            )
        )
        await self._store.setup()

    async def load(self, corpus: Corpus) -> None:
        connection = await copying.connect(self._url)
        try:
            async with copying.bare(connection, "store_vectors"):
                async with copying.bare(connection, "store"):
                    items = (
                        (f"{APP}.{user}", said.event_id, json.dumps({"text": said.text}))
                        for user, said in corpus.owned()
                    )
                    await copying.copy(connection, "store", "prefix key value", items)
                await copying.copy(
                    connection, "store_vectors", "prefix key field_name embedding", _rows(corpus)
                )
        finally:
            await connection.close()

    async def ingest(self, user: str, batch: Sequence[Said]) -> None:
        await self._store.abatch(
            [PutOp((APP, user), said.event_id, {"text": said.text}) for said in batch]
        )

    async def search(self, user: str | None, question: str, way: Way) -> list[str]:
        namespace = (APP,) if user is None else (APP, user)
        found = await self._store.asearch(namespace, query=question, limit=TOP_K)
        return [item.value["text"] for item in found]

    async def count(self) -> int:
        return await copying.count(self._url, "store_vectors")

    async def close(self) -> None:
        await self._open.aclose()
        self._store = None  # its background task is cancelled with it, and ends in the next turn
        await asyncio.sleep(0)

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        return self._embedding.of_all(texts)


def _rows(corpus: Corpus) -> Iterator[Sequence[Any]]:
    for user, said in corpus.owned():
        yield f"{APP}.{user}", said.event_id, "text", corpus.vectors[said.number]
