"""ADK's own memory services, as `recall.py` compares them with adkpg's modes."""

import time

from google.adk.memory import BaseMemoryService
from google.adk.sessions.session import Session

from adkpg import Memory
from adkpg.memory import records
from adkpg.memory.search import hits
from adkpg.tooling.evaluation import Question, Store
from adkpg.tooling.evaluation.asking import Found, Recalled
from adkpg.tooling.evaluation.figures import DEPTH
from adkpg.tooling.evaluation.remembering import APP, events


class Adk:
    """One of ADK's own memory services; its in-memory one returns 10 hits at most."""

    def __init__(self, memory: BaseMemoryService) -> None:
        self._memory = memory

    async def remember(self, store: Store) -> None:
        """Remembers a store as a user's."""
        for chat in store.chats:
            session = Session(
                id=chat.id, app_name=APP, user_id=store.name, events=list(events(chat))
            )
            await self._memory.add_session_to_memory(session)

    async def ask(self, user_id: str | None, question: Question) -> Recalled:
        begin = time.perf_counter()
        response = await self._memory.search_memory(
            app_name=APP, user_id=user_id or "", query=question.text
        )
        search_s = time.perf_counter() - begin
        return Recalled(
            hits=tuple(
                Found(
                    # The SQLite service's ids are its own; it has the event's in the metadata.
                    names=frozenset({str(entry.custom_metadata.get("event_id") or entry.id)}),
                    text=records.text_of(entry.content),
                    cost=hits.tokens(Memory(author=entry.author, content=entry.content)),
                )
                for entry in response.memories[:DEPTH]
            ),
            search_s=search_s,
        )
