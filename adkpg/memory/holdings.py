"""Holdings: the collections of all scopes in this process, behind one lock.

Every call takes the lock for what it reads or writes and never while it waits for anything, so
tasks, event loops and threads may share them. What they return are copies.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from google.adk.platform import time as platform_time

from adkpg.keys import APP_WIDE
from adkpg.memory import records, scoring
from adkpg.memory.collection import Collection, Entry, Terms, terms_of
from adkpg.memory.drafts import Draft
from adkpg.memory.filters import SearchFilters
from adkpg.memory.lexemes import lexemes, require_config
from adkpg.memory.matching import meets
from adkpg.memory.search import hits
from adkpg.memory.search.hits import Hit
from adkpg.memory.search.options import SearchOptions
from adkpg.memory.search.ranking import RANKING
from adkpg.memory.tokenizer import script_config, searchable
from adkpg.memory.write import plan as ingestion
from adkpg.timestamps import clamped

Scope = tuple[str, str]
"""App name, and user id or the reserved one of the app-wide scope."""


class Holdings:
    """Memories of any number of scopes.

    Args:
      config: Text search configuration where a text's script has none.

    Raises:
      ConfigurationError: There is no stemmer for it.
    """

    def __init__(self, config: str) -> None:
        self._config = require_config(config)
        self._lock = threading.Lock()
        self._collections: dict[Scope, Collection] = {}

    def ingest(
        self, scope: Scope, session_id: str, drafts: Sequence[Draft], *, whole: bool
    ) -> None:
        """Does what `Collection.ingest` says."""
        terms = self._prepared(scope, drafts)
        block = ingestion.new_block(scope[1])
        with self._lock:
            self._collections.setdefault(scope, Collection()).ingest(
                session_id, drafts, block, terms, whole=whole
            )

    def write(self, scope: Scope, drafts: Sequence[Draft]) -> None:
        """Does what `Collection.write` says."""
        terms = self._prepared(scope, drafts)
        with self._lock:
            self._collections.setdefault(scope, Collection()).write(
                drafts, partial(ingestion.new_block, scope[1]), terms
            )

    def change(
        self,
        scope: Scope,
        memory_id: str,
        changed: Callable[[Mapping[str, Any]], Draft],
        *,
        rewrite: bool,
    ) -> bool:
        """Changes a memory; returns whether there is one.

        Args:
          scope: Where.
          memory_id: Its id.
          changed: Takes its row and returns it as it is to be.
          rewrite: Whether its text changes.
        """
        with self._lock:
            collection = self._known(scope)
            entry = collection.entry(memory_id)
            if entry is None:
                return False
            collection.change(entry, changed(entry.row), self._terms, rewrite=rewrite)
            return True

    def delete(self, scope: Scope, memory_id: str) -> None:
        """Does what `Collection.delete` says."""
        with self._lock:
            self._known(scope).delete(memory_id)

    def row(self, scope: Scope, memory_id: str) -> dict[str, Any] | None:
        """Returns a memory as `records.memory` reads it; None if there is none."""
        with self._lock:
            entry = self._known(scope).entry(memory_id)
            return None if entry is None else entry.row

    def rows(self, scope: Scope, filters: SearchFilters, *, live: bool) -> list[dict[str, Any]]:
        """Returns memories with their positions, the newest first.

        Args:
          scope: Where.
          filters: Which ones.
          live: Without those that have expired.
        """
        now = _now()
        with self._lock:
            found = [
                entry.row
                for entry in self._known(scope).entries.values()
                if meets(entry.draft, filters.parameters) and (entry.live(now) or not live)
            ]
        return sorted(found, key=lambda row: (row["timestamp"], row["position"]), reverse=True)

    def hits(
        self,
        scope: Scope,
        text: str,
        vector: Sequence[float] | None,
        options: SearchOptions,
        floor: float,
    ) -> list[Hit]:
        """Returns what answers a question, the best first, as `PgVectorMemoryService.search` does.

        Args:
          scope: Where.
          text: The question.
          vector: Its vector of unit length ``[d]``; None looks for its words alone.
          options: How to answer.
          floor: The cosine under which the model finds noise, unless the options say another.
        """
        words = searchable(text)[: records.WORDS_LIMIT]
        question = scoring.Question(
            lexemes=None
            if options.mode == "vector"
            else frozenset(lexemes(words, script_config(words) or self._config)),
            vector=vector,
            min_cosine=floor if options.min_score is None else options.min_score,
            # A floor that the caller sets is meant: all above it are hits.
            nearest=RANKING.nearest if options.min_score is None else RANKING.candidates,
            near=RANKING.near if options.min_score is None else 0.0,
            now=_now(),
        )
        scopes = {scope, (scope[0], APP_WIDE)} if options.app_wide else {scope}
        around: dict[int, list[dict[str, Any]]] = {}
        with self._lock:
            collections = [self._known(each) for each in scopes]
            for more in hits.ROWS_PER_HIT:
                rows = scoring.best(collections, question, options, math.ceil(more * options.top_k))
                found = hits.folded([hits.hit(row) for row in rows])
                if len(found) >= options.top_k or len(rows) < math.ceil(more * options.top_k):
                    break
            if options.neighbours:
                around = {
                    row["position"]: _around(
                        collections, row["position"], options.neighbours, question.now
                    )
                    for row in rows
                }
        positions = {row["memory_id"]: row["position"] for row in rows}
        found = [
            replace(hit, neighbours=tuple(map(records.memory, around.get(position, ()))))
            for hit in found[: options.top_k]
            for position in [positions[str(hit.memory.id)]]
        ]
        if options.max_tokens is not None:
            found = hits.within_budget(found, options.max_tokens)
        return found

    def pending_scopes(self, app_name: str | None, user_id: str | None) -> list[Scope]:
        """Returns the scopes with memories that wait for a vector, whoever embeds them.

        Args:
          app_name: Of this app; None is any.
          user_id: Of this user; None is any.
        """
        with self._lock:
            return [
                scope
                for scope, collection in self._collections.items()
                if app_name in (None, scope[0])
                and user_id in (None, scope[1])
                and any(entry.vector is None for entry in collection.entries.values())
            ]

    def claim(self, scope: Scope, most: int, attempts: int) -> list[Entry]:
        """Returns memories that wait for a vector and that nobody embeds yet; see `release`.

        Args:
          scope: Where.
          most: At most so many.
          attempts: Those that failed as often are given up.
        """
        with self._lock:
            waiting = [
                entry
                for _, entry in sorted(self._known(scope).entries.items())
                if entry.vector is None and not entry.claimed and entry.attempts < attempts
            ][:most]
            for entry in waiting:
                entry.claimed = True
            return waiting

    def release(self, entries: Sequence[Entry]) -> None:
        """Leaves claimed memories to others."""
        with self._lock:
            for entry in entries:
                entry.claimed = False

    def refuse(self, entries: Sequence[Entry]) -> None:
        """Counts a failed attempt at claimed memories."""
        with self._lock:
            for entry in entries:
                entry.attempts += 1

    def embed(self, scope: Scope, entries: Sequence[Entry], vectors: Sequence[list[float]]) -> int:
        """Does what `Collection.embed` says."""
        with self._lock:
            return self._known(scope).embed(entries, vectors)

    def waiting(self, app_name: str | None, user_id: str | None, attempts: int) -> bool:
        """Returns whether memories wait for a vector that are not given up; see `claim`."""
        with self._lock:
            return any(
                entry.vector is None and entry.attempts < attempts
                for scope, collection in self._collections.items()
                if app_name in (None, scope[0]) and user_id in (None, scope[1])
                for entry in collection.entries.values()
            )

    def _known(self, scope: Scope) -> Collection:
        return self._collections.get(scope) or Collection()

    def _terms(self, draft: Draft) -> Terms:
        return terms_of(draft, self._config)

    def _prepared(self, scope: Scope, drafts: Sequence[Draft]) -> Callable[[Draft], Terms]:
        """Finds the words of what is new before the lock is taken."""
        with self._lock:
            known = self._known(scope).digests()
        terms = {draft.digest: self._terms(draft) for draft in drafts if draft.digest not in known}
        return lambda draft: terms.get(draft.digest) or self._terms(draft)


def _now() -> datetime:
    return clamped(platform_time.get_time())


def _around(
    collections: Sequence[Collection], position: int, reach: int, now: datetime
) -> list[dict[str, Any]]:
    """The live memories around a place, by position."""
    entries = [
        collection.entries.get(place)
        for place in range(position - reach, position + reach + 1)
        if place != position
        for collection in collections
    ]
    return [entry.row for entry in entries if entry is not None and entry.live(now)]
