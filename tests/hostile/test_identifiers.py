"""Any text for an id: it is stored and means its own rows alone, or is refused."""

import asyncio
from typing import Any

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.errors import InvalidInput, SessionExists
from adkpg.keys import APP_WIDE
from adkpg.tooling.testing import said
from tests.fakes.strategies import any_text

_hostile = st.sampled_from(
    [
        "",
        " ",
        "'; DROP TABLE adkpg.events; --",
        '"',
        "%",
        "_",
        "\\",
        "$1",
        "{}",
        "null",
        "../..",
        "‮",
    ]
) | st.sampled_from(
    [APP_WIDE, "a\x00b", "\ud800", "x" * 513, "é" * 300, "\x1a0000", "user:x", "💥" * 128]
)
_id = _hostile | any_text


def test_what_one_stores_no_other_finds(database_url: str) -> None:
    with asyncio.Runner() as runner:
        database = Database(database_url, remember=True)
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, mode="text")

        async def stores(app: str, user: str, session_id: str, other: str) -> None:
            place: dict[str, Any] = {"app_name": app, "user_id": user}
            try:
                session = await sessions.create_session(**place, session_id=session_id)
            except SessionExists:  # drawn before
                return
            except InvalidInput:
                stripped = session_id.strip()
                assert await sessions.get_session(**place, session_id=stripped) is None
                return
            event = said("Ana likes tea.", id=other or "e")
            try:
                await sessions.append_event(session, event)
            except InvalidInput:
                assert session.events == []
            read = await sessions.get_session(**place, session_id=session.id)
            assert read == session
            note = MemoryEntry(content=types.Content(parts=[types.Part(text=f"tea {other}")]))
            try:
                await memory.add_memory(**place, memories=[note])
            except InvalidInput:
                pass
            else:
                assert await memory.search(**place, query="tea")
            for name in ("app_name", "user_id"):
                if place[name] == other:
                    continue
                elsewhere = {**place, name: other}
                assert await sessions.get_session(**elsewhere, session_id=session.id) is None
                found = await memory.search(**elsewhere, query="tea")
                assert all(hit.memory.session_id != session.id for hit in found)
            await memory.delete_memory(**place, memory_id=other)
            await sessions.delete_session(**place, session_id=session.id, forget=True)
            assert await sessions.get_session(**place, session_id=session.id) is None

        @settings(max_examples=40)
        @given(_id, _id, _id, _id)
        @example("a", "u", "s", APP_WIDE)
        @example("a", "u", "s", "x" * 513)
        @example("x" * 512, "u" * 512, "s", "o")
        def run(app: str, user: str, session_id: str, other: str) -> None:
            runner.run(stores(app, user, session_id, other))

        run()
        assert runner.run(sessions.list_sessions(app_name="nobody's")).sessions == []
        runner.run(database.close())
