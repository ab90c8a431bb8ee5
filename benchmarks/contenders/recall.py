"""The systems that `recall.py` compares: adkpg's modes and ADK's own memory services."""

import time
from dataclasses import dataclass
from typing import Protocol

from google.adk.memory import BaseMemoryService
from google.adk.sessions.session import Session

from adkpg import PgVectorMemoryService
from adkpg.demo import replay
from adkpg.demo.transcript import Chat
from adkpg.embedding import Embedder
from adkpg.memory.records import Memory
from adkpg.memory.search import hits
from adkpg.memory.search.options import Mode

APP = "benchmark"
DEPTH = 50
"""Hits asked for: a budget of tokens is to end them. ADK's in-memory service stops at 10."""


@dataclass(frozen=True)
class Recalled:
    """What came back for a question.

    Attributes:
      turn_ids: The hits' turns, the best first.
      costs: Tokens of each hit.
      search_s: How long the search took, without the question's embedding.
      embedding_s: How long that took.
    """

    turn_ids: tuple[str, ...]
    costs: tuple[int, ...]
    search_s: float
    embedding_s: float = 0.0


class Contender(Protocol):
    """A system to compare."""

    async def remember(self, user_id: str, chat: Chat) -> None:
        """Remembers a session as a user's."""

    async def ask(self, user_id: str, question: str) -> Recalled:
        """Asks a user's memory."""


class TimedEmbedder:
    """An embedder that keeps each question's vector, and how long it took."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, list[float]] = {}
        self.seconds: dict[str, float] = {}
        self.model = embedder.model
        self.dimensions = embedder.dimensions
        self.floor = getattr(embedder, "floor", 0.0)

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return await self._embedder.embed_documents(texts)

    async def embed_query(self, text: str) -> list[float]:
        if text not in self._vectors:
            begin = time.perf_counter()
            self._vectors[text] = await self._embedder.embed_query(text)
            self.seconds[text] = time.perf_counter() - begin
        return self._vectors[text]


class Leg:
    """A mode of an adkpg memory service; the modes of one share what it remembers.

    Args:
      memory: The service, whose embedder is the given one.
      embedder: None if it has none.
      mode: Words, vectors, or both.
    """

    def __init__(
        self, memory: PgVectorMemoryService, embedder: TimedEmbedder | None, mode: Mode
    ) -> None:
        self._memory = memory
        self._embedder = embedder if mode != "text" else None
        self._mode = mode

    async def remember(self, user_id: str, chat: Chat) -> None:
        await _remember(self._memory, user_id, chat)  # again, it changes nothing

    async def ask(self, user_id: str, question: str) -> Recalled:
        if self._embedder is not None:
            await self._embedder.embed_query(question)  # the search below finds it there
        begin = time.perf_counter()
        found = await self._memory.search(
            app_name=APP, user_id=user_id, query=question, top_k=DEPTH, mode=self._mode
        )
        search_s = time.perf_counter() - begin
        return Recalled(
            turn_ids=tuple(hit.memory.event_id or "" for hit in found),
            costs=tuple(hits.tokens(hit.memory) for hit in found),
            search_s=search_s,
            embedding_s=self._embedder.seconds[question] if self._embedder else 0.0,
        )


class Adk:
    """One of ADK's own memory services."""

    def __init__(self, memory: BaseMemoryService) -> None:
        self._memory = memory

    async def remember(self, user_id: str, chat: Chat) -> None:
        await _remember(self._memory, user_id, chat)

    async def ask(self, user_id: str, question: str) -> Recalled:
        begin = time.perf_counter()
        response = await self._memory.search_memory(app_name=APP, user_id=user_id, query=question)
        search_s = time.perf_counter() - begin
        found = response.memories[:DEPTH]
        return Recalled(
            # The SQLite service's ids are its own; it has the event's in the metadata.
            turn_ids=tuple(
                str(entry.custom_metadata.get("event_id") or entry.id) for entry in found
            ),
            costs=tuple(
                hits.tokens(Memory(author=entry.author, content=entry.content)) for entry in found
            ),
            search_s=search_s,
        )


async def _remember(memory: BaseMemoryService, user_id: str, chat: Chat) -> None:
    await memory.add_session_to_memory(
        Session(id=chat.session_id, app_name=APP, user_id=user_id, events=list(replay.events(chat)))
    )
