"""One user with very many memories: the exact answer against the HNSW index.

    python -m benchmarks.scripts.hnsw [--memories 250000] [--questions 50]

Makes clustered random vectors in a database of its own on the server of ADKPG_DATABASE_URL (else
the embedded one), asks exactly, builds the index through `index_large_scopes`, asks again, and
reports p50, recall@10 against the exact answer, and how often the index was scanned.
"""

import argparse
import asyncio
import statistics
import time
from typing import Any

import asyncpg
import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from pgvector.asyncpg import register_vector
from rich.console import Console
from rich.progress import track
from rich.table import Table

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.memory.vectors import statements as vector_statements
from adkpg.memory.vectors.statements import ModelKey
from benchmarks.server import chosen_server, own_database

DIMENSIONS = 384
CLUSTERS = 500


class Questions:
    """An embedder whose questions are numbers of prepared vectors."""

    model = "benchmark"
    dimensions = DIMENSIONS

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._vectors = vectors

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        vector: list[float] = self._vectors[int(text)].tolist()
        return vector


def clustered(count: int, centers: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    noise = random.normal(size=(count, DIMENSIONS)).astype(np.float32)
    vectors = centers[random.integers(0, CLUSTERS, count)] + 0.9 * noise
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


async def load(url: str, database: Database, vectors: NDArray[np.float32]) -> None:
    model: ModelKey = {"model": Questions.model, "dimensions": DIMENSIONS}
    await database.run.fetch(vector_statements.insert_model(**model))
    row = await database.run.fetch_one(vector_statements.select_model(**model))
    assert row is not None
    connection: Any = await asyncpg.connect(url)
    try:
        await register_vector(connection)
        await connection.execute(
            "insert into adkpg.memories (app_name, user_id, position, memory_id, kind, session_id,"
            " timestamp, content, body, length, digest)"
            " select 'benchmark', 'u', n, n, 'note', '', now(),"
            # Different texts, or they would be folded into one hit.
            " json_build_object('parts', json_build_array(json_build_object('text', n::text))),"
            " n, 1, '' from generate_series(0, $1 - 1) n",
            len(vectors),
        )
        for start in track(range(0, len(vectors), 10_000), description="vectors"):
            await connection.copy_records_to_table(
                "memory_vectors",
                schema_name="adkpg",
                columns=["app_name", "user_id", "model_id", "position", "embedding"],
                records=[
                    ("benchmark", "u", row["model_id"], start + place, HalfVector(vector))
                    for place, vector in enumerate(vectors[start : start + 10_000])
                ],
            )
        await connection.execute("vacuum analyze adkpg.memory_vectors")
        await connection.execute("vacuum analyze adkpg.memories")
    finally:
        await connection.close()


async def ask(memory: PgVectorMemoryService, count: int) -> tuple[list[set[str]], float]:
    answers, times = [], []
    for number in range(count):
        start = time.perf_counter()
        hits = await memory.search(app_name="benchmark", user_id="u", query=str(number))
        times.append((time.perf_counter() - start) * 1000)
        answers.append({hit.memory.id or "" for hit in hits})
    return answers, statistics.median(times)


async def index_scans(url: str) -> int:
    """How often the index was used."""
    connection: Any = await asyncpg.connect(url)
    try:
        scans: int = await connection.fetchval(
            "select coalesce(sum(idx_scan), 0)::int from pg_stat_user_indexes"
            " where indexrelname like 'memory_vectors_hnsw%'"
        )
        return scans
    finally:
        await connection.close()


async def measure(server_url: str, memories: int, questions: int) -> None:
    settings = Settings(exact_limit=memories // 2, migration_timeout_s=3600)
    async with own_database(server_url, "hnsw") as url:
        random = np.random.default_rng(1)
        centers = random.normal(size=(CLUSTERS, DIMENSIONS)).astype(np.float32)
        embedder = Questions(clustered(questions, centers, 2))
        async with Database(url, settings=settings) as database:
            await database.upgrade()
            await load(url, database, clustered(memories, centers, 3))
            memory = PgVectorMemoryService(database, embedder=embedder, mode="vector", top_k=10)
            exact, exact_ms = await ask(memory, questions)
            start = time.perf_counter()
            indexed = await memory.index_large_scopes()
            build_s = time.perf_counter() - start
            await ask(memory, 1)  # tells the service that the index is there
            found, index_ms = await ask(memory, questions)
            recall = statistics.mean(len(a & b) / 10 for a, b in zip(exact, found, strict=True))
        used = await index_scans(url)  # counted once the connections that used it are closed
        table = Table("answer", "p50", "recall@10")
        table.add_row("exact", f"{exact_ms:.1f} ms", "1.000")
        table.add_row("HNSW", f"{index_ms:.1f} ms", f"{recall:.3f}")
        Console().print(
            table, f"{indexed} vectors indexed in {build_s:.0f} s, {used} scans of the index"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--memories", type=int, default=250_000)
    parser.add_argument("--questions", type=int, default=50)
    arguments = parser.parse_args()
    with chosen_server() as url:
        asyncio.run(measure(url, arguments.memories, arguments.questions))


if __name__ == "__main__":
    main()
