"""A stage whose turns become memory, and what is in memory then."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions import InMemorySessionService

from adkpg.adk import MemoryPlugin
from tests.fakes.stage import APP, USER, Rebuild, Services, Stage


def on(memory: BaseMemoryService | None) -> Rebuild:
    """ADK's sessions with one memory service."""
    services: Any = Services(InMemorySessionService(), memory)  # type: ignore[arg-type]  # or none

    @asynccontextmanager
    async def same() -> AsyncIterator[Services]:
        yield services

    return same


def stage_with(rebuild: Rebuild, plugin: MemoryPlugin, **options: Any) -> Stage:
    """A stage whose app has one agent and the plugin."""

    def build(stage: Stage) -> App:
        agent = LlmAgent(name="root", model=stage.llm("root"), tools=[note], **options)
        return App(name=APP, root_agent=agent, plugins=[plugin])

    return Stage(rebuild, build, auto_create=True)


def note(line: str) -> str:
    """Notes a line."""
    return line


async def remembered(rebuild: Rebuild, query: str) -> list[str]:
    """What is found in memory, as ``author: text``, sorted."""
    async with rebuild() as services:
        found = await services.memory.search_memory(app_name=APP, user_id=USER, query=query)
    return sorted(
        f"{memory.author}: " + " ".join(part.text or "" for part in memory.content.parts or [])
        for memory in found.memories
    )
