"""Memory services that a test can look into; ADK's in-memory service does their work."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.adk.memory import InMemoryMemoryService
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry

from adkpg.memory.filters import NO_FILTERS, SearchFilters


class CountingMemory(InMemoryMemoryService):
    """Keeps every question it was asked; gives other tasks a chance before it answers."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[str] = []
        self.failure: Exception | None = None

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        self.questions.append(query)
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        return await super().search_memory(app_name=app_name, user_id=user_id, query=query)


@dataclass(frozen=True)
class Found:
    memory: MemoryEntry


class OptionsMemory(InMemoryMemoryService):
    """Has a search with options, as adkpg's services do, and keeps those it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[dict[str, Any]] = []

    async def search(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        filters: SearchFilters = NO_FILTERS,
        top_k: int = 10,
    ) -> Sequence[Found]:
        self.asked.append({"query": query, "filters": filters, "top_k": top_k})
        found = await self.search_memory(app_name=app_name, user_id=user_id, query=query)
        return [Found(memory) for memory in found.memories][:top_k]
