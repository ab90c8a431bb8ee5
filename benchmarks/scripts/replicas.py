"""What a standby that answers reads costs and gives, and how often the primary answers instead.

    python -m benchmarks.scripts.replicas [--seconds 4]

Starts a primary and a standby of the embedded binaries on this machine. Both and the client share
its cores: throughput compares the work that is done, not what two machines reach.
"""

import argparse
import asyncio
import random
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.telemetry import calls
from tests.fakes.replication import replicated

APP = "bench"
USERS, EVENTS, MEMORIES = 40, 20, 50
CLIENTS, WRITERS = 8, 4
BLOCKS = 10
Call = Callable[[int], Awaitable[object]]


def said(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


async def fill(url: str) -> None:
    async with Database(url) as database:
        await database.upgrade()
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, embedder=None, mode="text")
        for user in range(USERS):
            live = await sessions.create_session(app_name=APP, user_id=f"u{user}", session_id="s")
            for number in range(EVENTS):
                await sessions.append_event(live, Event(author="user", content=said(f"{number}")))
            entries = [
                MemoryEntry(content=said(f"I like plum {random.randrange(10**6)} in {number}"))
                for number in range(MEMORIES)
            ]
            await memory.add_memory(app_name=APP, user_id=f"u{user}", memories=entries)


async def latency_ms(call: Call, seconds: float) -> float:
    taken, ends = [], time.perf_counter() + seconds
    while time.perf_counter() < ends:
        began = time.perf_counter()
        await call(random.randrange(USERS))
        taken.append(time.perf_counter() - began)
    return 1000 * statistics.median(taken)


async def per_second(call: Call, seconds: float) -> float:
    ends, done = time.perf_counter() + seconds, 0

    async def client() -> None:
        nonlocal done
        while time.perf_counter() < ends:
            await call(random.randrange(USERS))
            done += 1

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return done / seconds


async def write(database: Database, ended: asyncio.Event) -> None:
    sessions = DatabaseSessionService(database)
    live = await sessions.create_session(app_name="load", user_id=f"w{random.random()}")
    while not ended.is_set():
        await sessions.append_event(live, Event(author="user", content=said("load")))
        await asyncio.sleep(0.005)


async def older(database: Database, delay_s: float, rounds: int) -> tuple[int, float]:
    """Returns how many reads so long after an append were too old, and their p50 in ms."""
    sessions = DatabaseSessionService(database)
    place: dict[str, Any] = {"app_name": APP, "user_id": "u0"}
    live = await sessions.create_session(**place)
    await asyncio.sleep(0.1)
    before, taken = FALLBACKS["behind"], []
    for _ in range(rounds):
        await sessions.append_event(live, Event(author="user", content=said("x")))
        await asyncio.sleep(delay_s)
        began = time.perf_counter()
        await sessions.get_session(**place, session_id=live.id)
        taken.append(time.perf_counter() - began)
    return FALLBACKS["behind"] - before, 1000 * statistics.median(taken)


FALLBACKS: Counter[str] = Counter()


def count(reason: str) -> None:
    FALLBACKS[reason] += 1


async def main(seconds: float) -> None:
    calls.fell_back = count
    async with replicated(synchronous=False) as pair:
        await fill(pair.primary.url)
        await pair.standby.caught_up(pair.primary)
        alone = Database(pair.primary.url)
        read = Database(pair.primary.url, read_url=pair.standby.url)
        databases = {"primary alone": alone, "with a standby": read}
        sessions = {name: DatabaseSessionService(each) for name, each in databases.items()}
        memories = {
            name: PgVectorMemoryService(each, embedder=None, mode="text")
            for name, each in databases.items()
        }

        def get(name: str) -> Call:
            return lambda user: sessions[name].get_session(
                app_name=APP, user_id=f"u{user}", session_id="s"
            )

        def search(name: str) -> Call:
            return lambda user: memories[name].search(
                app_name=APP, user_id=f"u{user}", query="plum in 7"
            )

        for what, made in (("get", get), ("search", search)):
            for writers_count in (0, WRITERS):
                ended = asyncio.Event()
                writers = [asyncio.create_task(write(alone, ended)) for _ in range(writers_count)]
                found: dict[str, list[tuple[float, float]]] = {name: [] for name in databases}
                for name in databases:
                    await per_second(made(name), 0.5)
                FALLBACKS.clear()
                for _ in range(BLOCKS):  # in turn: the machine is not alike at all times
                    for name in databases:
                        block_s = seconds / BLOCKS
                        p50 = await latency_ms(made(name), block_s)
                        found[name].append((p50, await per_second(made(name), block_s)))
                ended.set()
                await asyncio.gather(*writers)
                for name, blocks in found.items():
                    p50, rate = (statistics.median(each) for each in zip(*blocks, strict=True))
                    print(
                        f"{what}, {writers_count} writers, {name}: p50 {p50:.2f} ms,"
                        f" {rate:,.0f}/s with {CLIENTS} clients",
                        flush=True,
                    )
                print(f"  fallbacks {dict(FALLBACKS)}", flush=True)
        for writers_count in (0, WRITERS):
            ended = asyncio.Event()
            writers = [asyncio.create_task(write(alone, ended)) for _ in range(writers_count)]
            for delay_ms in (0, 5, 20, 50, 200):
                behind, p50 = await older(read, delay_ms / 1000, 60)
                when = f"{writers_count} writers, {delay_ms} ms after"
                print(f"{when}: {behind} of 60 too old, {p50:.2f} ms", flush=True)
            ended.set()
            await asyncio.gather(*writers)
        await read.close()
        await alone.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    asyncio.run(main(parser.parse_args().seconds))
