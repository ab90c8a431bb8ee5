"""Users of a cluster who make writes of each kind, and what each was told is stored."""

import asyncio
from collections.abc import Sequence
from typing import Any

from google.genai import types

from adkpg import (
    Database,
    DatabaseArtifactService,
    DatabaseSessionService,
    PgVectorMemoryService,
)
from adkpg.documents import Documents
from adkpg.erasure import forget
from adkpg.memory.records import text_of
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import entry
from tests.fakes.toys import ToyEmbedder

APP = "app"


class Lives:
    """Users who write in turn what belongs to one: files, forks, runs, states, facts, documents.

    Each knows what must be stored then. Every call is made once, by a Database with its default
    budget for calls that it repeats: what a caller is told of a fault ends the test.

    Args:
      urls: Of nodes of one database; users are connected to one each, in turn.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self.databases = [Database(url) for url in urls]
        self.rounds: dict[str, int] = {}
        self._heard = asyncio.Condition()

    async def live(self, user_id: str, until: asyncio.Event) -> None:
        """Goes round after round until something has happened; looks at each what is stored."""
        database = self.databases[len(self.rounds) % len(self.databases)]
        self.rounds[user_id] = 0
        sessions = DatabaseSessionService(database)
        await sessions.create_session(app_name=APP, user_id=user_id, session_id="s")
        while not until.is_set():
            await self._round(database, user_id, self.rounds[user_id])
            self.rounds[user_id] += 1
            async with self._heard:
                self._heard.notify_all()

    async def _round(self, database: Database, user_id: str, number: int) -> None:
        scope: dict[str, Any] = {"app_name": APP, "user_id": user_id}
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        files = DatabaseArtifactService(database)
        documents = Documents(memory)
        text = f"a kitten number {number}"
        async with sessions.invocation(**scope, session_id="s", key=f"k{number}") as run:
            session = await sessions.get_session(**scope, session_id="s")
            assert session is not None
            assert texts(session) == [f"a kitten number {each}" for each in range(number)]
            own = {"own": number, "user:count": number}
            await sessions.append_event(session, said(text, id=f"e{number}", state=own))
            run.finish(number)
        part = types.Part(inline_data=types.Blob(data=text.encode(), mime_type="text/plain"))
        version = await files.save_artifact(**scope, session_id="s", filename="f", artifact=part)
        assert version == number
        fork = await sessions.fork_session(**scope, session_id="s", fork_id=f"fork{number}")
        assert texts(fork) == [*texts(session)]
        await sessions.append_event(fork, said("a puppy"))
        await sessions.update_state(**scope, state_delta={"user:last": number})
        await memory.add_session_to_memory(fork)
        await memory.add_memory(**scope, memories=[entry("a puppy", f"m{number}")])
        await memory.update_memory(**scope, memory_id=f"m{number}", text=text)
        await documents.add(**scope, source="d", text=f"# Tea\n\nof day {number}")
        if number % 2:
            await memory.delete_memory(**scope, memory_id=f"m{number}")
            await sessions.delete_session(**scope, session_id=fork.id)

    async def reached(self, rounds: int, users: Sequence[str]) -> None:
        """Returns when each of some users has gone so many rounds more than now."""
        wanted = {user_id: self.rounds.get(user_id, 0) + rounds for user_id in users}
        async with self._heard:
            await self._heard.wait_for(
                lambda: all(self.rounds.get(each, 0) >= many for each, many in wanted.items())
            )

    async def check(self) -> None:
        """Reads what is stored of all, once and no more, and forgets every other of the users."""
        assert self.rounds
        for number, (user_id, rounds) in enumerate(self.rounds.items()):
            database = self.databases[number % len(self.databases)]
            await self._check(database, user_id, rounds)
            if number % 2:
                await forget(database, app_name=APP, user_id=user_id)
                sessions = DatabaseSessionService(database)
                listed = await sessions.list_sessions(app_name=APP, user_id=user_id)
                memory = PgVectorMemoryService(database, mode="text")
                left = await memory.count_memories(app_name=APP, user_id=user_id)
                assert (listed.sessions, left) == ([], 0)

    async def _check(self, database: Database, user_id: str, rounds: int) -> None:
        scope: dict[str, Any] = {"app_name": APP, "user_id": user_id}
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        files = DatabaseArtifactService(database)
        said_ones = [f"a kitten number {each}" for each in range(rounds)]
        kept = range(0, rounds, 2)
        session = await sessions.get_session(**scope, session_id="s")
        assert session is not None
        assert texts(session) == said_ones
        last = rounds - 1
        assert dict(session.state) == {"own": last, "user:count": last, "user:last": last}
        listed = {each.id for each in (await sessions.list_sessions(**scope)).sessions}
        assert listed == {"s", *(f"fork{each}" for each in kept)}
        versions = await files.list_versions(**scope, session_id="s", filename="f")
        assert versions == list(range(rounds))
        for number in range(rounds):
            async with sessions.invocation(**scope, session_id="s", key=f"k{number}") as run:
                assert (run.done, run.result) == (True, number)
            found = await memory.get_memory(**scope, memory_id=f"m{number}")
            assert (found and text_of(found.content)) == (
                said_ones[number] if number in kept else None
            )
        page = await Documents(memory).list_sources(**scope)
        assert [each.source for each in page.items] == ["d"]
        assert await memory.embed_pending() >= 0
        hits = await memory.search(**scope, query="a kitten", mode="vector", top_k=100)
        assert {f"m{each}" for each in kept} <= {hit.memory.id for hit in hits}

    async def close(self) -> None:
        for database in self.databases:
            await database.close()
