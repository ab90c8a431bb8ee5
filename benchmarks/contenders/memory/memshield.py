"""adk-memshield: vectors under row-level security, by a synchronous driver in threads."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import asyncpg
from adk_memshield import MemShieldMemoryService
from psycopg_pool import ConnectionPool

from benchmarks.contenders.memory import copying
from benchmarks.contenders.memory.contender import APP, TOP_K, Embedding, Way
from benchmarks.contenders.memory.events import events, texts
from benchmarks.corpus import DIMENSIONS, Corpus, Said

_ROLE = "memshield_app"
_TENANT = "t"


@asynccontextmanager
async def borrowed_role(server_url: str) -> AsyncIterator[None]:
    """Drops the role that the package's schema makes, if it was not there before."""
    connection: Any = await asyncpg.connect(server_url)
    try:
        known = await connection.fetchval("select true from pg_roles where rolname = $1", _ROLE)
        yield
        if not known:
            await connection.execute(f"drop role if exists {_ROLE}")
    finally:
        await connection.close()


class MemShield:
    """`MemShieldMemoryService` as its role, so that its policies hold."""

    name = "adk-memshield"
    package = "adk-memshield"
    ways: tuple[Way, ...] = ("vectors",)
    whole = False

    def __init__(self, url: str, embedding: Embedding) -> None:
        self.ingest_note = "inserts row by row"
        self.search_notes: dict[Way, str] = {"vectors": "exact: its table has no vector index"}
        self._url = url
        self._embedding = embedding
        self._pool: Any = None
        self._memory: Any = None

    async def prepare(self) -> None:
        schema = files("adk_memshield").joinpath("sql", "01_schema.sql").read_text()
        connection: Any = await asyncpg.connect(self._url)
        try:
            # Postgres makes UUIDs by itself since 13; slim servers do not have the extension.
            await connection.execute(schema.replace("CREATE EXTENSION IF NOT EXISTS pgcrypto;", ""))
        finally:
            await connection.close()
        self._pool = ConnectionPool(
            self._url, min_size=1, max_size=8, open=True, configure=_as_application
        )
        self._memory = MemShieldMemoryService(
            pool=self._pool,
            dsn=self._url,
            tenant_id=_TENANT,
            top_k=TOP_K,
            embed_fn=self._embedding.of_all,
            embedding_dim=DIMENSIONS,
        )

    async def load(self, corpus: Corpus) -> None:
        connection = await copying.connect(self._url)
        try:
            async with copying.bare(connection, "memories"):
                await copying.copy(
                    connection,
                    "memories",
                    "app_name tenant_id user_id session_id content custom_metadata embedding",
                    _rows(corpus),
                )
        finally:
            await connection.close()

    async def ingest(self, user: str, batch: Sequence[Said]) -> None:
        await self._memory.add_events_to_memory(
            app_name=APP, user_id=user, events=events(batch), session_id=batch[0].session_id
        )

    async def search(self, user: str | None, question: str, way: Way) -> list[str]:
        found = await self._memory.search_memory(app_name=APP, user_id=user, query=question)
        return texts(found.memories)

    async def count(self) -> int:
        return await copying.count(self._url, "memories")

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.close()


def _as_application(connection: Any) -> None:
    connection.execute(f"set role {_ROLE}")  # superusers bypass policies
    connection.commit()


def _rows(corpus: Corpus) -> Iterator[Sequence[Any]]:
    for user, said in corpus.owned():
        metadata = json.dumps({"event_id": said.event_id})
        vector = corpus.vectors[said.number]
        yield APP, _TENANT, user, said.session_id, said.text, metadata, vector
