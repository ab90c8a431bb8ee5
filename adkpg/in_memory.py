"""InMemoryVectorMemoryService: memory in this process, for tests and notebooks without a server.

Small on purpose: words and cosines. ``PgVectorMemoryService("embedded")`` answers as in production.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from uuid import uuid4

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from adkpg.embedding.embedder import Embedder, embed_checked, embed_query_checked
from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.memory.duplicates import groups
from adkpg.memory.records import said, unit_vector
from adkpg.timestamps import clamped

Scope = tuple[str, str]  # app and user


@dataclass(frozen=True)
class _Kept:
    entry: MemoryEntry
    session_id: str | None  # None: it was added as an entry
    text: str
    vector: list[float] | None  # of unit length


class InMemoryVectorMemoryService(BaseMemoryService):
    """An ADK memory service without Postgres: what it remembers ends with the process.

    It finds memories that share a word with the question or have it in them, in any case, and
    those whose vector is near the question's. A memory's score is the share of the question's
    words that it has, plus the cosine. What the service returns is the caller's own.

    Args:
      embedder: What turns texts into vectors. None: memories are found by their words alone.
      top_k: How many memories a search returns at most.
      min_relevance: Least relevance of a memory, in [0, 1]: the share of the question's words that
        it has or, if that is more, its cosine. One of 0 is never found.

    Raises:
      ConfigurationError: `top_k` is below 1, or `min_relevance` is no share.
    """

    def __init__(
        self,
        *,
        embedder: Embedder | None = None,
        top_k: int = 5,
        min_relevance: float = 0.0,
    ) -> None:
        if top_k < 1:
            raise ConfigurationError(f"top_k={top_k} is below 1; ask for at least one.")
        if not 0 <= min_relevance <= 1:
            raise ConfigurationError(
                f"min_relevance={min_relevance!r} is not a share; give a number from 0 to 1."
            )
        self._embedder, self._top_k = embedder, top_k
        self._min_relevance = min_relevance
        self._scopes: dict[Scope, dict[str, _Kept]] = {}  # by the memory's id
        self._deleted: set[tuple[Scope, str]] = set()

    def __repr__(self) -> str:
        model = None if self._embedder is None else self._embedder.model
        return f"InMemoryVectorMemoryService(embedder={model!r}, top_k={self._top_k})"

    async def add_session_to_memory(self, session: Session) -> None:
        """Remembers a session: its memories become the given events', the last version of each."""
        scope, entries = (session.app_name, session.user_id), _entries(session.id, session.events)
        await self._keep(scope, session.id, {str(entry.id): entry for entry in entries})
        held, given = self._scopes[scope], {entry.id for entry in entries}
        for kept in [*held.values()]:
            if kept.session_id == session.id and kept.entry.id not in given:
                held.pop(str(kept.entry.id), None)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers events after those that are known of the session, which stay as they are."""
        scope, session_id = (app_name, user_id), session_id or ""
        new: dict[str, MemoryEntry] = {}
        for entry in _entries(session_id, events, custom_metadata):
            if entry.id not in self._scopes.get(scope, {}):
                new.setdefault(str(entry.id), entry)
        await self._keep(scope, session_id, new)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers entries as they are; one whose id is stored already replaces it.

        Raises:
          InvalidInput: An entry has no text; none was stored.
        """
        new = {}
        for memory in memories:
            if not said(memory.content).strip():
                raise InvalidInput("A memory without text cannot be recalled; give it text.")
            entry = memory.model_copy(deep=True)
            entry.id = entry.id or str(uuid4())
            entry.custom_metadata = {**(custom_metadata or {}), **entry.custom_metadata}
            new[entry.id] = entry
        await self._keep((app_name, user_id), None, new)

    async def delete_memory(  # type: ignore[override] # ADK's returns None: what went is told, too
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> list[str]:
        """Deletes a memory and its repetitions; adding their sessions does not bring them back.

        Repetitions are what `PgVectorMemoryService` folds into one hit.

        Returns:
          The ids of the memories that went, the given one first; none if there was none.
        """
        scope = (app_name, user_id)
        held = self._scopes.get(scope, {})
        if memory_id not in held:
            return []
        kept = [*held.values()]
        gone: list[str] = []
        for group in groups([each.text for each in kept], lambda place: kept[place].entry.author):
            ids = [str(kept[place].entry.id) for place in group]
            if memory_id in ids:
                gone = sorted(ids, key=lambda id_: id_ != memory_id)
        for each in gone:
            if held.pop(each).session_id is not None:
                self._deleted.add((scope, each))
        return gone

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Returns what is remembered of a user that answers a question, the best first."""
        held = [*self._scopes.get((app_name, user_id), {}).values()]
        asked = query.strip().casefold()
        words = _words(asked)
        if not words or not held:
            return SearchMemoryResponse()
        vector = None
        if self._embedder is not None:
            vector = unit_vector(await embed_query_checked(self._embedder, query))
        found: list[tuple[float, MemoryEntry]] = []
        for kept in held:
            text = kept.text.casefold()
            share = 1.0 if asked in text else len(words & _words(text)) / len(words)
            cosine = sum(map(mul, vector, kept.vector)) if vector and kept.vector else 0.0
            if 0 < max(share, cosine) >= self._min_relevance:
                found.append((share + max(cosine, 0.0), kept.entry))
        found.sort(key=lambda hit: -hit[0])
        best = [entry.model_copy(deep=True) for _, entry in found[: self._top_k]]
        return SearchMemoryResponse(memories=best)

    async def _keep(
        self, scope: Scope, session_id: str | None, entries: Mapping[str, MemoryEntry]
    ) -> None:
        """Embeds those of some memories, by their ids, that are new or say something else."""
        held = self._scopes.setdefault(scope, {})
        texts = {id_: said(entry.content) for id_, entry in entries.items()}
        vectors = {
            id_: held[id_].vector for id_ in texts if id_ in held and held[id_].text == texts[id_]
        }
        if self._embedder is not None:
            new = [id_ for id_ in texts if id_ not in vectors]
            embedded = await embed_checked(self._embedder, [texts[id_] for id_ in new])
            vectors.update(zip(new, map(unit_vector, embedded), strict=True))
        for id_, entry in entries.items():
            if (scope, id_) not in self._deleted:
                held[id_] = _Kept(entry, session_id, texts[id_], vectors.get(id_))


def _entries(
    session_id: str, events: Sequence[Event], metadata: Mapping[str, object] | None = None
) -> list[MemoryEntry]:
    """Entries of the events that have text; an event's id tells it apart in its session alone."""
    return [
        MemoryEntry(
            id=str((session_id, event.id)),
            author=event.author,
            timestamp=clamped(event.timestamp).isoformat(),
            content=event.content.model_copy(deep=True),
            custom_metadata=dict(metadata or {}),
        )
        for event in events
        if event.content is not None and said(event.content).strip()
    ]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))
