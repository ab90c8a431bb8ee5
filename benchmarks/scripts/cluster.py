"""What calls cost on a Citus cluster, next to a plain server: through each kind of node.

    python -m benchmarks.scripts.cluster PROGRAMS [--blocks 10] [--only append]

PROGRAMS is the folder with ``initdb`` and ``postgres`` of a PostgreSQL that has Citus and pgvector.
Starts a coordinator and two workers of it on this machine, with default durability; the plain
server is a database of the coordinator without Citus. All users' rows are on one worker: *owner* is
a client of that one, *another* of the other. All servers and the client share this machine's cores:
calls per second compare the work that is done, not what several machines reach.
"""

import argparse
import asyncio
import itertools
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
from google.adk.events.event_actions import EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from benchmarks.scripts.compared import SAYING, TOWNS, WAYS, Scattered, said
from tests.fakes.citus import CitusServer, Cluster
from tests.fakes.citus import said as asked

APP = "bench"
CLIENTS = 8
CALLS = 20
"""Of a client in a block."""
ASKED = {"20 memories": 20, "1,000 memories": 1_000}
FAR = 1_000_000
"""More calls than a place makes."""
PLACES = ("plain", "coordinator", "another", "owner")

Call = Callable[[int], Awaitable[object]]


class Place:
    """A database as clients of one node see it.

    Args:
      url: Leads to the node.
      users: One for each client.
      first: Where it counts from, so that no place writes what another one of a database wrote.
    """

    def __init__(self, url: str, users: list[str], first: int) -> None:
        self.database = Database(url, pool_size=CLIENTS)
        self._users = users
        self._plain = DatabaseSessionService(self.database, remember=False)
        self._remembering = DatabaseSessionService(self.database, remember=True)
        self._memory = PgVectorMemoryService(self.database, embedder=Scattered())
        self._sessions: dict[tuple[str, int], Session] = {}
        self._number = itertools.count(first)
        self.calls: dict[str, Call] = {
            "create": lambda client: self._create(client),
            "append": lambda client: self._append("append", client),
            "append, user:": lambda client: self._append("user", client, "user:mood"),
            "append, app:": lambda client: self._append("app", client, "app:mood"),
            "append, remember": lambda client: self._append("remember", client),
            "update_state, user:": lambda client: self._plain.update_state(
                app_name=APP, user_id=users[client], state_delta={"user:m": next(self._number)}
            ),
            "get, 20 events": self._get,
            "ingest of 10 turns": self._ingest,
        }
        for name in ASKED:
            self.calls[f"search by words, {name}"] = self._search(name, mode="text")
            self.calls[f"search, {name}"] = self._search(name, app_wide=False)
            self.calls[f"search, {name}, and the app's"] = self._search(name)

    async def load(self, *, searched: bool) -> None:
        """Writes what is read later, once for all clients of one database."""
        asked = ASKED if searched else {}
        for user in self._users:
            held = await self._plain.create_session(app_name=APP, user_id=user, session_id="held")
            for number in range(20):
                await self._plain.append_event(held, said(number))
            for name, memories in asked.items():
                await self._memory.add_memory(
                    app_name=f"{APP} {name}", user_id=user, memories=entries(memories)
                )
        for name in asked:
            await self._memory.add_memory(
                app_name=f"{APP} {name}", user_id=None, memories=entries(20)
            )

    async def _create(self, client: int) -> object:
        return await self._plain.create_session(app_name=APP, user_id=self._users[client])

    async def _append(self, kind: str, client: int, key: str | None = None) -> object:
        service = self._remembering if kind == "remember" else self._plain
        session = self._sessions.get((kind, client))
        if session is None or len(session.events) > 200:
            session = await service.create_session(app_name=APP, user_id=self._users[client])
            self._sessions[kind, client] = session
        number = next(self._number)
        delta = {} if key is None else {key: number}
        event = said(number, actions=EventActions(state_delta=delta))
        return await service.append_event(session, event)

    async def _get(self, client: int) -> object:
        return await self._plain.get_session(
            app_name=APP,
            user_id=self._users[client],
            session_id="held",
            config=GetSessionConfig(num_recent_events=20),
        )

    async def _ingest(self, client: int) -> None:
        first = 10 * next(self._number)
        await self._memory.add_events_to_memory(
            app_name=f"{APP} ingested",
            user_id=self._users[client],
            session_id=f"s{first}",
            events=[said(number) for number in range(first, first + 10)],
        )

    def _search(self, name: str, **options: Any) -> Call:
        async def search(client: int) -> object:
            number = next(self._number)
            return await self._memory.search(
                app_name=f"{APP} {name}",
                user_id=self._users[client],
                query=f"Who travels to {TOWNS[number % len(TOWNS)]} by train?",
                **options,
            )

        return search


def entries(count: int) -> list[MemoryEntry]:
    return [
        MemoryEntry(
            content=types.Content(
                role="user",
                parts=[
                    types.Part(
                        text=SAYING.format(
                            WAYS[number % len(WAYS)], TOWNS[number // 3 % len(TOWNS)], number
                        )
                    )
                ],
            )
        )
        for number in range(count)
    ]


async def latencies_ms(call: Call) -> list[float]:
    taken = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await call(0)
        taken.append(1000 * (time.perf_counter() - began))
    return taken


async def per_second(call: Call) -> float:
    async def client(number: int) -> None:
        for _ in range(CALLS):
            await call(number)

    began = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    return CLIENTS * CALLS / (time.perf_counter() - began)


async def users_of_one_node(nodes: list[str]) -> list[str]:
    """Users whose rows are on the first worker."""
    port = int(nodes[1].rpartition(":")[2].partition("/")[0])
    rows = await asked(
        nodes[0],
        "SELECT 'user ' || n AS user_id FROM generate_series(1, 200) n"  # noqa: S608 - numbers
        " JOIN pg_dist_placement ON shardid ="
        " get_shard_id_for_distribution_column('adkpg.sessions', 'user ' || n)"
        f" JOIN pg_dist_node USING (groupid) WHERE nodeport = {port} ORDER BY n LIMIT {CLIENTS}",
    )
    return [row["user_id"] for row in rows]


@asynccontextmanager
async def plain_and_distributed(programs: Path) -> AsyncIterator[tuple[str, list[str]]]:
    """Yields the URLs of a database without Citus, and of one on each node, the coordinator first.

    Both have their tables; the servers end with it.
    """
    cluster = Cluster(programs, durable=True)
    try:
        await cluster.start()
        server = CitusServer(cluster.url)
        plain, distributed = [await server.create() for _ in range(2)]
        await server.join(distributed)
        nodes = await server.nodes_of(distributed)
        for url in (server.url_of(plain), nodes[0]):
            async with Database(url) as database:
                await database.upgrade()
                if url == nodes[0]:
                    await database.distribute()
        yield server.url_of(plain), nodes
    finally:
        cluster.stop()


async def measure(programs: Path, blocks: int, only: str) -> None:
    async with plain_and_distributed(programs) as (plain, nodes):
        users = await users_of_one_node(nodes)
        urls = {
            "plain": plain,
            "coordinator": nodes[0],
            "another": nodes[2],
            "owner": nodes[1],
        }
        places = {name: Place(urls[name], users, at * FAR) for at, name in enumerate(PLACES)}
        kinds = [kind for kind in places["plain"].calls if only in kind]
        for name in ("plain", "coordinator"):
            await places[name].load(searched=any("search" in kind for kind in kinds))
            connection = await asyncpg.connect(urls[name])
            await connection.execute("VACUUM ANALYZE")
            await connection.close()
        for kind in kinds:
            took: dict[str, list[float]] = {name: [] for name in PLACES}
            rates: dict[str, list[float]] = {name: [] for name in PLACES}
            for number in range(blocks + 1):  # the first warms up
                for name in PLACES if number % 2 else PLACES[::-1]:
                    call = places[name].calls[kind]
                    found, rate = await latencies_ms(call), await per_second(call)
                    if number:
                        took[name] += found
                        rates[name].append(rate)
            print(line(kind, took, rates), flush=True)
        for place in places.values():
            await place.database.close()


def line(kind: str, took: dict[str, list[float]], rates: dict[str, list[float]]) -> str:
    """A row of a table in Markdown: p50, over that of the plain server, and calls a second."""
    middle = {name: statistics.median(each) for name, each in took.items()}
    cells = [
        f"{p50:.2f} = {p50 / middle['plain']:.1f}x ({statistics.median(rates[name]):,.0f})"
        for name, p50 in middle.items()
    ]
    return f"| {kind} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("programs", type=Path, help="of PostgreSQL with Citus and pgvector")
    parser.add_argument("--blocks", type=int, default=10, help="of 20 calls of a client each")
    parser.add_argument("--only", default="", help="calls whose name has this")
    arguments = parser.parse_args()
    print(f"| p50 in ms = over plain (calls a second of 8) | {' | '.join(PLACES)} |", flush=True)
    asyncio.run(measure(arguments.programs, arguments.blocks, arguments.only))


if __name__ == "__main__":
    main()
