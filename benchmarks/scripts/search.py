"""How long a search takes, for users of different sizes side by side in one database.

    python -m benchmarks.scripts.search [--scale 1.0] [--questions 40] [--long]

Fills a database of its own on the server of ADKPG_DATABASE_URL (else the embedded one) with about
250,000 memories of 604 users: sentences of random words, as often as words are (Zipf), and
clustered random vectors of 384 dimensions. Then it asks users of each size, without embedding the
question, and reports p50 and p95 of each mode. With --long, three users of long answers: every
second turn has 600 words, in passages.
"""

import argparse
import asyncio
import time
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import numpy as np
from google.genai import types
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from adkpg import Database, PgVectorMemoryService
from adkpg.memory import records
from adkpg.memory.attributes import Attributes
from adkpg.memory.drafts import Draft, as_json, new_draft
from adkpg.memory.search.options import Mode
from adkpg.memory.vectors import statements as vector_statements
from adkpg.memory.vectors.passages import PASSAGE_TOKENS, passages
from adkpg.memory.vectors.statements import ModelKey
from adkpg.memory.write import statements
from adkpg.memory.write.plan import new_place
from benchmarks.scripts.hnsw import DIMENSIONS, Questions, clustered
from benchmarks.sentences import Sentences
from benchmarks.server import chosen_server, own_database

USERS = {100: 560, 2_000: 40, 20_000: 3, 50_000: 1}
"""Memories of a user, and how many users have that many: 246,000 in all."""

LONG_USERS = {100: 1, 1_000: 1, 10_000: 1}
"""The same with long answers."""

APP = "benchmark"
TURNS = 20
BATCH = 1_000
START = datetime(2026, 1, 1, tzinfo=UTC)


async def load(
    database: Database,
    users: dict[str, int],
    centers: NDArray[np.float32],
    progress: Progress,
    *,
    long: bool = False,
) -> None:
    model: ModelKey = {"model": Questions.model, "dimensions": DIMENSIONS}
    await database.run.fetch(vector_statements.insert_model(**model))
    row = await database.run.fetch_one(vector_statements.select_model(**model))
    assert row is not None
    await database.run.fetch(
        vector_statements.activate_first_model(app_name=APP, model_id=row["model_id"])
    )
    sentences = Sentences(1)
    task = progress.add_task("memories", total=sum(users.values()))
    for user, size in users.items():
        for start in range(0, size, BATCH):
            count = min(BATCH, size - start)
            rows = drafts(user, start, count, sentences, long=long)
            given = statements.insert_memories(
                app_name=APP,
                user_id=user,
                memories=as_json(rows),
                config=database.settings.text_search_config,
            )
            await database.run.fetch(given)
            parts = [
                (position, draft.digest, number, part)
                for position, draft in rows
                for number, part in enumerate(
                    passages(draft.author, draft.body, PASSAGE_TOKENS) or [None]
                )
            ]
            vectors = clustered(len(parts), centers, zlib.crc32(f"{user} {start}".encode()))
            await database.run.fetch(
                vector_statements.store_vectors(
                    model_id=row["model_id"],
                    app_names=[APP] * len(parts),
                    user_ids=[user] * len(parts),
                    positions=[position for position, *_ in parts],
                    digests=[digest for _, digest, _, _ in parts],
                    passages=[number for *_, number, _ in parts],
                    starts=[part and part.start for *_, part in parts],
                    ends=[part and part.end for *_, part in parts],
                    vectors=[records.vector_text(v.tolist()) for v in vectors],
                    large=False,
                )
            )
            progress.advance(task, count)
    for table in ("memories", "memory_lexemes", "memory_vectors"):
        await database.run.execute(f'VACUUM ANALYZE "{database.schema}".{table}', timeout_s=600)


def drafts(
    user: str, start: int, count: int, sentences: Sentences, *, long: bool
) -> list[tuple[int, Draft]]:
    rows = []
    block = 0
    for place in range(count):
        if place % TURNS == 0:
            block = new_place(user)
        said = 50 if long and place % 2 else 1
        text = "\n".join(f"{sentences.make(12)}." for _ in range(said))
        draft = new_draft(
            kind="turn",
            session_id=str(block),
            event_id=f"{start + place}",
            author="user",
            timestamp=START + timedelta(minutes=start + place),
            content=types.Content(role="user", parts=[types.Part(text=text)]),
            text=text,
            given=Attributes(),
        )
        rows.append((block + place % TURNS, draft))
    return rows


async def ask(
    memory: PgVectorMemoryService, user: str, mode: Mode, questions: list[str]
) -> list[float]:
    """Returns how long each search took, in milliseconds, without the first few."""
    took = []
    for question in questions:
        start = time.perf_counter()
        await memory.search(app_name=APP, user_id=user, query=question, mode=mode)
        took.append(1000 * (time.perf_counter() - start))
    return took[8:]


class Prepared(Questions):
    """Any question has a prepared vector, so that none is embedded."""

    async def embed_query(self, text: str) -> list[float]:
        return await super().embed_query(str(zlib.crc32(text.encode()) % len(self._vectors)))


async def measure(server_url: str, scale: float, count: int, *, long: bool) -> None:
    sizes = LONG_USERS if long else USERS
    users = {
        f"{size}-{number}": size
        for size, owners in sizes.items()
        for number in range(max(1, round(owners * scale)))
    }
    centers = np.random.default_rng(0).normal(size=(500, DIMENSIONS)).astype(np.float32)
    sentences = Sentences(2)
    questions = [f"{sentences.make(7)}?" for _ in range(8 + count)]
    async with own_database(server_url, "search") as url, Database(url) as database:
        await database.upgrade()
        with Progress() as progress:
            await load(database, users, centers, progress, long=long)
        memory = PgVectorMemoryService(database, embedder=Prepared(clustered(64, centers, 7)))
        await show(memory, questions, sizes, users)
        await database.close()


async def show(
    memory: PgVectorMemoryService,
    questions: list[str],
    sizes: dict[int, int],
    users: dict[str, int],
) -> None:
    table = Table("MEMORIES OF THE USER", *(f"{mode} p50 / p95" for mode in get_args(Mode)))
    table.title = (
        f"Search without embedding, {sum(users.values()):,} memories of {len(users)} users (ms)"
    )
    for size in sizes:
        cells: list[Any] = []
        for mode in get_args(Mode):
            took = await ask(memory, f"{size}-0", mode, questions)
            cells.append(f"{np.percentile(took, 50):.1f} / {np.percentile(took, 95):.1f}")
        table.add_row(f"{size:,}", *cells)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of users")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--long", action="store_true", help="long answers, three users")
    arguments = parser.parse_args()
    with chosen_server() as url:
        asyncio.run(measure(url, arguments.scale, arguments.questions, long=arguments.long))


if __name__ == "__main__":
    main()
