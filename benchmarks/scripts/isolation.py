"""What row-level security costs: the same calls with policies and without, side by side.

    python -m benchmarks.scripts.isolation [--rounds 40]

Fills a database of its own on the server of ADKPG_DATABASE_URL (else the embedded one) with the
memories of 63 users, of whom one has 40,000 and two 4,000, as `benchmarks.scripts.search` does, and
copies it. The copy gets policies. Roles that may serve then append, get and search in both in turn;
the server's administrator must be able to make roles.
"""

import argparse
import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import numpy as np
from google.adk.events.event import Event
from google.genai import types
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sqlalchemy.engine import make_url

import adkpg
from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.database.grants import script
from benchmarks.scripts.hnsw import DIMENSIONS, clustered
from benchmarks.scripts.search import APP, Prepared, load
from benchmarks.sentences import Sentences
from benchmarks.server import chosen_server, own_database

USERS = {**{f"small {n}": 100 for n in range(60)}, "4,000": 4_000, "other": 4_000, "40,000": 40_000}
GUARDED = Settings(row_level_security=True)
UNCOUNTED = 8

Call = Callable[[int], Awaitable[object]]


@asynccontextmanager
async def two_databases(server_url: str) -> AsyncIterator[tuple[str, str]]:
    """Yields the URLs of two equal databases, in a serving role's name; the second has policies."""
    role = f"bench_{uuid.uuid4().hex[:8]}"
    centers = np.random.default_rng(0).normal(size=(500, DIMENSIONS)).astype(np.float32)
    async with own_database(server_url, "isolation") as url:
        async with Database(url) as database:
            await database.upgrade()
            with Progress() as progress:
                await load(database, USERS, centers, progress)
        admin: Any = await asyncpg.connect(server_url)
        source = make_url(url).database
        copy = f"{source}_guarded"
        try:
            await admin.execute(f"create role {role} login password '{role}'")
            await admin.execute(f'create database "{copy}" template "{source}" strategy file_copy')
            guarded = make_url(url).set(database=copy).render_as_string(hide_password=False)
            async with Database(guarded, settings=GUARDED) as database:
                await database.upgrade()
            for each in (url, guarded):
                await granted(each, role)
            yield as_role(url, role), as_role(guarded, role)
        finally:
            await admin.execute(f'drop database if exists "{copy}" with (force)')
            owned: Any = await asyncpg.connect(url)
            await owned.execute(f"drop owned by {role}")
            await owned.close()
            await admin.execute(f"drop role {role}")
            await admin.close()


async def granted(url: str, role: str) -> None:
    connection: Any = await asyncpg.connect(url)
    await connection.execute(script("adkpg", "serve", role))
    await connection.execute("vacuum analyze")
    await connection.close()


def as_role(url: str, role: str) -> str:
    named = make_url(url).set(username=role, password=role)
    return named.render_as_string(hide_password=False)


async def measure(server_url: str, rounds: int) -> None:
    async with (
        two_databases(server_url) as (plain_url, guarded_url),
        Database(plain_url) as plain,
        Database(guarded_url, settings=GUARDED) as guarded,
    ):
        table = Table("CALL", "WITHOUT (ms)", "WITH (ms)", "RATIO")
        table.title = "Row-level security: median, and the fastest in brackets"
        pairs = zip((await calls(plain)).items(), (await calls(guarded)).items(), strict=True)
        for ((user, name), without), (_, with_policies) in pairs:
            took: tuple[list[float], list[float]] = ([], [])
            with adkpg.scope(app_name=APP, user_id=user):
                for number in range(UNCOUNTED + rounds):
                    for call, times in zip((without, with_policies), took, strict=True):
                        start = time.perf_counter()
                        await call(number)
                        times.append(1000 * (time.perf_counter() - start))
            cells = [times[UNCOUNTED:] for times in took]
            middle = [float(np.median(each)) for each in cells]
            table.add_row(
                f"{name}, user of {user}",
                *(f"{m:.2f} ({min(each):.2f})" for m, each in zip(middle, cells, strict=True)),
                f"{middle[1] / middle[0]:.2f} ({min(cells[1]) / min(cells[0]):.2f})",
            )
        Console(width=100).print(table)


async def calls(database: Database) -> dict[tuple[str, str], Call]:
    """What is measured, by user and name."""
    centers = np.random.default_rng(0).normal(size=(500, DIMENSIONS)).astype(np.float32)
    memory = PgVectorMemoryService(database, embedder=Prepared(clustered(64, centers, 7)))
    sentences = Sentences(2)
    questions = [f"{sentences.make(7)}?" for _ in range(64)]
    found: dict[tuple[str, str], Call] = {}
    for user in ("small 0", "4,000", "40,000"):
        for mode in ("text", "vector", "hybrid"):

            def search(number: int, user: str = user, mode: Any = mode) -> Awaitable[object]:
                query = questions[number % len(questions)]
                return memory.search(app_name=APP, user_id=user, query=query, mode=mode)

            found[user, f"search ({mode})"] = search
    scope: dict[str, Any] = {"app_name": APP, "user_id": "small 0"}
    for name, remember in (("append", False), ("append that remembers", True)):
        sessions = DatabaseSessionService(database, remember=remember)
        with adkpg.scope(**scope):
            live = await sessions.create_session(**scope)

        def append(_: int, sessions: Any = sessions, live: Any = live) -> Awaitable[object]:
            event = Event(author="user", content=content("a sentence that is said"))
            return sessions.append_event(live, event)  # type: ignore[no-any-return] # sessions is bound late

        found["small 0", name] = append
    reading = DatabaseSessionService(database)
    with adkpg.scope(**scope):
        session = await reading.create_session(**scope, session_id="read")
        for number in range(100):
            await reading.append_event(
                session, Event(author="user", content=content(f"sentence {number}"))
            )
    found["small 0", "get of 100 events"] = lambda _: reading.get_session(
        **scope, session_id="read"
    )
    return found


def content(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    with chosen_server() as url:
        asyncio.run(measure(url, arguments.rounds))


if __name__ == "__main__":
    main()
