"""InMemoryVectorMemoryService: memory in this process, for tests and notebooks without a server."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from typing import Self, Unpack

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.sessions.session import Session

from adkpg.embedding.default import default_embedder
from adkpg.embedding.embedder import Embedder
from adkpg.errors import ConfigurationError, EmbeddingError, InvalidInput
from adkpg.keys import require_storable, scope_user, storable
from adkpg.memory import pages, records
from adkpg.memory.drafts import Draft, changed_draft, drafts_of_events, drafts_of_memories
from adkpg.memory.filters import NO_FILTERS, SearchFilters
from adkpg.memory.holdings import Holdings
from adkpg.memory.holdings_vectors import HoldingsVectors
from adkpg.memory.records import Memory
from adkpg.memory.search.hits import Hit
from adkpg.memory.search.options import SearchOptions, SearchOverrides, require_embedder
from adkpg.remember.policy import RememberPolicy, remembered_events
from adkpg.settings import Settings

logger = logging.getLogger(__name__)

_TOP_K = 5


class InMemoryVectorMemoryService(BaseMemoryService):
    """`PgVectorMemoryService` without Postgres: what it remembers ends with the process.

    The same words, ranking, options, hits and errors; see `adkpg.memory.lexemes` for how alike the
    words are. Needs ``pip install 'adkpg[local]'``. Threads and event loops may share it; what it
    returns is the caller's own. Each search compares all of a user's memories, in about 30 ms for
    2,000.

    Two things need a database: no session service is known, so what a session that is added again
    no longer has is forgotten; and there is no worker beside it, nor another process.

    Args are those of `PgVectorMemoryService` without a database; `top_k` is 5 if left out, and
    `settings` holds for memory (None reads the environment).

    Raises:
      ConfigurationError: An argument cannot work, or ``adkpg[local]`` is not installed.
    """

    def __init__(
        self,
        *,
        embedder: Embedder | None = None,
        policy: RememberPolicy | None = None,
        settings: Settings | None = None,
        **options: Unpack[SearchOverrides],
    ) -> None:
        for package in ("numpy", "snowballstemmer"):
            if find_spec(package) is None:
                raise ConfigurationError(
                    f"Memory in this process needs {package}; run pip install 'adkpg[local]'."
                )
        try:
            self._defaults = SearchOptions(top_k=_TOP_K).changed(**options)
        except InvalidInput as exc:
            raise ConfigurationError(str(exc)) from exc
        settings = settings or Settings()
        if embedder is None and self._defaults.mode != "text":
            embedder = default_embedder(settings.embedder)
        require_embedder(self._defaults.mode, embedder)
        self._holdings = Holdings(settings.text_search_config)
        self._vectors = None
        if embedder is None:
            self._defaults = replace(self._defaults, mode="text")
        else:
            self._vectors = HoldingsVectors(self._holdings, embedder, settings)
        self._policy = policy

    @property
    def embedder(self) -> Embedder | None:
        """What turns texts into vectors; None if only words are searched."""
        return self._vectors.embedder if self._vectors is not None else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        return None

    async def close(self) -> None:
        """Does nothing: what is remembered stays until the service is dropped."""

    async def add_session_to_memory(self, session: Session) -> None:
        """Remembers a session: its memories become the given events', the last version of each.

        Adding it again changes nothing. Deleted memories do not come back. Left out: thoughts,
        events without text, and auth events.

        Raises:
          InvalidInput: An id cannot be stored; nothing was written.
        """
        drafts = drafts_of_events(remembered_events(self._policy, session.events), session.id)
        await self._ingest(session.app_name, session.user_id, session.id, drafts, whole=True)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers events, behind what the session has in memory; the first version of each stays.

        See `PgVectorMemoryService.add_events_to_memory`.

        Raises:
          InvalidInput: A value cannot be stored; nothing was written.
        """
        session_id = session_id or ""
        drafts = drafts_of_events(
            remembered_events(self._policy, events),
            session_id,
            custom_metadata,
            now=platform_time.get_time(),
        )
        await self._ingest(app_name, user_id, session_id, drafts, whole=False)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str | None,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers entries as they are; one whose id is stored already replaces it.

        See `PgVectorMemoryService.add_memory`.

        Raises:
          InvalidInput: An entry has no text, or a value cannot be stored; nothing was written.
        """
        require_storable(app_name=app_name, user_id=user_id)
        drafts = drafts_of_memories(memories, custom_metadata, platform_time.get_time())
        if drafts:
            scope = (app_name, scope_user(user_id))
            self._holdings.write(scope, drafts)
            await self._embed_quietly(scope)

    async def get_memory(
        self, *, app_name: str, user_id: str | None, memory_id: str
    ) -> Memory | None:
        """Returns a memory, also one that has expired; None if there is none."""
        if not storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            return None
        row = self._holdings.row((app_name, scope_user(user_id)), memory_id)
        return None if row is None else records.memory(row)

    async def list_memories(
        self,
        *,
        app_name: str,
        user_id: str | None,
        filters: SearchFilters | None = None,
        limit: int = 50,
        after: str | None = None,
        live: bool = True,
    ) -> pages.MemoriesPage:
        """Returns some memories of a scope, newest first.

        See `PgVectorMemoryService.list_memories`.

        Raises:
          InvalidInput: `limit` is below 1, or `after` did not come from a page.
        """
        if limit < 1:
            raise InvalidInput(f"limit={limit} is below 1; ask for at least one.")
        if not storable(app_name=app_name, user_id=user_id):
            return pages.MemoriesPage([], None)
        cursor = None if after is None else pages.read_cursor(after)
        scope = (app_name, scope_user(user_id))
        keyed = [
            ((row["timestamp"], row["position"]), row)
            for row in self._holdings.rows(scope, filters or NO_FILTERS, live=live)
        ]
        if cursor is not None:
            keyed = [(key, row) for key, row in keyed if key < cursor]
        following = pages.cursor(*keyed[limit - 1][0]) if len(keyed) > limit else None
        return pages.MemoriesPage([records.memory(row) for _, row in keyed[:limit]], following)

    async def count_memories(
        self, *, app_name: str, user_id: str | None, filters: SearchFilters | None = None
    ) -> int:
        """Returns how many live memories a scope has; `user_id` None is the app-wide one."""
        if not storable(app_name=app_name, user_id=user_id):
            return 0
        scope = (app_name, scope_user(user_id))
        return len(self._holdings.rows(scope, filters or NO_FILTERS, live=True))

    async def update_memory(
        self,
        *,
        app_name: str,
        user_id: str | None,
        memory_id: str,
        text: str | None = None,
        topics: Sequence[str] | None = None,
        importance: float | None = None,
        expires_at: datetime | str | float | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> Memory | None:
        """Changes a memory; what is left out stays. Changed text is embedded anew.

        See `PgVectorMemoryService.update_memory`.

        Returns:
          The memory as it is now; None if there is none.

        Raises:
          InvalidInput: A value cannot be stored; nothing was written.
        """
        if not storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            return None
        scope = (app_name, scope_user(user_id))
        changed = partial(
            changed_draft,
            text=text,
            topics=topics,
            importance=importance,
            expires_at=expires_at,
            custom_metadata=custom_metadata,
            now=platform_time.get_time(),
        )
        if not self._holdings.change(scope, memory_id, changed, rewrite=text is not None):
            return None
        if text is not None:
            await self._embed_quietly(scope)
        return await self.get_memory(app_name=app_name, user_id=user_id, memory_id=memory_id)

    async def delete_memory(
        self, *, app_name: str, user_id: str | None, memory_id: str | None = None
    ) -> None:
        """Forgets one memory; re-adding its session does not bring it back.

        Its words are gone from the search of its neighbours too. None and an unknown id do nothing.
        """
        if memory_id and storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            self._holdings.delete((app_name, scope_user(user_id)), memory_id)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Returns what is remembered of a user that answers a question, the best first.

        At most `top_k`; none if nothing shares a word or is near enough in meaning. Any text is a
        query; an empty one finds nothing. See `search` for options and scores.
        """
        if not storable(app_name=app_name, user_id=user_id):
            return SearchMemoryResponse()
        found = await self._hits(app_name, user_id, query, self._defaults)
        return SearchMemoryResponse(memories=[hit.memory.plain() for hit in found])

    async def search(
        self,
        *,
        app_name: str,
        user_id: str | None,
        query: str,
        **overrides: Unpack[SearchOverrides],
    ) -> list[Hit]:
        """Returns hits with their reasons, the best first; what is left out is the service's own.

        The options are those of `PgVectorMemoryService.search`.

        Raises:
          EmbeddingError: The embedder failed and only vectors were asked for.
          ConfigurationError: Only vectors were asked for, and there is no embedder.
          InvalidInput: An option is out of range.
        """
        options = self._defaults.changed(**overrides)
        require_embedder(options.mode, self.embedder)
        if not storable(app_name=app_name, user_id=user_id):
            return []
        return await self._hits(app_name, scope_user(user_id), query, options)

    async def embed_pending(
        self, *, app_name: str | None = None, user_id: str | None = None
    ) -> int:
        """Embeds memories that wait for a vector: everybody's, or one user's. Idempotent.

        What another task or thread is embedding is left to it. A text that the embedder refused
        ``ADKPG_JOB_MAX_ATTEMPTS`` times is given up, until it changes.

        Returns:
          How many have their vectors now.

        Raises:
          EmbeddingError: The embedder failed; the rest stays pending.
          ConfigurationError: The service has no embedder.
        """
        if self._vectors is None:
            raise ConfigurationError(
                "The memory service has no embedder; give one, or run pip install 'adkpg[local]'."
            )
        return await self._vectors.embed_pending(app_name, user_id)

    async def flush(
        self,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Returns once nothing waits for a vector: embeds what is free, waits for other tasks.

        See `PgVectorMemoryService.flush`.

        Raises:
          TimeoutError: Something still waits after `timeout_s`.
        """
        if self._vectors is not None:
            async with asyncio.timeout(timeout_s):
                await self._vectors.flush(app_name, user_id)

    async def _ingest(
        self, app_name: str, user_id: str, session_id: str, drafts: list[Draft], *, whole: bool
    ) -> None:
        require_storable(app_name=app_name, user_id=user_id, session_id=session_id)
        scope = (app_name, user_id)
        self._holdings.ingest(scope, session_id, drafts, whole=whole)
        await self._embed_quietly(scope)

    async def _embed_quietly(self, scope: tuple[str, str]) -> None:
        if self._vectors is not None:
            await self._vectors.embed_quietly(scope)

    async def _hits(
        self, app_name: str, user_id: str, query: str, options: SearchOptions
    ) -> list[Hit]:
        text = records.storable_text(query)
        if not text:
            return []
        vector, floor = None, 0.0
        if options.mode != "text" and self._vectors is not None:
            floor = self._vectors.floor
            try:
                vector = await self._vectors.of_query(text)
            except EmbeddingError as exc:
                if options.mode == "vector":
                    raise
                logger.warning("The search answers by words alone: %s", exc)
        return self._holdings.hits((app_name, user_id), text, vector, options, floor)
