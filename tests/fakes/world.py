"""A process that uses every service over one Database, and every call that it may make."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.documents import Documents
from adkpg.erasure import erase_expired, forget, prune
from adkpg.facts import Facts
from adkpg.facts.extractor import Add, Extraction, KnownFact, Turn
from adkpg.memory.write.configuration import set_text_search_config
from adkpg.tooling.models import Models
from adkpg.tooling.testing import said
from tests.fakes.conversation import entry
from tests.fakes.toys import ToyEmbedder

APP = "app"


class Extractor:
    """Draws the words of each turn."""

    async def extract(self, turns: Sequence[Turn], _known: Sequence[KnownFact]) -> Extraction:
        return Extraction(tuple(Add(turn.text, (turn.memory_id,)) for turn in turns))

    async def summarize(self, turns: Sequence[Turn]) -> Any:
        raise AssertionError("no test sums up")


class World:
    """What a process uses, over one proxied Database, and what somebody new has in it."""

    session: Session

    def __init__(self, database: Database) -> None:
        self.database = database
        self.sessions = DatabaseSessionService(database, remember=True)
        self.memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        self.words = PgVectorMemoryService(database, mode="text")
        self.documents = Documents(self.memory)
        self.facts = Facts(self.memory, extractor=Extractor())
        self.models = Models(database)
        self.number = 0

    async def prepare(self) -> None:
        """A session, a turn that facts wait to be drawn from, and a note without a vector."""
        self.number += 1
        self.session = await self.sessions.create_session(**self.user)
        await self.sessions.append_event(self.session, said(f"{self.number} kittens"))
        await self.words.add_memory(**self.user, memories=[entry("a hound", self.note)])

    async def expire(self) -> None:
        metadata = {"ttl": 1e-6}
        await self.words.add_memory(**self.user, memories=[entry("gone", custom_metadata=metadata)])

    async def register(self) -> None:
        await self.models.add("spare", dimensions=8)

    @property
    def user(self) -> dict[str, Any]:
        return {"app_name": APP, "user_id": f"ana {self.number}"}

    @property
    def note(self) -> str:
        return f"note {self.number}"

    @property
    def text(self) -> str:
        """A document that is another each time."""
        return f"# Kittens\n\n{self.number} of them.\n\n# Hounds\n\nNone."


Call = Callable[[World], Awaitable[object]]


async def run(world: World) -> None:
    """An invocation in a session that was free, of a request that is new."""
    place = {**world.user, "session_id": world.session.id}
    async with world.sessions.invocation(**place, key=world.note) as invocation:
        await world.sessions.append_event(world.session, said("a dog"))
        invocation.finish("a dog")
    async with world.sessions.invocation(**place):
        pass


CALLS: dict[str, Call] = {
    "create_session": lambda world: world.sessions.create_session(
        **world.user, state={"user:k": 1}
    ),
    "get_session": lambda world: world.sessions.get_session(
        **world.user, session_id=world.session.id
    ),
    "list_sessions": lambda world: world.sessions.list_sessions(**world.user),
    "append_event": lambda world: world.sessions.append_event(world.session, said("a cat")),
    "invocation": run,
    "delete_session": lambda world: world.sessions.delete_session(
        **world.user, session_id=world.session.id
    ),
    "forget_session": lambda world: world.sessions.delete_session(
        **world.user, session_id=world.session.id, forget=True
    ),
    "add_session_to_memory": lambda world: world.memory.add_session_to_memory(world.session),
    "add_events_to_memory": lambda world: world.memory.add_events_to_memory(
        **world.user, events=[said("a puppy")]
    ),
    "add_memory": lambda world: world.memory.add_memory(
        **world.user, memories=[entry("an automobile")]
    ),
    "update_memory": lambda world: world.memory.update_memory(
        **world.user, memory_id=world.note, text="two hounds"
    ),
    "delete_memory": lambda world: world.memory.delete_memory(**world.user, memory_id=world.note),
    "get_memory": lambda world: world.memory.get_memory(**world.user, memory_id=world.note),
    "list_memories": lambda world: world.memory.list_memories(**world.user),
    "count_memories": lambda world: world.memory.count_memories(**world.user),
    "search": lambda world: world.memory.search(**world.user, query="hound"),
    "embed_pending": lambda world: world.memory.embed_pending(),
    "index_large_scopes": lambda world: world.memory.index_large_scopes(),
    "set_text_search_config": lambda world: set_text_search_config(
        world.database, app_name=APP, config="english" if world.number % 2 else "german"
    ),
    "document added": lambda world: world.documents.add(
        **world.user, source="pets.md", text=world.text
    ),
    "document removed": lambda world: world.documents.delete(**world.user, source="pets.md"),
    "extract": lambda world: world.facts.extract(**world.user, session_id=world.session.id),
    "profile": lambda world: world.facts.profile(**world.user),
    "models listed": lambda world: world.models.list_models(),
    "model added": lambda world: world.models.add(f"model {world.number}", dimensions=8),
    "model indexed": lambda world: world.models.index("toy"),
    "model activated": lambda world: world.models.activate(
        ("toy", "spare")[world.number % 2], app_name=APP, force=True
    ),
    "model dropped": lambda world: world.models.drop("spare"),
    "reembed": lambda world: world.models.reembed(
        ToyEmbedder(("toy", "spare")[world.number % 2]), app_name=APP
    ),
    "prune": lambda world: prune(
        world.database, **world.user, older_than=timedelta(), max_memories=1
    ),
    "erase_expired": lambda world: erase_expired(world.database),
    "forget": lambda world: forget(world.database, **world.user),
}
# Done before the call, beside what each gets.
BEFORE: dict[str, Call] = {
    "document removed": lambda world: world.documents.add(
        **world.user, source="pets.md", text=world.text
    ),
    "model dropped": World.register,
    "prune": World.expire,
    "erase_expired": World.expire,
}


async def held_by_others(connection: asyncpg.Connection) -> list[str]:
    """Transactions and advisory locks of other connections, once those that end have ended."""
    found: list[str] = []
    for _ in range(2_000):
        rows = await connection.fetch(
            "SELECT format('%s: %s', state, query) AS what FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND xact_start IS NOT NULL"
            " UNION ALL SELECT format('advisory lock of %s', pid) FROM pg_locks"
            " WHERE locktype = 'advisory'"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        found = [row["what"] for row in rows]
        if not found:
            break
    return found
