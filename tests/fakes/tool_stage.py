"""A stage on one memory service, and what its models were sent and answered."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions import InMemorySessionService
from google.genai import types

from tests.fakes.stage import APP, USER, Services, Stage


def stage_on(
    memory: BaseMemoryService | None,
    *tools: Any,
    build: Callable[[Stage], App] | None = None,
    **options: Any,
) -> Stage:
    """A stage whose root agent has the tools, on ADK's sessions and the given memory."""
    services: Any = Services(InMemorySessionService(), memory)  # type: ignore[arg-type]  # or none

    @asynccontextmanager
    async def same() -> AsyncIterator[Services]:
        yield services

    def root(stage: Stage) -> App:
        agent = LlmAgent(name="root", model=stage.llm("root"), tools=list(tools), **options)
        return App(name=APP, root_agent=agent)

    return Stage(same, build or root, auto_create=True)


async def told(memory: BaseMemoryService, *texts: str, author: str = "user") -> list[str]:
    """Puts texts of an earlier session into memory, a minute after each other; their event ids."""
    events = [
        Event(
            author=author,
            timestamp=1_700_000_000.0 + 60 * number,
            content=types.Content(role="user", parts=[types.Part(text=text)]),
        )
        for number, text in enumerate(texts)
    ]
    await memory.add_events_to_memory(
        app_name=APP, user_id=USER, events=events, session_id="before"
    )
    return [event.id for event in events]


def answers(events: list[Event], tool: str) -> list[dict[str, Any]]:
    """What a tool answered in a turn."""
    return [
        response.response or {}
        for event in events
        for response in event.get_function_responses()
        if response.name == tool
    ]


def sent(stage: Stage, request: int, name: str = "root") -> list[str]:
    """The texts of the contents that a model was sent, in order."""
    contents = stage.parts[name].requests[request]["contents"]
    return [part["text"] for content in contents for part in content["parts"] if "text" in part]
