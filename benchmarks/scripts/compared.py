"""One side of compare.py: runs blocks of calls with whichever adkpg it imports, as it is told to.

Reads names of calls from its input, a line each. Answers each with the milliseconds of a block of
calls, and with the CPU of one call on average, of this process and of its server process. It uses
only what versions of adkpg have in common, and nothing else of benchmarks.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService

BLOCK = 20
SAYING = "I always travel by {}, never by plane, since my flight to {} was so bumpy in {}."
WAYS = ("train", "boat", "bicycle", "bus", "tram", "sledge", "horse", "tandem")
TOWNS = ("Lisbon", "Porto", "Leeds", "Oslo", "Turin", "Ghent", "Riga", "Graz")
YEAR = time.gmtime().tm_year  # of which all memories are
ASKED = {"a user of 100": 100, "a user of 2,000": 2_000, "a user of 20,000": 20_000}


class Scattered:
    """An embedder without a model: a text's vector is as random as its hash."""

    model, dimensions, floor = "scattered", 384, -1.0

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        chance = random.Random(text)
        return [chance.gauss() for _ in range(self.dimensions)]


def said(number: int, **fields: object) -> Event:
    chance = random.Random(number)
    said = SAYING.format(chance.choice(WAYS), chance.choice(TOWNS), number)
    content = types.Content(role="user", parts=[types.Part(text=said)])
    return Event.model_validate({"id": f"e{number}", "author": "user", "content": content} | fields)


class Side:
    """The calls that both sides have."""

    def __init__(self, database: Database) -> None:
        self._plain = DatabaseSessionService(database, remember=False)
        self._remembering = DatabaseSessionService(database, remember=True)
        self._memory = PgVectorMemoryService(database, embedder=Scattered())
        self._sessions: dict[str, Session] = {}
        self._number = 0
        self.calls: dict[str, Callable[[], Awaitable[object]]] = {
            "append": self._append,
            "append, user: and app:": self._append_states,
            "append, remember": self._append_remembering,
            "create": self._create,
            "get, 20 events": lambda: self._get(20),
            "get, 300 events": lambda: self._get(300),
            "ingest of 10 turns": self._ingest,
            **{f"search, {user}": self._search(user) for user in ASKED},
            **{f"search by words, {user}": self._search(user, mode="text") for user in ASKED},
            **{f"search, a year, {user}": self._search(user, when=f" in {YEAR}") for user in ASKED},
        }

    async def load(self) -> None:
        """Writes what is read later."""
        for name in ("append", "states"):
            self._sessions[name] = await self._plain.create_session(app_name="a", user_id=name)
        self._sessions["remember"] = await self._remembering.create_session(
            app_name="a", user_id="remember"
        )
        held = await self._plain.create_session(app_name="a", user_id="held", session_id="held")
        for number in range(300):
            await self._plain.append_event(held, said(number))
        for user, memories in ASKED.items():
            for first in range(0, memories, 50):
                events = [said(number) for number in range(first, min(first + 50, memories))]
                await self._memory.add_events_to_memory(
                    app_name="a", user_id=user, session_id=f"s{first}", events=events
                )

    async def _append(self) -> object:
        return await self._plain.append_event(self._sessions["append"], said(self._number))

    async def _append_states(self) -> object:
        delta = {"user:mood": self._number, "app:mood": self._number, "own": self._number}
        event = said(self._number, actions=EventActions(state_delta=delta))
        return await self._plain.append_event(self._sessions["states"], event)

    async def _append_remembering(self) -> object:
        event = said(self._number)
        return await self._remembering.append_event(self._sessions["remember"], event)

    async def _create(self) -> object:
        return await self._plain.create_session(app_name="a", user_id="created")

    async def _get(self, events: int) -> object:
        return await self._plain.get_session(
            app_name="a",
            user_id="held",
            session_id="held",
            config=GetSessionConfig(num_recent_events=events),
        )

    async def _ingest(self) -> None:
        events = [said(1000 * self._number + turn) for turn in range(10)]
        await self._memory.add_events_to_memory(
            app_name="a", user_id=f"u{self._number}", session_id="s", events=events
        )

    def _search(self, user: str, when: str = "", **options: str) -> Callable[[], Awaitable[object]]:
        async def search() -> object:
            town = TOWNS[self._number % len(TOWNS)]
            return await self._memory.search(
                app_name="a",
                user_id=user,
                query=f"Who travels to {town} by train{when}?",
                **options,  # type: ignore[arg-type] # the other version's are not known here
            )

        return search

    async def block(self, name: str, server: Path) -> dict[str, list[float]]:
        took = []
        before = time.process_time_ns(), _ran_ns(server)
        for _ in range(BLOCK):
            self._number += 1
            start = time.perf_counter()
            await self.calls[name]()
            took.append(1000 * (time.perf_counter() - start))
        after = time.process_time_ns(), _ran_ns(server)
        cpu = [(b - a) / BLOCK / 1e6 for a, b in zip(before, after, strict=True)]
        return {"took": took, "cpu": cpu}


async def _backend(url: str) -> int:
    """The server process of the database's only other connection."""
    connection = await asyncpg.connect(url)
    try:
        pid: int = await connection.fetchval(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return pid
    finally:
        await connection.close()


def _ran_ns(process: Path) -> int:
    """How long a process of this machine has run; 0 if it cannot be read."""
    try:
        return int((process / "schedstat").read_text(encoding="ascii").split()[0])
    except OSError:
        return 0


async def serve(url: str) -> None:
    async with Database(url, pool_size=1, max_overflow=0) as database:
        await database.upgrade()
        side = Side(database)
        await side.load()
        server = Path("/proc", str(await _backend(url)))
        print(json.dumps(list(side.calls)), flush=True)
        while name := (await asyncio.to_thread(sys.stdin.readline)).strip():
            print(json.dumps(await side.block(name, server)), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
