"""InMemoryVectorMemoryService: memory in this process, for tests and notebooks without a server.

Small on purpose: whole words and cosines. ``PgVectorMemoryService("embedded")`` answers as in
production.
"""

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from operator import mul
from typing import Self, Unpack
from uuid import NAMESPACE_OID, uuid5

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.sessions.session import Session

from adkpg import cursors
from adkpg.embedding.embedder import Embedder, floor_of
from adkpg.embedding.guarded import GuardedEmbedder
from adkpg.errors import EmbeddingError, InvalidInput
from adkpg.keys import require_storable, scope_user, storable
from adkpg.memory import records
from adkpg.memory.drafts import Draft, drafts_of_events, drafts_of_memories
from adkpg.memory.filters import NO_FILTERS, SearchFilters, meets
from adkpg.memory.invocation import running_invocation
from adkpg.memory.pages import MemoriesPage
from adkpg.memory.records import Memory
from adkpg.memory.search.hits import Hit, Reason, folded, gathered, within_budget
from adkpg.memory.search.options import (
    SearchOptions,
    SearchOverrides,
    require_embedder,
    service_defaults,
)
from adkpg.memory.search.ranking import RANKING
from adkpg.memory.tokenizer import searchable
from adkpg.outages.breaker import Breakers
from adkpg.remember.policy import Remember, policy_of
from adkpg.settings import Settings
from adkpg.telemetry.calls import CREATE, DELETE, SEARCH, UPSERT, accepts, traced
from adkpg.timestamps import clamped

logger = logging.getLogger(__name__)

Scope = tuple[str, str]  # app and user
Given = Mapping[str, object] | None  # custom metadata


@dataclass(eq=False)
class _Entry:
    draft: Draft
    number: int  # in the order of writing
    words: frozenset[str]
    vector: list[float] | None = None  # of unit length

    def memory(self) -> Memory:
        return records.memory({**vars(self.draft), "superseded_by": None})


@traced(
    search=SEARCH,
    search_memory=SEARCH,
    add_session_to_memory=UPSERT,
    add_events_to_memory=UPSERT,
    add_memory=CREATE,
    delete_memory=DELETE,
)
class InMemoryVectorMemoryService(BaseMemoryService):
    """An ADK memory service without Postgres: what it remembers ends with the process.

    Its methods take and return what those of `PgVectorMemoryService` do, and raise the same errors.
    Threads and event loops may share it; what it returns is the caller's own.

    Args:
      embedder: What turns texts into vectors. None is ``ADKPG_EMBEDDER``: by default the offline
        one if ``adkpg[local]`` is installed, else words only, with one warning.
      remember: What becomes memory, as `Database` takes it. None is ``ADKPG_REMEMBER``.
      **options: Of every search that does not say otherwise; `top_k` is 5 if left out.

    Raises:
      ConfigurationError: An argument cannot work.
    """

    def __init__(
        self,
        *,
        embedder: Embedder | None = None,
        remember: Remember | None = None,
        **options: Unpack[SearchOverrides],
    ) -> None:
        settings = Settings()
        self._defaults, embedder = service_defaults(
            SearchOptions(top_k=5), embedder, settings.embedder, options
        )
        self._embedder: GuardedEmbedder | None = None
        if embedder is not None:
            self._embedder = GuardedEmbedder(embedder, Breakers(), settings)
        self._policy = policy_of(settings.remember if remember is None else remember)
        self._scopes: dict[Scope, dict[str, _Entry]] = {}  # app and user; memory id
        self._deleted: set[tuple[str, str, str]] = set()  # app, user, memory id
        self._numbers = count()
        self._told = None if embedder is None else f"{embedder.model} ({embedder.dimensions})"

    def __repr__(self) -> str:
        return f"InMemoryVectorMemoryService(embedder={self._told!r}, mode={self._defaults.mode!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def add_session_to_memory(self, session: Session) -> None:
        """Remembers a session: its memories become the given events', the last version of each."""
        scope = (session.app_name, session.user_id)
        drafts = self._drafts(scope, session.id, session.events)
        held, given = self._scopes.get(scope, {}), {draft.memory_id for draft in drafts}
        for known in [entry.draft for entry in _entries(held)]:
            of_session = known.event_id is not None and known.session_id == session.id
            if of_session and known.memory_id not in given:
                held.pop(known.memory_id, None)
        await self._keep(scope, drafts)

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
        scope = (app_name, user_id)
        drafts = self._drafts(scope, session_id or "", events, custom_metadata)
        await self._keep(scope, drafts, replacing=False)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str | None,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers entries as they are; one whose id is stored already replaces it."""
        require_storable(app_name=app_name)
        scope, now = (app_name, scope_user(user_id)), platform_time.get_time()
        await self._keep(scope, drafts_of_memories(memories, custom_metadata, now, self._policy))

    async def get_memory(
        self, *, app_name: str, user_id: str | None, memory_id: str
    ) -> Memory | None:
        """Returns a memory, also one that has expired; None if there is none."""
        entry = self._held(app_name, user_id).get(memory_id)
        return None if entry is None else entry.memory()

    async def list_memories(
        self,
        *,
        app_name: str,
        user_id: str | None,
        filters: SearchFilters | None = None,
        limit: int = 50,
        cursor: str | None = None,
        live: bool = True,
    ) -> MemoriesPage:
        """Returns some memories of a scope, newest first."""
        if limit < 1:
            raise InvalidInput(f"limit={limit} is below 1; ask for at least one.")
        start = None if cursor is None else cursors.read(cursor, datetime, int)
        entries = [
            ((entry.draft.timestamp, entry.number), entry)
            for entry in _entries(self._held(app_name, user_id))
            if meets(entry.draft, filters or NO_FILTERS) and (_live(entry) or not live)
        ]
        found = sorted(entries, reverse=True)
        found = [pair for pair in found if start is None or pair[0] < start]
        following = cursors.written(*found[limit - 1][0]) if len(found) > limit else None
        return MemoriesPage([entry.memory() for _, entry in found[:limit]], following)

    async def delete_memory(
        self, *, app_name: str, user_id: str | None, memory_id: str | None = None
    ) -> None:
        """Deletes a memory, if there is one; adding its session again does not bring it back."""
        entry = self._held(app_name, user_id).pop(memory_id or "", None)
        if entry is not None and entry.draft.event_id is not None:
            self._deleted.add((app_name, scope_user(user_id), entry.draft.memory_id))

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Returns what is remembered of a user that answers a question, the best first."""
        found = await self.search(app_name=app_name, user_id=user_id, query=query)
        return SearchMemoryResponse(memories=[hit.memory.plain() for hit in found])

    async def search(
        self,
        *,
        app_name: str,
        user_id: str | None,
        query: str,
        **overrides: Unpack[SearchOverrides],
    ) -> list[Hit]:
        """Returns hits with their reasons, the best first.

        A hit shares a word with the question, or its cosine is at least `min_score`. Its score is
        the share of the question's words that it has, of which rare ones count more, plus its
        cosine. Age and importance change nothing, and no neighbours are returned.
        """
        overrides.setdefault("exclude_invocation_id", running_invocation())
        options = self._defaults.changed(**overrides)
        require_embedder(options.mode, self._embedder)
        text = records.storable_text(query)
        if not text:
            return []
        vector, least = None, options.min_score
        words_alone: str | None = None
        if options.mode != "text" and self._embedder is not None:
            least = floor_of(self._embedder.embedder) if least is None else least
            try:
                vector = records.unit_vector(await self._embedder.question(text))
            except EmbeddingError as exc:
                if options.mode == "vector":
                    raise
                words_alone = str(exc)
                if self._embedder.news("searches", exc):
                    logger.warning("The search answers by words alone: %s", exc)
        running = options.exclude_invocation_id
        entries = [
            entry
            for user in dict.fromkeys([user_id, None] if options.app_wide else [user_id])
            for entry in _entries(self._held(app_name, user))
            if meets(entry.draft, options.filters)
            and _live(entry)
            and (running is None or entry.draft.invocation_id != running)
        ]
        asked = frozenset() if options.mode == "vector" else _words(searchable(text))
        having = Counter(word for entry in entries for word in entry.words & asked)
        rarity = {word: 1 / max(having[word], 1) for word in asked}
        found = []
        for entry in entries:
            lexemes, cosine = tuple(sorted(entry.words & asked)), None
            if vector is not None and entry.vector is not None:
                cosine = sum(map(mul, vector, entry.vector))
            if lexemes or (cosine is not None and least is not None and cosine >= least):
                shared = sum(rarity[word] for word in lexemes)
                lexical = shared / sum(rarity.values()) if lexemes else 0.0
                score = lexical + max(cosine or 0.0, 0.0)
                reason = Reason(lexical, lexemes, cosine, 1.0, 1.0, score, words_alone)
                found.append(Hit(entry.memory(), score, reason))
        found = folded(sorted(found, key=lambda hit: -hit.score))
        if options.gather:
            return gathered(
                found[: RANKING.gathered], options.max_tokens or RANKING.gathered_tokens, {}
            )
        found = found[: options.top_k]
        return found if options.max_tokens is None else within_budget(found, options.max_tokens)

    def _held(self, app_name: str, user_id: str | None) -> dict[str, _Entry]:
        """A scope's memories by id."""
        if not storable(user_id=user_id):
            return {}
        return self._scopes.get((app_name, scope_user(user_id)), {})

    def _drafts(
        self, scope: Scope, session_id: str, events: Sequence[Event], metadata: Given = None
    ) -> list[Draft]:
        """Drafts of events; each event has one id in memory, by which it is known again."""
        require_storable(app_name=scope[0], user_id=scope[1], session_id=session_id)
        now = platform_time.get_time()
        drafts = drafts_of_events(events, session_id, metadata, now=now, policy=self._policy)
        ids = [uuid5(NAMESPACE_OID, f"{session_id}\x00{draft.event_id}") for draft in drafts]
        return [replace(draft, memory_id=str(id_)) for draft, id_ in zip(drafts, ids, strict=True)]

    async def _keep(self, scope: Scope, drafts: Sequence[Draft], *, replacing: bool = True) -> None:
        """Stores memories and embeds them; those that cannot be, with the scope's next ones."""
        accepts(drafts)
        held = self._scopes.setdefault(scope, {})
        for draft in drafts:
            known = held.get(draft.memory_id)
            changed = known is None or (replacing and known.draft.digest != draft.digest)
            if changed and (*scope, draft.memory_id) not in self._deleted:
                held[draft.memory_id] = _Entry(draft, next(self._numbers), _words(draft.words))
        waiting = [entry for entry in _entries(held) if entry.vector is None]
        if self._embedder is None:
            return
        self._embedder.forgive()  # no worker would catch up
        try:
            vectors = await self._embedder.documents([entry.draft.body for entry in waiting])
        except EmbeddingError as exc:
            logger.warning("The memories are found by their words, but have no vectors: %s", exc)
            return
        for entry, vector in zip(waiting, vectors, strict=True):
            entry.vector = records.unit_vector(vector)


def _entries(held: dict[str, _Entry]) -> list[_Entry]:
    """A scope's entries now; copied in one step, since another thread may add some meanwhile."""
    return [*held.values()]


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))


def _live(entry: _Entry) -> bool:
    expires_at = entry.draft.expires_at
    return expires_at is None or expires_at > clamped(platform_time.get_time())
