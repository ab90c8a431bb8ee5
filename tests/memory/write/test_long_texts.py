"""Texts of a megabyte: remembered by who waits, while the event loop serves the others."""

import asyncio
import threading
from typing import Any

import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.memory import drafts
from tests.fakes.conversation import USER, entry, said, session_of

LONG = "order-9981 of oolong\n" * 50_000


@pytest.mark.parametrize("way", ["append", "session", "events", "note", "text"])
async def test_long_texts_are_prepared_in_another_thread(
    database_url: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    threads: list[threading.Thread] = []
    made, listed = drafts.new_draft, drafts.words_of

    def new_draft(**fields: Any) -> drafts.Draft:
        threads.append(threading.current_thread())
        return made(**fields)

    def words_of(author: str | None, body: str) -> str:
        threads.append(threading.current_thread())
        return listed(author, body)

    async with Database(database_url, remember="redacted") as database:
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, mode="text")
        session = await sessions.create_session(**USER, session_id="s")
        await memory.add_memory(**USER, memories=[entry("short", "n")])
        monkeypatch.setattr(drafts, "new_draft", new_draft)
        monkeypatch.setattr(drafts, "words_of", words_of)
        match way:
            case "append":
                await sessions.append_event(session, said(LONG, "e"))
            case "session":
                await memory.add_session_to_memory(session_of(said(LONG, "e")))
            case "events":
                await memory.add_events_to_memory(**USER, events=[said(LONG, "e")])
            case "note":
                await memory.add_memory(**USER, memories=[entry(LONG)])
            case _:
                await memory.update_memory(**USER, memory_id="n", text=LONG)
        (hit,) = await memory.search(**USER, query="oolong")
        assert LONG.startswith(str((hit.memory.content.parts or [])[0].text))
    assert threads
    assert threading.main_thread() not in threads


async def test_the_loop_goes_on_while_a_long_text_is_remembered(database_url: str) -> None:
    """A turn of the loop is short: no single step holds the interpreter for as long as all."""
    loop = asyncio.get_running_loop()
    async with Database(database_url, remember=True) as database:
        sessions = DatabaseSessionService(database)
        session = await sessions.create_session(**USER, session_id="s")
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        task = loop.create_task(others())
        await sessions.append_event(session, said(LONG, "e"))
        task.cancel()
    assert turns > 20
