"""LangChain's PGVectorStore, by vectors and hybrid."""

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_postgres import Column, PGEngine, PGVectorStore
from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig, reciprocal_rank_fusion
from langchain_postgres.v2.indexes import HNSWIndex
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.contenders.memory import copying
from benchmarks.contenders.memory.contender import TOP_K, Embedding, Way
from benchmarks.corpus import DIMENSIONS, Corpus, Said

_TABLE = "remembered"
_NAMESPACE = uuid.UUID(int=0)


class GivenEmbeddings:
    """The shared embedding function as LangChain's `Embeddings`."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._embedding.of_all(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return self._embedding.of(text)


class LangChainStore:
    """`PGVectorStore` with a column for the user, its HNSW index and its index of words."""

    name = "langchain-postgres"
    package = "langchain-postgres"
    ways: tuple[Way, ...] = ("vectors", "both")
    whole = True

    def __init__(self, url: str, embedding: Embedding) -> None:
        self.ingest_note = "inserts and commits row by row"
        self.search_notes: dict[Way, str] = {
            "vectors": "one HNSW index for all users",
            # It keeps the first question's words in its configuration for all that follow.
            "both": "given a new configuration for each question, or it asks for the "
            "words of the first one for ever",
        }
        self._url = url
        self._embeddings = GivenEmbeddings(embedding)
        self._engine: Any = None
        self._store: Any = None

    async def prepare(self) -> None:
        url = self._url.replace("postgresql://", "postgresql+asyncpg://", 1)
        self._engine = PGEngine.from_engine(create_async_engine(url, pool_size=10))
        await self._engine.ainit_vectorstore_table(
            _TABLE,
            DIMENSIONS,
            metadata_columns=[Column("user_id", "TEXT", nullable=False)],
            hybrid_search_config=_hybrid(),
        )
        self._store = await PGVectorStore.create(
            self._engine,
            self._embeddings,
            _TABLE,
            metadata_columns=["user_id"],
            hybrid_search_config=_hybrid(),
        )
        await self._store.aapply_vector_index(HNSWIndex())
        await self._store.aapply_hybrid_search_index()

    async def load(self, corpus: Corpus) -> None:
        connection = await copying.connect(self._url)
        try:
            await connection.execute(
                "create temporary table given (langchain_id uuid, content text, embedding vector,"
                " user_id text, langchain_metadata json)"
            )
            columns = "langchain_id content embedding user_id langchain_metadata"
            await copying.copy(connection, "given", columns, _rows(corpus))
            async with copying.bare(connection, _TABLE):
                await connection.execute(
                    f"insert into {_TABLE} (langchain_id, content, embedding, content_tsv, user_id,"  # noqa: S608
                    " langchain_metadata) select langchain_id, content, embedding,"
                    " to_tsvector('pg_catalog.english', content), user_id, langchain_metadata"
                    " from given",
                    timeout=600,
                )
        finally:
            await connection.close()

    async def ingest(self, user: str, batch: Sequence[Said]) -> None:
        documents = [
            Document(
                id=_id(said),
                page_content=said.text,
                metadata={"user_id": user, "event_id": said.event_id},
            )
            for said in batch
        ]
        await self._store.aadd_documents(documents)

    async def search(self, user: str | None, question: str, way: Way) -> list[str]:
        found = await self._store.asimilarity_search(
            question,
            k=TOP_K,
            filter=None if user is None else {"user_id": user},
            hybrid_search_config=_hybrid() if way == "both" else None,
        )
        return [document.page_content for document in found]

    async def count(self) -> int:
        return await copying.count(self._url, _TABLE)

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.close()


def _hybrid() -> Any:
    return HybridSearchConfig(
        tsv_column="content_tsv",
        tsv_lang="pg_catalog.english",
        fusion_function=reciprocal_rank_fusion,
        primary_top_k=2 * TOP_K,
        secondary_top_k=2 * TOP_K,
    )


def _id(said: Said) -> str:
    return str(uuid.uuid5(_NAMESPACE, said.event_id))


def _rows(corpus: Corpus) -> Iterator[Sequence[Any]]:
    for user, said in corpus.owned():
        metadata = json.dumps({"event_id": said.event_id})
        yield _id(said), said.text, corpus.vectors[said.number], user, metadata
