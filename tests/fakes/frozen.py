"""What a frozen database holds: ``python -m tests.fakes.frozen`` freezes one of this version.

At each release it writes the backup that `tests/database/test_releases.py` restores and upgrades
from then on.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.database.migrating import migrations
from adkpg.tooling.backup.archive import back_up
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER, entry, text_of
from tests.fakes.toys import ToyEmbedder

FROZEN = Path(__file__).parents[1] / "database" / "releases"


async def fill(database: Database) -> None:
    """Stores a session with states, its memories, and a note."""
    sessions = DatabaseSessionService(database)
    memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
    session = await sessions.create_session(**USER, session_id="frozen", state={"user:name": "Ana"})
    for text in ("kittens like milk", "and so do I"):
        await sessions.append_event(session, said(text, state={"app:said": text}))
    await memory.add_session_to_memory(session)
    await memory.add_memory(**USER, memories=[entry("tea at five", "note")])


async def require_filled(database: Database) -> None:
    """Asserts that all of it is there and that it works."""
    sessions = DatabaseSessionService(database)
    memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
    session = await sessions.get_session(**USER, session_id="frozen")
    assert texts(session) == ["kittens like milk", "and so do I"]
    assert session is not None
    assert session.state == {"user:name": "Ana", "app:said": "and so do I"}
    await sessions.append_event(session, said("on"))
    hits = await memory.search(**USER, query="tea")
    assert text_of(hits[0].memory) == "tea at five"
    await memory.delete_memory(**USER, memory_id="note")
    assert await memory.count_memories(**USER) == 2


def say_nothing(done: int, total: int) -> None:
    """Is told how far a backup is."""


async def freeze(database: Database, file: Path) -> None:
    """Writes a backup of a new database that is filled."""
    await database.upgrade()
    await fill(database)
    await back_up(database, file, progress=say_nothing)


async def main() -> None:
    FROZEN.mkdir(exist_ok=True)
    file = FROZEN / f"{migrations.expected()}.dump"
    with tempfile.TemporaryDirectory() as place:
        settings = Settings(embedded_dir=Path(place) / "server")
        async with Database("embedded", settings=settings) as database:
            await freeze(database, file)
    sys.stdout.write(f"{file}\n")


if __name__ == "__main__":
    asyncio.run(main())
