"""Texts per second and core: what the offline embedder makes of short, long and mixed ones.

    python -m benchmarks.scripts.ingest [--texts 300]

Embedding alone, in calls of ADKPG_EMBEDDING_BATCH_SIZE texts, each of which goes to the model in
batches of like lengths, and the same texts in calls of eight; and ingesting them, which also cuts,
finds words and stores, on ADKPG_DATABASE_URL's server (else the embedded one), in a database of its
own. A second is one of this process's CPU time, on one thread, so other work on the machine counts
little; the server's time is not in it.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Sequence

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from rich.console import Console
from rich.table import Table

from adkpg import PgVectorMemoryService, Settings
from adkpg.embedding import LocalEmbedder
from adkpg.memory.vectors.passages import passages
from benchmarks.sentences import Sentences
from benchmarks.server import chosen_server, own_database

TURN, ANSWER = 125, 3_700
"""Characters of a turn, and of an assistant's answer."""

SMALL_CALL = 8


def sentences(characters: int, number: int, made: Sentences) -> str:
    """Returns sentences of about so many characters, unlike any others."""
    text = f"number {number}"
    while len(text) < characters:
        text += f". {made.make(12)}"
    return f"{text[:characters]}."


async def seconds(work: Awaitable[object]) -> float:
    """Awaits something; returns the CPU time that it took in this process."""
    start = time.process_time()
    await work
    return time.process_time() - start


async def embed(embedder: LocalEmbedder, texts: Sequence[str], size: int) -> None:
    for start in range(0, len(texts), size):
        await embedder.embed_documents(list(texts[start : start + size]))


async def measure(server_url: str, count: int) -> None:
    made = Sentences(1)
    turns = [sentences(TURN, number, made) for number in range(count)]
    answers = [sentences(ANSWER, number, made) for number in range(count // 20)]
    mixed = [sentences(30 + 90 * (number % 8), number, made) for number in range(count // 2)]
    embedder = LocalEmbedder(threads=1, cache_size=0)
    await embedder.warm()
    size = Settings().embedding_batch_size
    table = Table(
        "TEXTS", "VECTORS OF ONE", "EMBEDDED A SECOND", "IN CALLS OF EIGHT", "INGESTED A SECOND"
    )
    async with (
        own_database(server_url, "ingest") as url,
        PgVectorMemoryService(url, embedder=embedder) as memory,
    ):
        await memory.database.upgrade()
        kinds = {
            f"turns of {TURN} characters": turns,
            f"answers of {ANSWER:,} characters": answers,
            "turns of 30 to 660 characters": mixed,
        }
        for name, texts in kinds.items():
            cut = [passages(None, text, embedder.window) for text in texts]
            parts = [
                part
                for text, each in zip(texts, cut, strict=True)
                for part in [part.text for part in each] or [text]
            ]
            entries = [
                MemoryEntry(content=types.Content(parts=[types.Part(text=text)])) for text in texts
            ]
            whole = await seconds(embed(embedder, parts, size))
            eights = await seconds(embed(embedder, parts, SMALL_CALL))
            ingest = await seconds(
                memory.add_memory(app_name="benchmark", user_id=name, memories=entries)
            )
            table.add_row(
                name,
                f"{len(parts) / len(texts):.1f}",
                *(f"{len(texts) / took:.1f}" for took in (whole, eights, ingest)),
            )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--texts", type=int, default=300)
    arguments = parser.parse_args()
    with chosen_server() as url:
        asyncio.run(measure(url, arguments.texts))


if __name__ == "__main__":
    main()
