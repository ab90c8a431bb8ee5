"""What calls take that ask all nodes of a Citus cluster, next to a plain server.

    python -m benchmarks.scripts.all_nodes PROGRAMS [--calls 10] [--only sessions]

PROGRAMS is as for benchmarks.scripts.cluster, whose servers these are, too: a coordinator, two
workers and a database without Citus. Each has an app of 500 users, who have two sessions of ten
events each, all of them remembered and embedded. The client is connected to the coordinator; a call
takes turns with the same one on the plain server. There is nothing to do for what sweeps, prunes or
embeds: looking for it is what all nodes are asked for.
"""

import argparse
import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import asyncpg
from rich.console import Console
from rich.progress import Progress

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Users
from adkpg.audit import Audit
from adkpg.erasure import prune, prune_sessions, tidy
from adkpg.facts import Facts
from adkpg.memory.write.configuration import set_text_search_config
from adkpg.tooling.models import Models
from adkpg.tooling.operations import examine, list_users
from adkpg.tooling.operations import statistics as figures
from adkpg.tooling.transfer import export
from benchmarks.scripts.cluster import plain_and_distributed
from benchmarks.scripts.compared import Scattered, said

APP = "bench"
USERS, SESSIONS, EVENTS = 500, 2, 10
AT_ONCE = 8
"""Users who are written at the same time."""

Call = Callable[[], Awaitable[object]]


class Place:
    """One database, and the calls that are measured in it.

    Args:
      url: Where it is.

    Attributes:
      calls: By name.
      before: What is called before each call of a name, so that there is something to do.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = Database(url, pool_size=AT_ONCE)
        self._sessions = DatabaseSessionService(self.database, remember=True)
        self._memory = PgVectorMemoryService(self.database, embedder=Scattered())
        self._new_apps = (f"new {number}" for number in itertools.count())
        self._configurations = itertools.cycle(["simple", "english"])
        facts = Facts(self._memory)
        self.calls: dict[str, Call] = {
            "a page of 100 of an app's sessions": lambda: self._sessions.list_sessions_page(
                app_name=APP, limit=100
            ),
            "all 1,000 of an app's sessions": lambda: self._sessions.list_sessions(app_name=APP),
            "a page of 100 of an app's users": lambda: list_users(
                self.database, app_name=APP, limit=100
            ),
            "a worker looks for users with jobs": self._memory.embed_pending,
            "a worker's sweep": lambda: tidy(self.database),
            "stats --exact": lambda: figures(self.database),
            "doctor": lambda: examine(self.database),
            "memory prune": lambda: prune(
                self.database, app_name=APP, user_id=Users.ALL, superseded=True
            ),
            "sessions prune": lambda: prune_sessions(
                self.database, app_name=APP, user_id=Users.ALL, older_than=timedelta(days=365)
            ),
            "models list": lambda: Models(self.database).list_models(),
            "a page of an app's audit": lambda: Audit(self.database).entries(app_name=APP),
            "an app's first memory, and its vector": self._first_memory,
            "facts enable": lambda: facts.enable(APP),
            "facts disable": lambda: facts.disable(APP),
            "memory config, 10,000 memories": lambda: set_text_search_config(
                self.database, app_name=APP, config=next(self._configurations)
            ),
            "export, 10,000 events": self._export,
        }
        self.before: dict[str, Call] = {
            "facts enable": lambda: facts.disable(APP),
            "facts disable": lambda: facts.enable(APP),
        }

    async def load(self, progress: Callable[[], None]) -> None:
        """Writes what is read later."""
        numbers = iter(range(USERS))

        async def some() -> None:
            for number in numbers:
                await self._live(f"user {number}")
                progress()

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(some())
        await self._memory.embed_pending()
        connection = await asyncpg.connect(self.url)
        await connection.execute("VACUUM ANALYZE")
        await connection.close()

    async def _live(self, user_id: str) -> None:
        for _ in range(SESSIONS):
            session = await self._sessions.create_session(app_name=APP, user_id=user_id)
            for number in range(EVENTS):
                await self._sessions.append_event(session, said(number))

    async def _first_memory(self) -> object:
        session = await self._sessions.create_session(app_name=next(self._new_apps), user_id="u")
        await self._sessions.append_event(session, said(1))
        return await self._memory.embed_pending(app_name=session.app_name)

    async def _export(self) -> None:
        with tempfile.TemporaryFile("w") as file:
            async for line in export(self.database, app_name=APP):
                file.write(line)


async def took_ms(call: Call) -> float:
    began = time.perf_counter()
    await call()
    return 1000 * (time.perf_counter() - began)


async def measure(programs: Path, calls: int, only: str) -> None:
    async with plain_and_distributed(programs) as (plain, nodes):
        places = [Place(plain), Place(nodes[0])]
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task("writing", total=len(places) * USERS)
            for place in places:
                await place.load(lambda: progress.advance(task))
        print("| p50 in ms | one server | cluster | times |\n|---|---:|---:|---:|", flush=True)
        for kind in places[0].calls:
            if only not in kind:
                continue
            took: list[list[float]] = [[], []]
            for number in range(calls + 1):  # the first warms up
                for at in (0, 1) if number % 2 else (1, 0):
                    if (prepare := places[at].before.get(kind)) is not None:
                        await prepare()
                    found = await took_ms(places[at].calls[kind])
                    if number:
                        took[at].append(found)
            one, several = map(statistics.median, took)
            print(f"| {kind} | {one:.1f} | {several:.1f} | {several / one:.1f} |", flush=True)
        for place in places:
            await place.database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("programs", type=Path, help="of PostgreSQL with Citus and pgvector")
    parser.add_argument("--calls", type=int, default=10, help="of each kind, in each place")
    parser.add_argument("--only", default="", help="calls whose name has this")
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.programs, arguments.calls, arguments.only))


if __name__ == "__main__":
    main()
