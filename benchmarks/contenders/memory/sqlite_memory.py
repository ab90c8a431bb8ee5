"""ADK's own memory service on SQLite, which finds words."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.adk.memory._sqlite_memory_service import SqliteMemoryService

from benchmarks.contenders.memory.contender import APP, TOP_K, Embedding, Way
from benchmarks.contenders.memory.events import events, texts
from benchmarks.corpus import Corpus, Said


class SqliteMemory:
    """`SqliteMemoryService` on a file; it has no vectors."""

    name = "ADK SqliteMemoryService"
    package = "google-adk"
    ways: tuple[Way, ...] = ("words",)
    whole = False

    def __init__(self, url: str, embedding: Embedding) -> None:
        note = "a file of this process, no server"
        self.ingest_note = f"stores no vectors; {note}, without a flush for each commit"
        self.search_notes: dict[Way, str] = {"words": f"{note}; one index of words for all users"}
        self._directory = TemporaryDirectory(prefix="adkpg-benchmark-")
        self._path = Path(self._directory.name) / "memory.db"
        self._memory = SqliteMemoryService(self._path, max_results=TOP_K)

    async def prepare(self) -> None:
        # It makes its tables at its first use.
        await self._memory.search_memory(app_name=APP, user_id="nobody", query="table")

    async def load(self, corpus: Corpus) -> None:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.executemany(
                "insert into memory_events (app_name, user_id, session_id, event_id, author,"
                " timestamp, content_json, search_text) values (?, ?, ?, ?, ?, ?, ?, ?)",
                _rows(corpus),
            )

    async def ingest(self, user: str, batch: Sequence[Said]) -> None:
        await self._memory.add_events_to_memory(
            app_name=APP, user_id=user, events=events(batch), session_id=batch[0].session_id
        )

    async def search(self, user: str | None, question: str, way: Way) -> list[str]:
        assert user is not None
        found = await self._memory.search_memory(app_name=APP, user_id=user, query=question)
        return texts(found.memories)

    async def count(self) -> int:
        with closing(sqlite3.connect(self._path)) as connection:
            (found,) = connection.execute("select count(*) from memory_events").fetchone()
        return int(found)

    async def close(self) -> None:
        await self._memory.close()
        self._directory.cleanup()


def _rows(corpus: Corpus) -> Iterator[Sequence[Any]]:
    for user, said in corpus.owned():
        content = json.dumps({"parts": [{"text": said.text}], "role": "user"})
        time = said.time.timestamp()
        yield APP, user, said.session_id, said.event_id, "user", time, content, said.text
