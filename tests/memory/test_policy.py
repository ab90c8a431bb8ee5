"""One policy for each Database: no way into memory goes around it."""

from collections.abc import Awaitable, Callable
from typing import Literal

import asyncpg
import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import (
    Database,
    DatabaseSessionService,
    Memory,
    PgVectorMemoryService,
    RememberPolicy,
    Settings,
    redact_secrets,
)
from adkpg.errors import ConfigurationError, InvalidInput
from tests.fakes.conversation import USER, bodies, said

CARD = "4111 1111 1111 1111"
TEXT = f"pay the hotel with {CARD}"
STORED = "pay the hotel with [redacted]"


def entry(text: str) -> MemoryEntry:
    thought = types.Part(text=f"the card is {CARD}", thought=True)
    content = types.Content(role="user", parts=[thought, types.Part(text=text)])
    return MemoryEntry(content=content, id="note")


async def appended(database: Database) -> None:
    sessions = DatabaseSessionService(database, remember=database.policy)
    session = await sessions.create_session(**USER, session_id="s")
    await sessions.append_event(session, said(TEXT, "e1"))


async def session_added(database: Database) -> None:
    sessions = DatabaseSessionService(database, remember=False)
    session = await sessions.create_session(**USER, session_id="s")
    await sessions.append_event(session, said(TEXT, "e1"))
    await PgVectorMemoryService(database, mode="text").add_session_to_memory(session)


async def events_added(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await memory.add_events_to_memory(**USER, events=[said(TEXT, "e1")])


async def noted(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await memory.add_memory(**USER, memories=[entry(TEXT)])


async def noted_as_a_memory(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    content = types.Content(role="user", parts=[types.Part(text=TEXT)])
    await memory.add_memory(**USER, memories=[Memory(content=content, kind="fact")])


async def noted_for_all(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await memory.add_memory(app_name=USER["app_name"], user_id=None, memories=[entry(TEXT)])


async def changed(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await memory.add_memory(**USER, memories=[entry("nothing yet")])
    await memory.update_memory(**USER, memory_id="note", text=TEXT)


@pytest.mark.parametrize(
    "way",
    [appended, session_added, events_added, noted, noted_as_a_memory, noted_for_all, changed],
)
@pytest.mark.parametrize("said_by", ["argument", "service", "environment"])
async def test_no_way_into_memory_goes_around_the_policy(
    database_url: str,
    connection: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    way: Callable[[Database], Awaitable[None]],
    said_by: str,
) -> None:
    if said_by == "environment":
        monkeypatch.setenv("ADKPG_REMEMBER", "redacted")
    remember: Literal["redacted"] | None = "redacted" if said_by == "argument" else None
    async with Database(database_url, remember=remember) as database:
        if said_by == "service":
            DatabaseSessionService(database, remember="redacted")
        await way(database)
    (body,) = await bodies(connection)
    assert body.removeprefix("user: ") == STORED
    everything = await connection.fetch("SELECT memories::text AS row FROM memories")
    assert all("1111 1111" not in each["row"] for each in everything)
    assert not await connection.fetch("SELECT 1 FROM memory_lexemes WHERE lexeme LIKE '%1111%'")


async def test_what_the_policy_refuses_is_left_out_or_refused(
    database_url: str, connection: asyncpg.Connection
) -> None:
    policy = RememberPolicy(redact=lambda text: None if "secret" in text else text)
    async with Database(database_url, remember=policy) as database:
        memory = PgVectorMemoryService(database, mode="text")
        fine = MemoryEntry(content=types.Content(parts=[types.Part(text="fine")]), id="fine")
        await memory.add_memory(**USER, memories=[entry("a secret"), fine])
        with pytest.raises(InvalidInput, match="policy"):
            await memory.update_memory(**USER, memory_id="fine", text="a secret")
    assert await bodies(connection) == ["fine"]


async def test_a_second_policy_is_refused(database_url: str) -> None:
    async with Database(database_url, remember="redacted") as database:
        DatabaseSessionService(database, remember="redacted")
        DatabaseSessionService(database, remember=RememberPolicy(redact=redact_secrets))
        DatabaseSessionService(database, remember=False)
        for other in (True, RememberPolicy(redact=str.lower)):
            with pytest.raises(ConfigurationError, match="another policy"):
                DatabaseSessionService(database, remember=other)
        assert database.policy == RememberPolicy(redact=redact_secrets)
    with pytest.raises(ConfigurationError, match="'redact'"):
        Database(database_url, remember="redact")  # type: ignore[arg-type] # a typing slip


async def test_only_services_that_were_told_capture(
    database_url: str, connection: asyncpg.Connection
) -> None:
    async with Database(database_url) as database:
        telling = DatabaseSessionService(database, remember="redacted")
        plain = DatabaseSessionService(database)
        for service, event_id in ((plain, "e1"), (telling, "e2")):
            session = await service.create_session(**USER)
            await service.append_event(session, said(TEXT, event_id))
        assert await bodies(connection) == [f"user: {STORED}"]
    async with Database(database_url, remember="redacted") as database:
        session = await DatabaseSessionService(database).create_session(**USER)
        await DatabaseSessionService(database).append_event(session, said(TEXT, "e3"))
        await DatabaseSessionService(database, remember=False).append_event(
            session, said(TEXT, "e4")
        )
    assert len(await bodies(connection)) == 2


async def test_what_code_says_wins_over_the_environment(database_url: str) -> None:
    settings = Settings(remember=True)
    async with Database(database_url, settings=settings) as database:
        assert database.policy == RememberPolicy()
        DatabaseSessionService(database, remember="redacted")
        assert database.policy == RememberPolicy(redact=redact_secrets)
    assert Database(database_url, settings=settings, remember=False).policy is None
