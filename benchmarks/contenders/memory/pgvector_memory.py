"""adkpg's own memory service."""

from collections.abc import Sequence
from typing import Any

from pgvector import HalfVector

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.memory.drafts import Draft, as_json, drafts_of_events
from adkpg.memory.search.options import Mode
from adkpg.memory.vectors import statements as vector_statements
from adkpg.memory.vectors.statements import ModelKey
from adkpg.memory.write import statements
from adkpg.memory.write.plan import new_place
from benchmarks.contenders.memory import copying
from benchmarks.contenders.memory.contender import APP, TOP_K, Embedding, Way
from benchmarks.contenders.memory.events import events, texts
from benchmarks.corpus import DIMENSIONS, Corpus, Said
from benchmarks.figures import OURS

_LOADED = 1_000  # memories of a user in one call
_EXACT_LIMIT = 100_000
TURNS = 20
_MODES: dict[Way, Mode] = {"vectors": "vector", "words": "text", "both": "hybrid"}


class GivenEmbedder:
    """The shared embedding function as an adkpg embedder."""

    model = "benchmark"
    dimensions = DIMENSIONS

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._embedding.of_all([text.removeprefix("user: ") for text in texts])

    async def embed_query(self, text: str) -> list[float]:
        return self._embedding.of(text)


def drafts(user: str, batch: Sequence[Said]) -> list[tuple[int, Draft]]:
    """Returns what `add_events_to_memory` would write, each session of 20 turns in its place."""
    rows = []
    for start in range(0, len(batch), TURNS):
        turns = batch[start : start + TURNS]
        block = new_place(user)
        made = drafts_of_events(events(turns), turns[0].session_id)
        rows += [(block + place, draft) for place, draft in enumerate(made)]
    return rows


class PgVectorMemory:
    """`PgVectorMemoryService`, with an HNSW index for users above its limit for exact answers."""

    name = OURS
    package = "adkpg"
    ways: tuple[Way, ...] = ("vectors", "words", "both")
    whole = False

    def __init__(self, url: str, embedding: Embedding) -> None:
        self.ingest_note = ""
        self.search_notes: dict[Way, str] = {}
        self._url = url
        self._embedding = embedding
        settings = Settings(exact_limit=_EXACT_LIMIT, migration_timeout_s=3600)
        self._database = Database(url, settings=settings)
        embedder = GivenEmbedder(embedding)
        self._memories = {
            way: PgVectorMemoryService(
                self._database, embedder=embedder, top_k=TOP_K, mode=_MODES[way]
            )
            for way in self.ways
        }
        self._memory = self._memories["both"]

    async def prepare(self) -> None:
        await self._database.upgrade()

    async def load(self, corpus: Corpus) -> None:
        connection = await copying.connect(self._url)
        try:
            places = []
            async with copying.bare(connection, "adkpg.memory_lexemes"):
                for user, batch in corpus.pieces(_LOADED):
                    rows = drafts(user, batch)
                    config = self._database.settings.text_search_config
                    given = statements.insert_memories(
                        app_name=APP,
                        user_id=user,
                        memories=as_json(rows),
                        config=config,
                    )
                    await self._database.run.fetch(given)
                    places += [
                        (user, position, said.number)
                        for (position, _), said in zip(rows, batch, strict=True)
                    ]
            await connection.execute("truncate adkpg.memory_jobs")
            async with copying.bare(connection, "adkpg.memory_vectors"):
                await self._load_vectors(connection, corpus, places)
        finally:
            await connection.close()
        if max(corpus.users.values()) > _EXACT_LIMIT:
            await self._memory.index_large_scopes()
            self.search_notes["vectors"] = "from its HNSW index: more than 100,000 memories of one"
            self.ingest_note = "a worker puts the vectors of that user into its HNSW index later"

    async def _load_vectors(
        self, connection: Any, corpus: Corpus, places: Sequence[tuple[str, int, int]]
    ) -> None:
        model: ModelKey = {"model": GivenEmbedder.model, "dimensions": DIMENSIONS}
        await self._database.run.fetch(vector_statements.insert_model(**model))
        (found,) = await self._database.run.fetch(vector_statements.select_model(**model))
        model_id = found["model_id"]
        await self._database.run.fetch(
            vector_statements.activate_first_model(app_name=APP, model_id=model_id)
        )
        await copying.copy(
            connection,
            "adkpg.memory_vectors",
            "app_name user_id model_id position embedding",
            (
                (APP, user, model_id, position, HalfVector(corpus.vectors[number]))
                for user, position, number in places
            ),
        )

    async def ingest(self, user: str, batch: Sequence[Said]) -> None:
        await self._add(user, batch)

    async def search(self, user: str | None, question: str, way: Way) -> list[str]:
        assert user is not None
        memory = self._memories[way]
        found = await memory.search_memory(app_name=APP, user_id=user, query=question)
        return texts(found.memories)

    async def count(self) -> int:
        vectors = await copying.count(self._url, "adkpg.memory_vectors")
        return min(vectors, await copying.count(self._url, "adkpg.memories"))

    async def close(self) -> None:
        await self._database.close()

    async def _add(self, user: str, batch: Sequence[Said]) -> None:
        await self._memory.add_events_to_memory(
            app_name=APP, user_id=user, events=events(batch), session_id=batch[0].session_id
        )
