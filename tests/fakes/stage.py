"""A scenario on one kind of services, and what is left of it to compare."""

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from google.adk.apps import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events.event import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.testing.scripted_llm import Answer, Part, ScriptedLlm

APP, USER = "stage", "ada"


@dataclass(frozen=True)
class Services:
    sessions: BaseSessionService
    memory: BaseMemoryService


Rebuild = Callable[[], AbstractAsyncContextManager[Services]]


def in_memory() -> Rebuild:
    """ADK's own services, which live as long as the scenario."""
    services = Services(InMemorySessionService(), InMemoryMemoryService())

    @asynccontextmanager
    async def same() -> AsyncIterator[Services]:
        yield services

    return same


def on_postgres(url: str) -> Rebuild:
    """adkpg's services, a new Database and new services every time."""

    @asynccontextmanager
    async def rebuilt() -> AsyncIterator[Services]:
        async with Database(url) as database:
            yield Services(
                DatabaseSessionService(database), PgVectorMemoryService(database, mode="text")
            )

    return rebuilt


@dataclass
class Stage:
    """Runs the turns of one scenario, each with services, agents and a Runner of its own.

    Attributes:
      rebuild: Makes the services of a turn.
      build: Makes the app of a turn; asks the stage for its models.
      session_id: The session that is spoken in.
      auto_create: Whether the Runner creates sessions by itself.
    """

    rebuild: Rebuild
    build: Callable[["Stage"], App]
    session_id: str = "one"
    auto_create: bool = False
    artifacts: InMemoryArtifactService = field(default_factory=InMemoryArtifactService)
    parts: dict[str, Part] = field(default_factory=lambda: defaultdict(Part))
    yielded: list[Event] = field(default_factory=list)

    def llm(self, name: str) -> ScriptedLlm:
        return ScriptedLlm.playing(name, self.parts[name])

    def script(self, name: str, *answers: Answer) -> None:
        """Says what a model answers next."""
        self.parts[name].answers.extend(answers)

    @asynccontextmanager
    async def runner(self) -> AsyncIterator[Runner]:
        async with self.rebuild() as services:
            yield Runner(
                app=self.build(self),
                session_service=services.sessions,
                memory_service=services.memory,
                artifact_service=self.artifacts,
                auto_create_session=self.auto_create,
            )

    async def create(self, **state: Any) -> None:
        async with self.rebuild() as services:
            await services.sessions.create_session(
                app_name=APP, user_id=USER, session_id=self.session_id, state=state
            )

    async def say(self, message: str | types.Part | None, **options: Any) -> list[Event]:
        """Runs one turn to its end and returns what it yielded."""
        part = types.Part(text=message) if isinstance(message, str) else message
        content = types.Content(role="user", parts=[part]) if part is not None else None
        async with self.runner() as runner:
            turn = [
                event
                async for event in runner.run_async(
                    user_id=USER, session_id=self.session_id, new_message=content, **options
                )
            ]
        self.yielded += turn
        return turn

    async def session(self) -> Session:
        async with self.rebuild() as services:
            session = await services.sessions.get_session(
                app_name=APP, user_id=USER, session_id=self.session_id
            )
        assert session is not None
        return session

    async def record(self) -> dict[str, Any]:
        """All that the models were sent, all that was yielded, and all sessions as they are now."""
        assert not any(part.answers for part in self.parts.values()), "the script was not played"
        async with self.rebuild() as services:
            listed = await services.sessions.list_sessions(app_name=APP, user_id=USER)
            sessions = [
                await services.sessions.get_session(app_name=APP, user_id=USER, session_id=each.id)
                for each in sorted(listed.sessions, key=lambda session: session.id)
            ]
        normal = Normal()
        return {
            "requests": {name: normal(part.requests) for name, part in self.parts.items()},
            "yielded": normal(_dumped(self.yielded)),
            "sessions": [
                {
                    "id": session.id,
                    "state": normal(session.state),
                    "events": normal(_dumped(session.events)),
                }
                for session in sessions
                if session is not None
            ],
        }


def _dumped(events: list[Event]) -> list[dict[str, Any]]:
    """Events as JSON, without their moments; a compaction names its first and last event."""
    moments = [event.timestamp for event in events]
    dumped = []
    for event in events:
        each = event.model_dump(mode="json", exclude_none=True, exclude={"timestamp"})
        if event.actions.compaction is not None:
            compaction = each["actions"]["compaction"]
            for key in ("start_timestamp", "end_timestamp"):
                compaction[key] = moments.index(compaction[key])
        dumped.append(each)
    return dumped


class Normal:
    """Brings values to a form in which two runs are equal: generated ids become numbers.

    Equal ids become the same number, so what refers to what is compared too. Of memories, author
    and content are compared: order, ids, moments and metadata are each service's own.
    """

    _ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
    _PRELOADED = re.compile(r"(?<=<PAST_CONVERSATIONS>\n).*(?=\n</PAST_CONVERSATIONS>)", re.DOTALL)

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._ID.sub(self._number, self._PRELOADED.sub(_sorted_lines, value))
        if isinstance(value, list):
            return [self(each) for each in value]
        if isinstance(value, dict):
            if isinstance(memories := value.get("memories"), list):
                kept = [{key: each[key] for key in ("author", "content")} for each in memories]
                value = {**value, "memories": sorted(kept, key=repr)}
            return {self(key): self(each) for key, each in value.items()}
        return value

    def _number(self, found: re.Match[str]) -> str:
        return self._numbers.setdefault(found[0], f"#{len(self._numbers) + 1}")


def _sorted_lines(found: re.Match[str]) -> str:
    """What `preload_memory` recalled, without moments."""
    lines = found[0].splitlines()
    return "\n".join(sorted(line for line in lines if not line.startswith("Time: ")))


class Play(Protocol):
    """Plays a scenario twice, requires equal records, and returns the record."""

    async def __call__(
        self,
        build: Callable[[Stage], App],
        scenario: Callable[[Stage], Awaitable[None]],
        *,
        create: bool = True,
    ) -> dict[str, Any]: ...
