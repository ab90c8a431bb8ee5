"""What each call costs as a database grows, and how many bytes a memory takes.

    python -m benchmarks.scripts.scale [--memories 100000,1000000,3000000] [--quick] [--remove]

Fills a database of its own (`bulk`) on the server of ADKPG_DATABASE_URL, else on the embedded one,
and measures at each size, saying each figure as it comes. A run that is stopped goes on where it
was, without the sizes that it has measured: the database stays until the last one is, or --remove.
The figures go to docs/scale.json; `scale_page` writes the page and the plot from it. Some 7 kB of
disk per memory; 8 GB are left free.
"""

import argparse
import asyncio
import json
import random
import shutil
import statistics
import time
import zlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types
from rich.console import Console
from rich.progress import Progress

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings, Users
from adkpg.erasure import prune, tidy
from adkpg.tooling import operations
from benchmarks.scripts import bulk
from benchmarks.scripts.hnsw import DIMENSIONS
from benchmarks.sentences import Sentences
from benchmarks.server import chosen_server

DATABASE = "adkpg_scale"
DOCS = Path(__file__).parents[2] / "docs"
FREE_BYTES = 8 * 10**9
BYTES_PER_MEMORY = 6_900


class Directions:
    """An embedder whose vectors cost nothing: one of some prepared ones for each text."""

    model = bulk.MODEL
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self._vectors = [each.tolist() for each in bulk.vectors(256, 2)]

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        vector: list[float] = self._vectors[zlib.crc32(text.encode()) % len(self._vectors)]
        return vector


def said(text: str) -> Event:
    return Event(
        author="user",
        invocation_id="benchmark",
        content=types.Content(role="user", parts=[types.Part(text=text)]),
    )


class Run:
    """The calls, on a filled database.

    Args:
      database: Which.
      connection: For what is no call of adkpg's.
      memories: How many it has.
      quick: Fewer calls of each kind.
    """

    def __init__(
        self, database: Database, connection: Any, memories: int, *, quick: bool = False
    ) -> None:
        self._database = database
        self._connection = connection
        self._groups = memories // bulk.GROUP
        self._times = 5 if quick else 30
        self._random = random.Random(memories)
        self._sentences = Sentences(memories)
        self._sessions = DatabaseSessionService(database)
        self._memory = PgVectorMemoryService(database, embedder=Directions())
        self._written: list[Session] = []
        self.wal: dict[str, float] = {}
        self._remembered = self._append(DatabaseSessionService(database, remember=True))

    async def measure(self) -> dict[str, list[float]]:
        """Milliseconds of each call, by what was called, in the order they were made.

        Leaves in `wal` how many bytes of WAL some of them wrote.
        """
        users = [await self._large_user() for _ in range(self._times)]
        found: dict[str, list[float]] = Told()
        for name, call in (
            ("append", self._append(self._sessions)),
            ("append that remembers", self._remembered),
            ("get of 20 events", self._get()),
        ):
            await call(users[0])
            before = await self._wal()
            found[name] = [await timed(call, user) for user in users * 3]
            self.wal[name] = (await self._wal() - before) / len(users * 3)
        for mode in ("hybrid", "vector"):
            await self._search(mode)(users[0])
            search = self._search(mode)
            found[f"{mode} search, first of a user"] = [await timed(search, user) for user in users]
            found[f"{mode} search"] = [await timed(search, user) for user in users * 2]
        found["ingest of 20 turns"] = [await timed(self._ingest, user) for user in users]
        await self._work()
        for user in users * 10:
            await self._remembered(user)
        before = await self._wal()
        found["worker: 10 memories of 30 users"] = [await timed(self._work)]
        self.wal["worker, each memory"] = (await self._wal() - before) / len(users * 10)
        for name, listing in self._listings(users[0]).items():
            found[name] = [await timed(listing) for _ in range(6)][1:]
        for name, chore in self._chores().items():
            found[name] = [await timed(chore) for _ in range(2)][1:]
        await self._expire()
        expired = self._chores()["prune of what has expired"]
        found["prune of what was written here, expired"] = [await timed(expired)]
        await self._remove()
        for table in ("memories", "memory_lexemes", "memory_vectors"):
            name = f"VACUUM of {table} after these writes"
            vacuum = f'vacuum "{self._database.schema}".{table}'
            found[name] = [await timed(self._connection.execute, vacuum)]
        return found

    async def _wal(self) -> int:
        written: int = await self._connection.fetchval(
            "select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"
        )
        return written

    async def _large_user(self) -> str:
        group = self._random.randrange(self._groups)
        user: str = await self._connection.fetchval(f"select {bulk.large_user(group)}")
        return user

    def _append(self, service: DatabaseSessionService) -> Callable[[str], Awaitable[Any]]:
        live: dict[str, Session] = {}

        async def append(user: str) -> None:
            if user not in live:
                live[user] = await service.create_session(app_name=bulk.APP, user_id=user)
                self._written.append(live[user])
            await service.append_event(live[user], said(self._sentences.make(12)))

        return append

    def _get(self) -> Callable[[str], Awaitable[Any]]:
        async def get(user: str) -> None:
            rows = await self._sessions.list_sessions_page(
                app_name=bulk.APP, user_id=user, limit=50
            )
            chosen = self._random.choice([s for s in rows.items if s not in self._written])
            started.append(time.perf_counter())
            await self._sessions.get_session(app_name=bulk.APP, user_id=user, session_id=chosen.id)

        return get

    def _search(self, mode: Any) -> Callable[[str], Awaitable[Any]]:
        async def search(user: str) -> None:
            question = f"{self._sentences.make(7)}?"
            await self._memory.search(app_name=bulk.APP, user_id=user, query=question, mode=mode)

        return search

    async def _ingest(self, user: str) -> None:
        session = await self._sessions.create_session(app_name=bulk.APP, user_id=user)
        self._written.append(session)
        events = [said(self._sentences.make(12)) for _ in range(20)]
        started.append(time.perf_counter())
        await self._memory.add_events_to_memory(
            app_name=bulk.APP, user_id=user, session_id=session.id, events=events
        )

    async def _work(self) -> None:
        while await self._memory.embed_pending(app_name=bulk.APP):
            pass

    def _listings(self, user: str) -> dict[str, Callable[[], Awaitable[Any]]]:
        database, sessions, app = self._database, self._sessions, bulk.APP
        return {
            "page of an app's users": lambda: operations.list_users(database, app_name=app),
            "page of users whose id has a part": lambda: operations.list_users(
                database, app_name=app, part="abc"
            ),
            "page of a user's sessions": lambda: sessions.list_sessions_page(
                app_name=app, user_id=user
            ),
            "page of an app's sessions": lambda: sessions.list_sessions_page(app_name=app),
            "page of a user's memories": lambda: self._memory.list_memories(
                app_name=app, user_id=user
            ),
            "count of a user's memories": lambda: self._memory.count_memories(
                app_name=app, user_id=user
            ),
        }

    def _chores(self) -> dict[str, Callable[[], Awaitable[Any]]]:
        database = self._database
        old = timedelta(days=36_500)
        everybody: dict[str, Any] = {"app_name": None, "user_id": Users.ALL}
        return {
            "prune of what has expired": lambda: prune(database, **everybody),
            "prune of one user by age": lambda: prune(
                database, app_name=bulk.APP, user_id="nobody", older_than=old
            ),
            "prune of all by age": lambda: prune(database, **everybody, older_than=old),
            "tidying": lambda: tidy(database),
            "idle round of a worker": lambda: self._memory.embed_pending(),
            "gauges of the queue": lambda: operations.report(database),
            "stats --exact": lambda: operations.statistics(database),
            "doctor": lambda: operations.examine(database),
        }

    async def _expire(self) -> None:
        """Has all memories expire that were written: of 30 users 990."""
        table = f'"{self._database.schema}".memories'
        await self._connection.execute(
            f"update {table} set expires_at = now() where app_name = $1 and session_id = any($2)",  # noqa: S608
            bulk.APP,
            [each.id for each in self._written],
        )

    async def _remove(self) -> None:
        """Deletes what was written, so that the next size has its own memories alone."""
        schema = self._database.schema
        for session in self._written:
            await self._sessions.delete_session(
                app_name=bulk.APP, user_id=session.user_id, session_id=session.id
            )
        delete = f'delete from "{schema}".memories where app_name = $1 and session_id = any($2)'  # noqa: S608
        await self._connection.execute(delete, bulk.APP, [each.id for each in self._written])


class Told(dict[str, list[float]]):
    """Says each figure when it is there."""

    def __setitem__(self, name: str, times: list[float]) -> None:
        super().__setitem__(name, times)
        print(f"  {name}: {figure(statistics.median(times))} ms", flush=True)


started: list[float] = []
"""When what is measured began, if the call had something to prepare."""


async def timed(call: Callable[..., Awaitable[Any]], *arguments: Any) -> float:
    """How long a call took, in milliseconds."""
    started.clear()
    begun = time.perf_counter()
    await call(*arguments)
    return 1000 * (time.perf_counter() - (started[0] if started else begun))


async def sizes(connection: Any, schema: str, memories: int) -> dict[str, float]:
    """Bytes per memory of each table and index; of what is toasted, too."""
    rows = await connection.fetch(
        "select relname as name, (case when relkind = 'r' then pg_table_size(oid)"
        " else pg_relation_size(oid) end) as bytes from pg_class"
        " where relnamespace = $1::regnamespace and relkind in ('r', 'i')",
        f'"{schema}"',
    )
    found = {row["name"]: row["bytes"] / memories for row in rows}
    return {name: size for name, size in sorted(found.items()) if size >= 1}


async def measure(
    server_url: str,
    targets: list[int],
    *,
    quick: bool,
    save: Callable[[int, dict[str, Any]], object],
) -> None:
    admin: Any = await asyncpg.connect(server_url)
    try:
        if not await admin.fetchval("select 1 from pg_database where datname = $1", DATABASE):
            await admin.execute(f'create database "{DATABASE}"')
        folder = Path(await admin.fetchval("select current_setting('data_directory')"))
    finally:
        await admin.close()
    url = address(server_url)
    settings = Settings(migration_timeout_s=3_600)
    async with Database(url, settings=settings) as database:
        await database.upgrade()
        for memories in targets:
            connection: Any = await asyncpg.connect(url)
            try:
                require_room(folder, memories - await stored(connection))
                if await is_measured(connection, memories):
                    print(f"{memories:,} memories: measured before this run was stopped")
                    continue
                began = time.perf_counter()
                await fill(database, url, memories)
                loaded_s = time.perf_counter() - began
                for table in ("sessions", "events", *TABLES):
                    await connection.execute(f'vacuum (analyze) "{database.schema}".{table}')
                count = await stored(connection)
                bytes_each = await sizes(connection, database.schema, count)
                run = Run(database, connection, count, quick=quick)
                took = await run.measure()
                figures = {
                    "stored": count,
                    "loaded_s": round(loaded_s, 1),
                    "bytes": {name: round(size, 1) for name, size in bytes_each.items()},
                    "wal": {name: round(each) for name, each in run.wal.items()},
                    "ms": {name: summary(times) for name, times in took.items()},
                }
                save(memories, figures)
                await connection.execute("insert into bulk.measured values ($1)", memories)
            finally:
                await connection.close()


async def stored(connection: Any) -> int:
    """How many memories a run, this or one that was stopped, has filled in."""
    if await connection.fetchval("select to_regclass('bulk.done')") is None:
        return 0
    batches: int = await connection.fetchval("select count(*) from bulk.done")
    return batches * bulk.GROUP * bulk.GROUPS_AT_ONCE


async def is_measured(connection: Any, memories: int) -> bool:
    """Whether this database has been measured at a size; it is no longer of that size then."""
    await connection.execute("create schema if not exists bulk")
    await connection.execute("create table if not exists bulk.measured (memories int primary key)")
    asked = "select exists (select from bulk.measured where memories >= $1)"
    measured: bool = await connection.fetchval(asked, memories)
    return measured


async def fill(database: Database, url: str, memories: int) -> None:
    with Progress() as progress:
        task = progress.add_task(f"{memories:,} memories", total=memories)
        await bulk.fill(
            database, url, memories, written=lambda count: progress.advance(task, count)
        )


TABLES = ("memories", "memory_lexemes", "memory_vectors")


def summary(times: list[float]) -> dict[str, float]:
    return {
        "p50": round(statistics.median(times), 2),
        "least": round(min(times), 2),
        "most": round(max(times), 2),
    }


def require_room(folder: Path, more: int) -> None:
    """Ends the run where more memories would fill the disk of a server on this machine."""
    if folder.exists():
        free, needed = shutil.disk_usage(folder).free, more * BYTES_PER_MEMORY
        if free - needed < FREE_BYTES:
            raise SystemExit(
                f"{more:,} memories more need {needed / 1e9:.0f} GB, and {FREE_BYTES / 1e9:.0f} GB"
                f" are to stay free; {folder} has {free / 1e9:.0f} GB."
            )


def address(server_url: str) -> str:
    """The address of the database on a server."""
    place, _, query = server_url.partition("?")
    return f"{place.rsplit('/', 1)[0]}/{DATABASE}" + (f"?{query}" if query else "")


def tables(report: dict[str, Any]) -> str:
    """The figures as Markdown: the times of all sizes, and the bytes of the largest."""
    columns = sorted(report, key=int)
    head = " | ".join(f"{int(column):,}" for column in columns)
    lines = [f"| p50 in ms | {head} |", "|---" + "|---:" * len(columns) + "|"]
    for name in dict.fromkeys(name for column in columns for name in report[column]["ms"]):
        found = [report[column]["ms"].get(name) for column in columns]
        cells = [figure(each["p50"]) if each else "" for each in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    sizes = report[columns[-1]]["bytes"]
    lines += ["", f"| of {int(columns[-1]):,} memories | bytes each |", "|---|---:|"]
    lines += [f"| {name} | {size:,.0f} |" for name, size in sizes.items()]
    return "\n".join([*lines, f"| **all** | **{sum(sizes.values()):,.0f}** |"])


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


async def remove(server_url: str) -> None:
    admin: Any = await asyncpg.connect(server_url)
    try:
        await admin.execute(f'drop database if exists "{DATABASE}" with (force)')
    finally:
        await admin.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--memories", default="100000,1000000,3000000", help="sizes, by comma")
    parser.add_argument("--quick", action="store_true", help="few calls of each kind")
    parser.add_argument("--keep", action="store_true", help="leave the database for another run")
    parser.add_argument("--remove", action="store_true", help="drop what a stopped run left")
    parser.add_argument("--out", type=Path, default=DOCS / "scale.json")
    arguments = parser.parse_args()
    targets = sorted(int(float(each)) for each in arguments.memories.split(","))
    out: Path = arguments.out
    report: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}

    def save(memories: int, figures: dict[str, Any]) -> None:
        report[str(memories)] = figures
        out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    with chosen_server() as url:
        if arguments.remove:
            asyncio.run(remove(url))
            return
        asyncio.run(measure(url, targets, quick=arguments.quick, save=save))
        if not arguments.keep:
            asyncio.run(remove(url))
    Console().print(tables(report))


if __name__ == "__main__":
    main()
