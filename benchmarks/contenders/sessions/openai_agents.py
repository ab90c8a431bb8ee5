"""openai-agents' SQLAlchemySession: items of a conversation, no state."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from agents.extensions.memory import SQLAlchemySession
from google.adk.events.event import Event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.contenders.sessions.adk import sqlalchemy_url
from benchmarks.contenders.sessions.contender import Seen, content


@dataclass
class _Live:
    session: SQLAlchemySession
    items: list[dict[str, Any]] = field(default_factory=list)


class _Service:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def create(self, user_id: str, session_id: str, state: dict[str, Any]) -> _Live:
        del state
        return _Live(self._session(user_id, session_id))  # its row comes with the first item

    async def append(self, live: _Live, event: dict[str, Any]) -> None:
        await live.session.add_items([event])

    async def get(self, user_id: str, session_id: str) -> _Live:
        session = self._session(user_id, session_id)
        return _Live(session, await session.get_items())

    async def list_sessions(self, user_id: str, limit: int) -> Sequence[str]:
        raise NotImplementedError  # the package lists none, and `lists` says so: nobody asks

    def prepared(self, event: Event) -> dict[str, Any]:
        role = "user" if event.author == "user" else "assistant"
        return {"type": "message", "id": event.id, "role": role, "content": content(event)}

    def seen(self, live: _Live) -> Seen:
        return Seen([(item["id"], item["content"]) for item in live.items], None)

    def _session(self, user_id: str, session_id: str) -> SQLAlchemySession:
        return SQLAlchemySession(f"{user_id}/{session_id}", engine=self._engine)


class OpenAIAgents:
    """One message item per event."""

    name = "openai-agents"
    distribution = "openai-agents"
    keeps_state = False
    lists = False
    note = "one message item per event as plain dicts; no state"

    async def prepare(self, url: str) -> None:
        engine = create_async_engine(sqlalchemy_url(url))
        session = SQLAlchemySession("prepare", engine=engine, create_tables=True)
        await session.get_items()
        await engine.dispose()

    @asynccontextmanager
    async def open(
        self, url: str, pool_size: int, *, shared: bool = False
    ) -> AsyncIterator[_Service]:
        del shared
        engine = create_async_engine(sqlalchemy_url(url), pool_size=pool_size, max_overflow=0)
        try:
            yield _Service(engine)
        finally:
            await engine.dispose()
