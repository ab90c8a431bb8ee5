"""An embedder that hangs, is out of quota, or blocks: what searches, ingests and a stop cost.

    python -m benchmarks.scripts.hanging [--searches 200]

On the server of ADKPG_DATABASE_URL (else the embedded one), in a database of its own, with the
default deadlines. Each kind of embedder is asked by searches one after the other, every one another
question, then by two ingests; then a worker is stopped in the middle of a batch.
"""

import argparse
import asyncio
import logging
import threading
import time
from collections.abc import Awaitable
from typing import Any

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from rich.console import Console
from rich.table import Table

from adkpg import Database, PgVectorMemoryService
from adkpg.embedding import CallableEmbedder, Embedder
from benchmarks.server import chosen_server, own_database

USER: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
PAUSE_S = 0.05  # between two searches, so that the embedder's pauses pass, too


class Refused(Exception):
    """What an SDK raises that was told to wait."""

    status_code = 429


async def hangs(_texts: list[str]) -> list[list[float]]:
    await asyncio.Event().wait()
    return []


async def out_of_quota(_texts: list[str]) -> list[list[float]]:
    raise Refused


def blocks(_texts: list[str]) -> list[list[float]]:
    threading.Event().wait()
    return []


def embedders() -> dict[str, Embedder]:
    functions: dict[str, Any] = {
        "hangs": hangs,
        "answers 429 for ever": out_of_quota,
        "blocks its thread": blocks,
    }
    return {
        name: CallableEmbedder(function, model="m", dimensions=8)
        for name, function in functions.items()
    }


async def timed(call: Awaitable[object]) -> float:
    """Returns how long a call took, in seconds."""
    start = time.perf_counter()
    await call
    return time.perf_counter() - start


async def measure(server_url: str, searches: int) -> None:
    table = Table("embedder", "searches", "longest", "over 0.1 s", "ingest", "next", "stop")
    async with own_database(server_url, "hanging") as url:
        for name, embedder in embedders().items():
            async with Database(url) as database:
                await database.upgrade()
                memory = PgVectorMemoryService(database, embedder=embedder)
                words = PgVectorMemoryService(database, mode="text")
                content = types.Content(parts=[types.Part(text="The bike is in the shed.")])
                note = MemoryEntry(content=content)
                await words.add_memory(**USER, memories=[note])
                took = []
                for number in range(searches):
                    query = f"Where is bike {number}?"
                    took.append(await timed(memory.search_memory(**USER, query=query)))
                    await asyncio.sleep(PAUSE_S)
                ingests = [await timed(memory.add_memory(**USER, memories=[note])) for _ in "ab"]
            async with Database(url) as database:  # to which the embedder is not away yet
                memory = PgVectorMemoryService(database, embedder=embedder)
                stop = asyncio.Event()
                worker = asyncio.create_task(memory.run_worker(stop))
                await asyncio.sleep(1)
                stop.set()
                stopped = await timed(worker)
            table.add_row(
                name,
                str(searches),
                f"{max(took):.2f} s",
                str(sum(each > 0.1 for each in took)),
                *(f"{each:.2f} s" for each in (*ingests, stopped)),
            )
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=200)
    arguments = parser.parse_args()
    logging.getLogger("adkpg").setLevel(logging.ERROR)
    with chosen_server() as url:
        asyncio.run(measure(url, arguments.searches))


if __name__ == "__main__":
    main()
