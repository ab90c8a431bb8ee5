"""The worth of the settings that adkpg chooses: pool, commit, fillfactor, autovacuum, n_distinct.

    python -m benchmarks.scripts.tuning [--only pool,commit,fillfactor,vacuum,plan]

Each setting alongside another value of it, in turn and in blocks, on ADKPG_DATABASE_URL's server
(else the embedded one), in databases of their own. docs/performance.md explains the choices.
"""

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import numpy as np
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.genai import types
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from benchmarks.scripts.hnsw import DIMENSIONS, clustered
from benchmarks.scripts.search import APP, Prepared, load
from benchmarks.sentences import Sentences
from benchmarks.server import chosen_server, own_database

TABLES = ("memories", "memory_lexemes", "memory_vectors")
WRITERS = 32
POOLS: dict[str, dict[str, Any]] = {
    **{str(size): {"pool_size": size} for size in (1, 2, 5, 10, 20)},
    "10, 10 more under load": {"pool_size": 10, "max_overflow": 10},
    "10, first used first": {"pool_size": 10, "pool_use_lifo": False},
}
BLOCKS = 5


def event(delta: dict[str, Any] | None = None) -> Event:
    content = types.Content(role="user", parts=[types.Part(text="the quick brown fox " * 8)])
    return Event(author="user", content=content, actions=EventActions(state_delta=delta or {}))


async def session(service: DatabaseSessionService, state: dict[str, Any] | None = None) -> Session:
    return await service.create_session(app_name=APP, user_id=uuid.uuid4().hex, state=state)


async def timed(call: Callable[[], Awaitable[Any]], times: int) -> list[float]:
    """How long each of some calls took, in milliseconds."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        await call()
        took.append(1000 * (time.perf_counter() - start))
    return took


async def rate(service: DatabaseSessionService, sessions: list[Session], each: int) -> float:
    """Appends a second of writers that each have a session."""

    async def write(one: Session) -> None:
        for _ in range(each):
            await service.append_event(one, event())

    start = time.perf_counter()
    await asyncio.gather(*map(write, sessions))
    return len(sessions) * each / (time.perf_counter() - start)


async def pool(server_url: str, table: Table) -> None:
    async with own_database(server_url, "tuning") as url, AsyncExitStack() as stack:
        services = {}
        for name, options in POOLS.items():
            database = Database(url, **options)
            services[name] = DatabaseSessionService(await stack.enter_async_context(database))
            await database.upgrade()
        sessions = [await session(services["10"]) for _ in range(WRITERS)]
        many: dict[str, list[float]] = {name: [] for name in services}
        one: dict[str, list[float]] = {name: [] for name in services}
        for _ in range(BLOCKS + 1):
            for name, service in services.items():
                fresh = [
                    await service.get_session(
                        app_name=APP, user_id=each.user_id, session_id=each.id
                    )
                    for each in sessions
                ]
                live = [each for each in fresh if each]
                many[name].append(await rate(service, live, 10))
                one[name].append(await rate(service, live[:1], 50))  # with the pool they left
    for found, writers in ((many, f"{WRITERS} writers"), (one, "then 1 writer")):
        for name, rates in found.items():
            figure = f"{statistics.median(rates[1:]):,.0f} appends a second"
            table.add_row("pool_size", name, writers, figure)


async def commit(server_url: str, table: Table) -> None:
    async with own_database(server_url, "tuning") as url, AsyncExitStack() as stack:
        found: dict[tuple[str, int], list[float]] = {}
        services, sessions = {}, {}
        for value in ("on", "off"):
            arguments = {"server_settings": {"synchronous_commit": value}}
            database = Database(url, pool_size=16, connect_args=arguments)
            services[value] = DatabaseSessionService(await stack.enter_async_context(database))
            await database.upgrade()
            sessions[value] = [await session(services[value]) for _ in range(16)]
        for _ in range(BLOCKS + 1):
            for value, service in services.items():
                for writers in (1, 16):
                    rates = found.setdefault((value, writers), [])
                    rates.append(await rate(service, sessions[value][:writers], 320 // writers))
    for (value, writers), rates in found.items():
        figure = f"{statistics.median(rates[1:]):,.0f} appends a second"
        table.add_row("synchronous_commit", value, f"{writers} writers", figure)


async def fillfactor(server_url: str, table: Table) -> None:
    for value in (80, 100):
        async with own_database(server_url, "tuning") as url, Database(url) as database:
            await database.upgrade()
            await execute(url, f"ALTER TABLE adkpg.sessions SET (fillfactor = {value})")
            service = DatabaseSessionService(database)
            state = {f"key {number}": "x" * 20 for number in range(20)}
            sessions = [await session(service, state) for _ in range(200)]
            for number in range(10):
                for each in sessions:
                    await service.append_event(each, event({"key 1": number}))
            await database.close()  # what a connection counted is known once it has ended
            row = await fetch(
                url,
                "SELECT n_tup_upd, n_tup_hot_upd, pg_total_relation_size(relid) / 1024 AS kb"
                " FROM pg_stat_user_tables WHERE relname = 'sessions'",
            )
            share = row["n_tup_hot_upd"] / row["n_tup_upd"]
            figure = f"{share:.0%} of updates in place (HOT), {row['kb']:,} kB"
            table.add_row(
                "fillfactor of sessions", str(value), "200 sessions, 2,000 appends", figure
            )


async def vacuum(server_url: str, table: Table) -> None:
    async with filled(server_url, {"u": 20_000}) as (url, memory):
        off = "SET (autovacuum_enabled = off)"
        await execute(
            url,
            *(f"ALTER TABLE adkpg.{each} {off}" for each in TABLES),
            # Rows that an UPDATE writes are like new ones: not yet known to be visible.
            "UPDATE adkpg.memories SET body = body",
            "UPDATE adkpg.memory_vectors SET embedding = embedding",
            "UPDATE adkpg.memory_lexemes SET frequency = frequency",
        )
        for state in ("not yet vacuumed", "vacuumed"):
            if state == "vacuumed":
                await execute(url, *(f"VACUUM adkpg.{each}" for each in TABLES))
            took = await searches(memory, "u")
            figure = f"{statistics.median(took):.1f} ms a search"
            table.add_row("autovacuum", state, "20,000 memories", figure)


async def plan(server_url: str, table: Table) -> None:
    users = {"large": 20_000, "small": 100}
    async with filled(server_url, users) as (url, memory):
        for value in ("as set", "as counted"):
            if value == "as counted":
                reset = "ALTER user_id RESET (n_distinct)"
                await execute(
                    url,
                    *(f"ALTER TABLE adkpg.{each} {reset}" for each in TABLES),
                    *(f"ANALYZE adkpg.{each}" for each in TABLES),
                )
                await memory.database.close()  # new connections have no plans yet
            for user, size in users.items():
                took = await searches(memory, user)
                figure = f"{statistics.median(took):.1f} ms a search"
                table.add_row("n_distinct of user_id", value, f"{size:,} memories", figure)


@asynccontextmanager
async def filled(
    server_url: str, users: dict[str, int]
) -> AsyncIterator[tuple[str, PgVectorMemoryService]]:
    """A database with memories of some users, and the service that finds them."""
    centers = np.random.default_rng(0).normal(size=(500, DIMENSIONS)).astype(np.float32)
    embedder = Prepared(clustered(64, centers, 7))
    async with own_database(server_url, "tuning") as url, Database(url, pool_size=1) as database:
        await database.upgrade()
        with Progress() as progress:
            await load(database, users, centers, progress)
        yield url, PgVectorMemoryService(database, embedder=embedder)


async def searches(memory: PgVectorMemoryService, user: str) -> list[float]:
    """How long 30 searches took, in milliseconds, once the plan is settled."""
    sentences = Sentences(3)
    questions = iter([sentences.make(7) for _ in range(40)])

    async def search() -> None:
        await memory.search(app_name=APP, user_id=user, query=next(questions))

    await timed(search, 10)
    return await timed(search, 30)


async def execute(url: str, *statements: str) -> None:
    connection: Any = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def fetch(url: str, statement: str) -> Any:
    connection: Any = await asyncpg.connect(url)
    try:
        return await connection.fetchrow(statement)
    finally:
        await connection.close()


CASES = {
    "pool": pool,
    "commit": commit,
    "fillfactor": fillfactor,
    "vacuum": vacuum,
    "plan": plan,
}


async def measure(server_url: str, cases: list[str]) -> None:
    table = Table("SETTING", "VALUE", "UNDER", "GIVES")
    for case in cases:
        await CASES[case](server_url, table)
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default=",".join(CASES), help="cases, with commas between")
    arguments = parser.parse_args()
    cases = arguments.only.split(",")
    if unknown := set(cases) - CASES.keys():
        parser.error(f"no cases are named {sorted(unknown)}; there are {sorted(CASES)}")
    with chosen_server() as url:
        asyncio.run(measure(url, cases))


if __name__ == "__main__":
    main()
