"""InMemoryVectorMemoryService: memory in this process, for tests and notebooks without a server.

Small on purpose: a memory is found by the words it shares with the question and by its cosine.
For the answers of the real service use ``PgVectorMemoryService("embedded")``.
"""

import logging
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from operator import mul
from typing import Any, Self, Unpack

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.sessions.session import Session

from adkpg import cursors, jsontext
from adkpg.embedding.default import default_embedder
from adkpg.embedding.embedder import Embedder, embed_checked, embed_query_checked, floor_of
from adkpg.errors import ConfigurationError, EmbeddingError, InvalidInput
from adkpg.keys import APP_WIDE, require_storable, scope_user, storable
from adkpg.memory import records
from adkpg.memory.drafts import Draft, drafts_of_events, drafts_of_memories
from adkpg.memory.filters import NO_FILTERS, SearchFilters
from adkpg.memory.invocation import running_invocation
from adkpg.memory.pages import MemoriesPage
from adkpg.memory.records import Memory
from adkpg.memory.search.hits import Hit, Reason, folded, within_budget
from adkpg.memory.search.options import SearchOptions, SearchOverrides, require_embedder
from adkpg.memory.search.ranking import RANKING
from adkpg.memory.tokenizer import searchable
from adkpg.remember.policy import Remember, policy_of
from adkpg.settings import Settings
from adkpg.timestamps import clamped

logger = logging.getLogger(__name__)

_WORD = re.compile(r"\w+")


@dataclass(eq=False)
class _Entry:
    """One memory, and its place in the order of writing."""

    draft: Draft
    number: int
    words: frozenset[str]
    vector: list[float] | None = None  # of unit length

    def memory(self) -> Memory:
        return records.memory({**vars(self.draft), "superseded_by": None})


class InMemoryVectorMemoryService(BaseMemoryService):
    """An ADK memory service without Postgres: what it remembers ends with the process.

    It takes what `PgVectorMemoryService` takes and returns the same types, but ranks by plain words
    and cosines, so hits, order and scores differ. Threads and event loops may share it; what it
    returns is the caller's own.

    Args:
      embedder: What turns texts into vectors. None is ``ADKPG_EMBEDDER``: by default the offline
        one if ``adkpg[local]`` is installed, else words only, with one warning.
      remember: What becomes memory, and in which words, as `Database` takes it. None is
        ``ADKPG_REMEMBER``; without either, every text as it is.
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
        try:
            self._defaults = SearchOptions(top_k=5).changed(**options)
        except InvalidInput as exc:
            raise ConfigurationError(str(exc)) from exc
        if embedder is None and self._defaults.mode != "text":
            embedder = default_embedder(settings.embedder)
        require_embedder(self._defaults.mode, embedder)
        if embedder is None:
            self._defaults = replace(self._defaults, mode="text")
        self._embedder = embedder
        self._policy = policy_of(settings.remember if remember is None else remember)
        self._scopes: dict[tuple[str, str], dict[str, _Entry]] = {}  # by app and user, by memory id
        self._deleted: set[tuple[str, str, str, str]] = set()  # app, user, session, event
        self._numbers = count()
        self._lock = threading.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        return None

    async def add_session_to_memory(self, session: Session) -> None:
        """Remembers a session: its memories become the given events', the last version of each.

        Deleted memories do not come back. Left out: thoughts, events without text, and auth events.

        Raises:
          InvalidInput: An id cannot be stored; nothing was written.
        """
        drafts = drafts_of_events(session.events, session.id, policy=self._policy)
        last = list({draft.event_id: draft for draft in drafts}.values())
        await self._ingest(session.app_name, session.user_id, session.id, last, whole=True)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers events after what the session has in memory; the first version of each stays.

        Raises:
          InvalidInput: A value cannot be stored; nothing was written.
        """
        now, policy = platform_time.get_time(), self._policy
        drafts = drafts_of_events(events, session_id or "", custom_metadata, now=now, policy=policy)
        await self._ingest(app_name, user_id, session_id or "", drafts, whole=False)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str | None,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers entries as they are; one whose id is stored already replaces it.

        One of which the policy leaves nothing is left out.

        Raises:
          InvalidInput: An entry has no text, or a value cannot be stored; nothing was written.
        """
        require_storable(app_name=app_name)
        scope = (app_name, scope_user(user_id))
        now = platform_time.get_time()
        drafts = drafts_of_memories(memories, custom_metadata, now, self._policy)
        with self._lock:
            held = self._scopes.setdefault(scope, {})
            for draft in drafts:
                held[draft.memory_id] = self._entry(draft, held.get(draft.memory_id))
        await self._embed(scope)

    async def get_memory(
        self, *, app_name: str, user_id: str | None, memory_id: str
    ) -> Memory | None:
        """Returns a memory, also one that has expired; None if there is none."""
        if not storable(app_name=app_name, user_id=user_id):
            return None
        entry = self._scopes.get((app_name, scope_user(user_id)), {}).get(memory_id)
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
        """Returns some memories of a scope, newest first.

        Raises:
          InvalidInput: `limit` is below 1, or `cursor` did not come from a page.
        """
        if limit < 1:
            raise InvalidInput(f"limit={limit} is below 1; ask for at least one.")
        start = None if cursor is None else cursors.read(cursor, datetime, int)
        if not storable(app_name=app_name, user_id=user_id):
            return MemoriesPage([], None)
        entries = self._entries([(app_name, scope_user(user_id))], filters or NO_FILTERS, live=live)
        found = sorted(((each.draft.timestamp, each.number), each) for each in entries)[::-1]
        found = [pair for pair in found if start is None or pair[0] < start]
        following = cursors.written(*found[limit - 1][0]) if len(found) > limit else None
        return MemoriesPage([entry.memory() for _, entry in found[:limit]], following)

    async def delete_memory(
        self, *, app_name: str, user_id: str | None, memory_id: str | None = None
    ) -> None:
        """Deletes one memory; adding its session again does not bring it back.

        None and an unknown id do nothing.
        """
        if memory_id is None or not storable(app_name=app_name, user_id=user_id):
            return
        scope = (app_name, scope_user(user_id))
        with self._lock:
            entry = self._scopes.get(scope, {}).pop(memory_id, None)
            if entry is not None and entry.draft.event_id is not None:
                self._deleted.add((*scope, entry.draft.session_id, entry.draft.event_id))

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Returns what is remembered of a user that answers a question, the best first.

        Any text is a query; an empty one finds nothing. See `search` for options and scores.
        """
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
        cosine, times the factors of its age and importance. Hits have no neighbours here.

        Raises:
          EmbeddingError: The embedder failed and only vectors were asked for.
          ConfigurationError: Only vectors were asked for, and there is no embedder.
          InvalidInput: An option is out of range.
        """
        overrides.setdefault("exclude_invocation_id", running_invocation())
        options = self._defaults.changed(**overrides)
        require_embedder(options.mode, self._embedder)
        text = records.storable_text(query)
        if not text or not storable(app_name=app_name, user_id=user_id):
            return []
        vector, least = None, options.min_score
        if options.mode != "text" and self._embedder is not None:
            least = floor_of(self._embedder) if least is None else least
            try:
                vector = records.unit_vector(await embed_query_checked(self._embedder, text))
            except EmbeddingError as exc:
                if options.mode == "vector":
                    raise
                logger.warning("The search answers by words alone: %s", exc)
        scopes = {(app_name, scope_user(user_id))}
        if options.app_wide:
            scopes.add((app_name, APP_WIDE))
        running = options.exclude_invocation_id
        entries = [
            entry
            for entry in self._entries(sorted(scopes), options.filters, live=True)
            if running is None or entry.draft.invocation_id != running
        ]
        asked = frozenset() if options.mode == "vector" else _words(searchable(text))
        having = Counter(word for entry in entries for word in entry.words & asked)
        having.update(asked - having.keys())  # one that nobody has is as rare as can be
        found = []
        for entry in entries:
            both = vector is not None and entry.vector is not None
            cosine = sum(map(mul, vector or [], entry.vector or [])) if both else None
            lexemes = entry.words & asked
            if lexemes or (cosine is not None and least is not None and cosine >= least):
                found.append(_hit(entry, lexemes, having, cosine, options.half_life))
        found = folded(sorted(found, key=lambda hit: -hit.score))[: options.top_k]
        return found if options.max_tokens is None else within_budget(found, options.max_tokens)

    def _entries(
        self, scopes: Sequence[tuple[str, str]], filters: SearchFilters, *, live: bool
    ) -> list[_Entry]:
        """The memories of scopes that meet the filters."""
        now, asked = clamped(platform_time.get_time()), filters.parameters
        with self._lock:
            entries = [e for scope in scopes for e in self._scopes.get(scope, {}).values()]
        return [
            entry
            for entry in entries
            if all(_meets(entry.draft, name, value) for name, value in asked.items())
            and not (live and entry.draft.expires_at and entry.draft.expires_at <= now)
        ]

    def _entry(self, draft: Draft, known: _Entry | None) -> _Entry:
        """The known memory if nothing changed, else a new one under its id."""
        if known is not None:
            if known.draft.digest == draft.digest:
                return known
            kept = {n: getattr(known.draft, n) for n in ("memory_id", "session_id", "event_id")}
            draft = replace(draft, **kept)
        return _Entry(draft, next(self._numbers), _words(draft.words))

    async def _ingest(
        self, app_name: str, user_id: str, session_id: str, drafts: Sequence[Draft], *, whole: bool
    ) -> None:
        require_storable(app_name=app_name, user_id=user_id, session_id=session_id)
        with self._lock:
            held = self._scopes.setdefault((app_name, user_id), {})
            known: dict[str | None, _Entry] = {
                entry.draft.event_id: entry
                for entry in held.values()
                if entry.draft.session_id == session_id and entry.draft.event_id is not None
            }
            if whole:
                for entry in known.values():
                    del held[entry.draft.memory_id]
            for draft in drafts:
                key = (app_name, user_id, session_id, str(draft.event_id))
                if key not in self._deleted and (whole or draft.event_id not in known):
                    entry = self._entry(draft, known.get(draft.event_id))
                    held[entry.draft.memory_id] = known[draft.event_id] = entry
        await self._embed((app_name, user_id))

    async def _embed(self, scope: tuple[str, str]) -> None:
        """Embeds what has no vector yet; what fails is embedded with the scope's next memories."""
        if self._embedder is None:
            return
        with self._lock:
            waiting = [entry for entry in self._scopes[scope].values() if entry.vector is None]
        try:
            vectors = await embed_checked(self._embedder, [each.draft.body for each in waiting])
        except EmbeddingError as exc:
            logger.warning("The memories are found by their words, but have no vectors: %s", exc)
            return
        for entry, vector in zip(waiting, vectors, strict=True):
            entry.vector = records.unit_vector(vector)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def _hit(
    entry: _Entry,
    lexemes: frozenset[str],
    having: Counter[str],
    cosine: float | None,
    half_life: timedelta | None,
) -> Hit:
    rarity = sum(1 / having[word] for word in lexemes)
    lexical = rarity / sum(1 / number for number in having.values()) if lexemes else 0.0
    recency = 1.0
    if half_life is not None:
        age = max(clamped(platform_time.get_time()) - entry.draft.timestamp, timedelta())
        recency = 0.5 ** (age / half_life)
    low, high = RANKING.importance_factors
    importance = low + (high - low) * entry.draft.importance
    score = (lexical + max(cosine or 0.0, 0.0)) * recency * importance
    reason = Reason(lexical, tuple(sorted(lexemes)), cosine, recency, importance, score)
    return Hit(entry.memory(), score, reason)


def _meets(draft: Draft, name: str, value: Any) -> bool:
    """Whether a memory meets one condition of `SearchFilters.parameters`."""
    match name:
        case "after":
            return bool(draft.timestamp >= value)
        case "before":
            return bool(draft.timestamp < value)
        case "topics":
            return not set(jsontext.read(draft.topics)).isdisjoint(value)
        case "metadata":
            return _contains(jsontext.read(draft.custom_metadata or "null"), jsontext.read(value))
        case _:  # authors, session_ids, kinds
            return getattr(draft, name.removesuffix("s")) in value


def _contains(value: Any, asked: Any) -> bool:
    """Whether JSON contains other JSON, as jsonb's ``@>`` has it."""
    if isinstance(asked, dict) and isinstance(value, dict):
        return all(key in value and _contains(value[key], asked[key]) for key in asked)
    if isinstance(asked, list) and isinstance(value, list):
        return all(any(_contains(each, item) for each in value) for item in asked)
    return isinstance(value, bool) == isinstance(asked, bool) and bool(value == asked)
