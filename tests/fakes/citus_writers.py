"""Users of a cluster who append and remember at the same time, and what each was told is stored."""

import asyncio
from collections.abc import Sequence
from typing import Any

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from tests.fakes.citus import home_of
from tests.fakes.citus import said as asked
from tests.fakes.conversation import said

APP = "app"


class Writers:
    """Users who append to a session each, while a node goes or comes.

    Every call is made once, by a Database with its default budget for calls that it repeats: what
    a caller is told of a fault ends the test.

    Args:
      urls: Of nodes of one database; users are connected to one each, in turn.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self.databases = [Database(url, remember=True) for url in urls]
        self.told: dict[str, list[str]] = {}
        self._heard = asyncio.Condition()

    async def write(self, user_id: str, events: int, until: asyncio.Event | None = None) -> None:
        """Appends so many events, finds each, and goes on until something has happened."""
        database = self.databases[len(self.told) % len(self.databases)]
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, mode="text")
        told = self.told[user_id] = []
        session = await sessions.create_session(app_name=APP, user_id=user_id, session_id="s")
        while len(told) < events or (until is not None and not until.is_set()):
            event = said(f"tea number {len(told)}", f"e{len(told)}")
            await sessions.append_event(session, event)
            told.append(event.id)
            (first,) = await memory.search(
                app_name=APP, user_id=user_id, query=f"{len(told) - 1}", top_k=1
            )
            assert first.memory.event_id == event.id
            async with self._heard:
                self._heard.notify_all()

    async def reached(self, events: int, users: Sequence[str]) -> None:
        """Returns when each of some users was told of so many events more than now."""
        wanted = {user_id: self._count(user_id) + events for user_id in users}
        async with self._heard:
            await self._heard.wait_for(
                lambda: all(self._count(user_id) >= many for user_id, many in wanted.items())
            )

    def _count(self, user_id: str) -> int:
        return len(self.told.get(user_id, ()))

    async def check(self) -> None:
        """Reads what is stored: all that was told, once and in this order, and its memories."""
        database = self.databases[0]
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, mode="text")
        assert self.told
        for user_id, told in self.told.items():
            scope: Any = {"app_name": APP, "user_id": user_id}
            stored = await sessions.get_session(**scope, session_id="s")
            assert stored is not None
            assert [event.id for event in stored.events] == told
            assert await memory.count_memories(**scope) == len(told)
            (first,) = await memory.search(**scope, query=f"{len(told) - 1}", top_k=1)
            assert first.memory.event_id == told[-1]

    async def close(self) -> None:
        for database in self.databases:
            await database.close()


async def users_of_parts(url: str, of_each: int) -> dict[int, list[str]]:
    """Returns as many users of each part of the tables, by the part's number."""
    rows = await asked(
        url, "SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = 'adkpg.sessions'::regclass"
    )
    parts: dict[int, list[str]] = {}
    number = 0
    while len(parts) < rows[0][0] or min(map(len, parts.values())) < of_each:
        user_id = f"u{number}"
        found = await asked(
            url, f"SELECT get_shard_id_for_distribution_column('adkpg.sessions', '{user_id}')"
        )
        of_part = parts.setdefault(found[0][0], [])
        if len(of_part) < of_each:
            of_part.append(user_id)
        number += 1
    return parts


async def node_of(url: str, user_id: str) -> int:
    """Returns the port of the node that has a user."""
    return int((await home_of(url, user_id)).rpartition(":")[2].partition("/")[0])


async def user_on(url: str, port: int) -> str:
    """Returns a user whom the node at a port has."""
    for (user_id,) in (await users_of_parts(url, 1)).values():
        if await node_of(url, user_id) == port:
            return user_id
    raise LookupError("The node has nobody.")
