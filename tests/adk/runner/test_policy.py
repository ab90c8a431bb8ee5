"""The one policy of a Database, and every way by which an agent writes memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, RememberPolicy
from adkpg.adk import MemoryPlugin
from adkpg.tooling.testing.scripted_llm import call, text
from adkpg.tools import RememberTool, remember
from tests.fakes.stage import APP, Services, Stage
from tests.fakes.tool_stage import answers

CARD = "4111 1111 1111 1111"
SAID = f"Pay the hotel with {CARD}"


async def note(line: str, tool_context: ToolContext) -> str:
    """Notes a line by ADK's own way."""
    content = types.Content(parts=[types.Part(text=line)])
    await tool_context.add_memory(memories=[MemoryEntry(content=content)])
    return "noted"


async def add_session(callback_context: CallbackContext) -> None:
    await callback_context.add_session_to_memory()


async def add_events(callback_context: CallbackContext) -> None:
    await callback_context.add_events_to_memory(events=callback_context.session.events)


WAYS: dict[str, dict[str, Any]] = {
    "append": {"sessions": {}},
    "plugin": {"plugins": [MemoryPlugin()]},
    "plugin with a policy of its own": {"plugins": [MemoryPlugin(RememberPolicy())]},
    "session of a callback": {"callback": add_session},
    "events of a callback": {"callback": add_events},
    "tool": {"tools": [remember], "call": ("remember", "text")},
    "tool with a policy of its own": {
        "tools": [RememberTool(policy=RememberPolicy())],
        "call": ("remember", "text"),
    },
    "ADK's add_memory": {"tools": [note], "call": ("note", "line")},
}


@pytest.mark.parametrize("way", WAYS)
async def test_no_agent_writes_around_the_policy(
    database_url: str, connection: asyncpg.Connection, way: str
) -> None:
    made = WAYS[way]

    @asynccontextmanager
    async def services() -> AsyncIterator[Services]:
        async with Database(database_url, remember="redacted") as database:
            yield Services(
                DatabaseSessionService(database, **made.get("sessions", {"remember": False})),
                PgVectorMemoryService(database, mode="text"),
            )

    def build(stage: Stage) -> App:
        agent = LlmAgent(
            name="root",
            model=stage.llm("root"),
            tools=made.get("tools", []),
            after_agent_callback=made.get("callback"),
        )
        plugins: list[BasePlugin] = made.get("plugins", [])
        return App(name=APP, root_agent=agent, plugins=plugins)

    stage = Stage(services, build, auto_create=True)
    if "call" in made:
        tool, argument = made["call"]
        stage.script("root", call(tool, **{argument: SAID}))
    stage.script("root", text("Done."))
    events = await stage.say(SAID)
    for answer in answers(events, "remember"):
        assert answer["remembered"] == "Pay the hotel with [redacted]"
    stored = [row["body"] for row in await connection.fetch("SELECT body FROM memories")]
    assert any("Pay the hotel with [redacted]" in body for body in stored)
    everything = await connection.fetch("SELECT memories::text AS row FROM memories")
    assert all("1111 1111" not in row["row"] for row in everything)
    assert not await connection.fetch("SELECT 1 FROM memory_lexemes WHERE lexeme LIKE '%1111%'")


async def test_what_the_policy_of_the_database_refuses_a_tool_is_told(database_url: str) -> None:
    policy = RememberPolicy(redact=lambda said: None if "secret" in said else said)

    @asynccontextmanager
    async def services() -> AsyncIterator[Services]:
        async with Database(database_url, remember=policy) as database:
            memory = PgVectorMemoryService(database, mode="text")
            yield Services(DatabaseSessionService(database, remember=False), memory)

    stage = Stage(
        services,
        lambda stage: App(
            name=APP,
            root_agent=LlmAgent(name="root", model=stage.llm("root"), tools=[remember]),
        ),
        auto_create=True,
    )
    stage.script("root", call("remember", text="The secret is 42."), text("No."))
    [answer] = answers(await stage.say("Keep it"), "remember")
    assert answer == {"error": "This text may not be remembered."}
