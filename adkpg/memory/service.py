"""PgVectorMemoryService: long-term memory for ADK agents."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.sessions.session import Session

from adkpg.database import Database, Transaction
from adkpg.embedding.default import default_embedder
from adkpg.embedding.embedder import Embedder
from adkpg.errors import ConfigurationError, EmbeddingError, InvalidInput
from adkpg.keys import require_storable, scope_user, storable
from adkpg.memory import ingestion, pages, records, statements
from adkpg.memory.filters import NO_FILTERS, SearchFilters
from adkpg.memory.hits import Hit
from adkpg.memory.jobs import Jobs
from adkpg.memory.options import Mode, SearchOptions
from adkpg.memory.records import Draft, Memory
from adkpg.memory.rewriting import rewrite_text
from adkpg.memory.search import Search
from adkpg.memory.vectors import Vectors
from adkpg.memory.worker import Embedding, Worker

logger = logging.getLogger(__name__)

_FLUSH_POLL_S = 0.05


class PgVectorMemoryService(BaseMemoryService):
    """A complete ADK memory service on Postgres with pgvector.

    Durable first: memories are committed, found by their words at once, and then embedded. If the
    embedder fails they stay pending, a warning says so, and the next ingest or `embed_pending`
    catches up. Every search reads the memories of one user of one app only, and compares all of
    their vectors, except for users that `index_large_scopes` put into the HNSW index. What the app
    knows for all its users (the app-wide scope) is searched along.

    Args:
      database: A `Database` to share (it stays open when the service closes), or a URL, or
        nothing for ``ADKPG_DATABASE_URL``.
      embedder: What turns texts into vectors. None is ``ADKPG_EMBEDDER``: by default the offline
        one if ``adkpg[local]`` is installed, else words only, with one warning.
      top_k: Most memories that a search returns, at least 1.
      min_score: Lowest cosine, in [-1, 1], of a hit that no word of the question leads to. None is
        the embedder's own floor, under which its model finds noise.
      half_life: After this time a memory's score counts half; None never fades.
      max_tokens: Most tokens of a search's hits, estimated; None is no limit.
      mode: ``hybrid`` is words and vectors together, ``vector`` and ``text`` one of them alone.
      app_wide: Whether searches find what the app knows for all its users.
      similarity_top_k: Vertex's name for `top_k`.
      vector_distance_threshold: Vertex's measure of `min_score`: 1 - cosine.
      **database_options: With a URL, for the `Database` made of it.

    Raises:
      ConfigurationError: An argument cannot work.
    """

    def __init__(
        self,
        database: Database | str | None = None,
        *,
        embedder: Embedder | None = None,
        top_k: int | None = None,
        min_score: float | None = None,
        half_life: timedelta | None = None,
        max_tokens: int | None = None,
        mode: Mode = "hybrid",
        app_wide: bool = True,
        similarity_top_k: int | None = None,
        vector_distance_threshold: float | None = None,
        **database_options: Any,
    ) -> None:
        try:
            self._defaults = SearchOptions().changed(
                top_k=top_k,
                min_score=min_score,
                half_life=half_life,
                max_tokens=max_tokens,
                mode=mode,
                app_wide=app_wide,
                similarity_top_k=similarity_top_k,
                vector_distance_threshold=vector_distance_threshold,
            )
        except InvalidInput as exc:
            raise ConfigurationError(str(exc)) from exc
        self._owns_database = not isinstance(database, Database)
        if isinstance(database, Database):
            if database_options:
                raise ConfigurationError(
                    f"Options {sorted(database_options)} belong to the Database that was given; "
                    "set them there."
                )
            self._database = database
        else:
            self._database = Database(database, **database_options)
        if embedder is None and mode != "text":
            embedder = default_embedder(self._database.settings.embedder)
        self._vectors = None if embedder is None else Vectors(self._database, embedder)
        _require_embedder(self._defaults.mode, embedder)
        if embedder is None:
            self._defaults = replace(self._defaults, mode="text")
        self._search = Search(self._database, self._vectors)

    @property
    def database(self) -> Database:
        """The database that this service writes to."""
        return self._database

    @property
    def embedder(self) -> Embedder | None:
        """What turns texts into vectors; None if only words are searched."""
        return self._vectors.embedder if self._vectors is not None else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the Database if the service made it; idempotent."""
        if self._owns_database:
            await self._database.close()

    async def add_session_to_memory(self, session: Session) -> None:
        """Remembers a session: its memories become the given events', the last version of each.

        Adding it again changes nothing. A stored memory whose event is not given goes, unless the
        event is still in the stored session: a caller with a window of it erases nothing. Deleted
        memories do not come back. Left out: thoughts, events without text, and auth events.

        Raises:
          InvalidInput: An id cannot be stored; nothing was written.
        """
        drafts = records.drafts_of_events(session.events, session.id)
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

        Args:
          app_name: The app.
          user_id: The user.
          events: In the order they were said.
          session_id: Where they were said; events without a session share one place per user.
          custom_metadata: Kept with each and returned with its hits; ``ttl``, ``expires_at``,
            ``importance`` and ``topics`` mean what `adkpg.memory.facets.read` says.

        Raises:
          InvalidInput: A value cannot be stored; nothing was written.
        """
        session_id = session_id or ""
        drafts = records.drafts_of_events(
            events, session_id, custom_metadata, now=platform_time.get_time()
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

        An entry that is stored as it is given, its timestamp included, is left alone.

        Args:
          app_name: The app.
          user_id: The user; None is the app-wide scope.
          memories: Each with text; without id it gets one, without timestamp it is of now. A
            `Memory` says its kind, topics, importance and expiry itself.
          custom_metadata: Kept with each, under the entry's own; ``memory_id`` in an entry's own
            is its id, as with ADK's Vertex service. ``ttl``, ``expires_at``, ``importance`` and
            ``topics`` mean what `adkpg.memory.facets.read` says.

        Raises:
          InvalidInput: An entry has no text, or a value cannot be stored; nothing was written.
        """
        require_storable(app_name=app_name, user_id=user_id)
        drafts = records.drafts_of_memories(memories, custom_metadata, platform_time.get_time())
        if not drafts:
            return
        user = scope_user(user_id)
        async with self._database.transaction() as transaction:
            await self._write_by_id(transaction, app_name, user, drafts)
        if self._vectors is not None:
            await self._vectors.embed_quietly(app_name, user)

    async def get_memory(
        self, *, app_name: str, user_id: str | None, memory_id: str
    ) -> Memory | None:
        """Returns a memory, also one that has expired or was superseded; None if there is none.

        Args:
          app_name: The app.
          user_id: The user; None is the app-wide scope.
          memory_id: Its id.
        """
        if not storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            return None
        row = await self._database.fetch_one(
            statements.select_memory(),
            {"app_name": app_name, "user_id": scope_user(user_id), "memory_id": memory_id},
        )
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

        Args:
          app_name: The app.
          user_id: The user; None is the app-wide scope.
          filters: Which ones.
          limit: At most so many, at least 1.
          after: The ``next`` of the page before; None starts at the newest.
          live: Without those that have expired or were superseded.

        Raises:
          InvalidInput: `limit` is below 1, or `after` did not come from a page.
        """
        if limit < 1:
            raise InvalidInput(f"limit={limit} is below 1; ask for at least one.")
        if not storable(app_name=app_name, user_id=user_id):
            return pages.MemoriesPage([], None)
        filters = filters or NO_FILTERS
        cursor = pages.read_cursor(after) if after is not None else (None, None)
        rows = await self._database.fetch(
            statements.list_memories(
                asked=filters.asked, after_row=after is not None, live_only=live
            ),
            {
                "app_name": app_name,
                "user_id": scope_user(user_id),
                "limit": limit + 1,
                "after_moment": cursor[0],
                "after_position": cursor[1],
                **filters.parameters,
            },
        )
        following = None
        if len(rows) > limit:
            last = rows[limit - 1]
            following = pages.cursor(last["timestamp"], last["position"])
        return pages.MemoriesPage([records.memory(row) for row in rows[:limit]], following)

    async def count_memories(
        self, *, app_name: str, user_id: str | None, filters: SearchFilters | None = None
    ) -> int:
        """Returns how many live memories a scope has; `user_id` None is the app-wide one."""
        if not storable(app_name=app_name, user_id=user_id):
            return 0
        filters = filters or NO_FILTERS
        row = await self._database.fetch_one(
            statements.count_memories(asked=filters.asked),
            {"app_name": app_name, "user_id": scope_user(user_id), **filters.parameters},
        )
        return int(row["memories"]) if row else 0

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

        Facts and summaries that were drawn from the old text go with it. The memory of an event
        takes the event's text back when its session is added again.

        Args:
          app_name: The app.
          user_id: The user; None is the app-wide scope.
          memory_id: Its id.
          text: Instead of its content.
          topics: Instead of its topics.
          importance: From 0 to 1.
          expires_at: A datetime, ISO 8601 text, or Unix seconds.
          custom_metadata: Instead of its metadata.

        Returns:
          The memory as it is now; None if there is none.

        Raises:
          InvalidInput: A value cannot be stored; nothing was written.
        """
        if not storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            return None
        user = scope_user(user_id)
        place = {"app_name": app_name, "user_id": user, "memory_id": memory_id}
        known = await self._database.fetch_one(
            statements.select_by_ids(), {**place, "memory_ids": [memory_id]}
        )
        if known is None:
            return None
        async with self._database.transaction() as transaction:
            # An ingest of its session may be writing it again, elsewhere.
            await transaction.fetch(
                statements.lock_session(), {**place, "session_id": known["session_id"]}
            )
            found = await transaction.fetch(statements.lock_memory(), place)
            if not found:
                return None
            row = found[0]
            changed = records.changed(
                row,
                text=text,
                topics=topics,
                importance=importance,
                expires_at=expires_at,
                custom_metadata=custom_metadata,
                now=platform_time.get_time(),
            )
            await transaction.fetch(
                statements.update_facets(), place | records.facet_parameters(changed)
            )
            if text is not None:
                config = self._database.settings.text_search_config
                await rewrite_text(transaction, app_name, user, row["position"], changed, config)
        if text is not None and self._vectors is not None:
            await self._vectors.embed_quietly(app_name, user)
        return await self.get_memory(app_name=app_name, user_id=user_id, memory_id=memory_id)

    async def delete_memory(
        self, *, app_name: str, user_id: str | None, memory_id: str | None = None
    ) -> None:
        """Forgets one memory; re-adding its session does not bring it back.

        Its words are gone from the search of its neighbours too, and so are facts and summaries
        that were drawn from it. None and an unknown id do nothing.
        """
        if not memory_id or not storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            return
        scope = {"app_name": app_name, "user_id": scope_user(user_id)}
        found = await self._database.fetch_one(
            statements.select_by_ids(), {**scope, "memory_ids": [memory_id]}
        )
        if found is None:
            return
        async with self._database.transaction() as transaction:
            # An ingest that is writing it again would not be seen, and bring it back.
            await transaction.fetch(
                statements.lock_session(), {**scope, "session_id": found["session_id"]}
            )
            await transaction.fetch(statements.delete_memory(), {**scope, "memory_id": memory_id})

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Returns what is remembered of a user that answers a question, the best first.

        At most `top_k`; none if nothing shares a word or is near enough in meaning. Any text is a
        query; an empty one finds nothing. See `search` for options and scores.
        """
        if not storable(app_name=app_name, user_id=user_id):
            return SearchMemoryResponse()
        found = await self._search.hits(app_name, user_id, query, self._defaults, explain=False)
        return SearchMemoryResponse(memories=[hit.memory.plain() for hit in found])

    async def search(
        self,
        *,
        app_name: str,
        user_id: str | None,
        query: str,
        filters: SearchFilters | None = None,
        top_k: int | None = None,
        min_score: float | None = None,
        half_life: timedelta | None = None,
        max_tokens: int | None = None,
        neighbours: int | None = None,
        mode: Mode | None = None,
        app_wide: bool | None = None,
        similarity_top_k: int | None = None,
        vector_distance_threshold: float | None = None,
    ) -> list[Hit]:
        """Returns hits with their reasons, the best first; what is left out is the service's own.

        If the embedder fails, or the app's vectors are of another model, a hybrid search answers
        by words alone, with a warning. Near-duplicates are folded (`adkpg.memory.hits.folded`).

        Args:
          app_name: The app.
          user_id: The user; None searches the app-wide scope alone.
          query: Any text; an empty one finds nothing.
          filters: Conditions that hits must meet.
          top_k: At most so many, at least 1.
          min_score: Lowest cosine, in [-1, 1], of a hit that no word of the question leads to.
          half_life: After this time a memory's score counts half.
          max_tokens: Most tokens of all hits and their neighbours, estimated at four bytes each;
            a hit that does not fit is left out.
          neighbours: With so many turns on each side of a hit, 0 to 10.
          mode: ``hybrid``, ``vector`` or ``text``.
          app_wide: Whether to find what the app knows for all its users.
          similarity_top_k: Vertex's name for `top_k`.
          vector_distance_threshold: Vertex's measure of `min_score`: 1 - cosine.

        Raises:
          EmbeddingError: The embedder failed and only vectors were asked for.
          ModelNotActive: Only vectors were asked for, and the app's are of another model.
          ConfigurationError: Only vectors were asked for, and there is no embedder.
          InvalidInput: An option is out of range.
        """
        options = self._defaults.changed(
            filters=filters,
            top_k=top_k,
            min_score=min_score,
            half_life=half_life,
            max_tokens=max_tokens,
            neighbours=neighbours,
            mode=mode,
            app_wide=app_wide,
            similarity_top_k=similarity_top_k,
            vector_distance_threshold=vector_distance_threshold,
        )
        _require_embedder(options.mode, self.embedder)
        if not storable(app_name=app_name, user_id=user_id):
            return []
        return await self._search.hits(app_name, scope_user(user_id), query, options, explain=True)

    async def embed_pending(
        self, *, app_name: str | None = None, user_id: str | None = None
    ) -> int:
        """Embeds memories that wait for a vector: everybody's, or one user's. Idempotent.

        Batches are embedded outside of any transaction; what changes meanwhile, or is held by a
        writer, stays pending for the next call. What another worker has claimed is left to it.

        Returns:
          How many vectors were stored.

        Raises:
          EmbeddingError: The embedder failed; the rest stays pending.
          ConfigurationError: The service has no embedder.
        """
        return await self.required_vectors().embed_pending(app_name, user_id)

    async def run_worker(
        self,
        stop: asyncio.Event | None = None,
        *,
        poll_interval_s: float = 1.0,
        users_at_once: int = 2,
    ) -> int:
        """Embeds what is pending until it is stopped; see `adkpg.memory.worker.Worker`.

        For an application that writes memories with its events (``remember=``), or many. Run it in
        a task, or run ``adkpg worker`` in a process of its own.

        Args:
          stop: Ends it once it is set: the batches that run are finished.
          poll_interval_s: Pause when nothing is due, in seconds.
          users_at_once: How many users' batches run side by side.

        Returns:
          How many memories it embedded.

        Raises:
          ConfigurationError: The service has no embedder.
        """
        embedding = Embedding(self.required_vectors(), Jobs(self._database, "embed"))
        worker = Worker([embedding], poll_interval_s=poll_interval_s, users_at_once=users_at_once)
        return await worker.run(stop)

    async def flush(
        self,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Returns once nothing waits for a vector: embeds what is free, waits for other workers.

        What was given up (dead) is not waited for. A service without embedder returns at once.

        Args:
          app_name: The app, with `user_id`; None is everybody's.
          user_id: The user.
          timeout_s: Longest wait in seconds; None waits on.

        Raises:
          TimeoutError: Something still waits after `timeout_s`.
        """
        if self._vectors is None:
            return
        jobs = Jobs(self._database, "embed")
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    await self._vectors.embed_pending(app_name, user_id)
                except EmbeddingError as exc:
                    logger.warning("Flushing goes on: %s", exc)
                if not (await jobs.backlog(app_name, user_id)).waiting:
                    return
                await asyncio.sleep(_FLUSH_POLL_S)

    async def index_large_scopes(self) -> int:
        """Builds the HNSW index for users with more than ``ADKPG_EXACT_LIMIT`` memories.

        Needs the role that migrates, and time: about 0.4 ms a memory. Searches go on meanwhile, and
        answer exactly until the index is ready. Other users' searches stay exact for good.
        Idempotent; run it again when more users have grown.

        Returns:
          How many vectors it put into the index.
        """
        return await self.required_vectors().index_large_scopes()

    def required_vectors(self) -> Vectors:
        """Returns the service's vectors, for a worker.

        Raises:
          ConfigurationError: It has no embedder.
        """
        if self._vectors is None:
            raise ConfigurationError(
                "The memory service has no embedder; give one, or run pip install 'adkpg[local]'."
            )
        return self._vectors

    async def _ingest(
        self, app_name: str, user_id: str, session_id: str, drafts: list[Draft], *, whole: bool
    ) -> None:
        require_storable(app_name=app_name, user_id=user_id, session_id=session_id)
        scope = {"app_name": app_name, "user_id": user_id}
        place = {**scope, "session_id": session_id}
        async with self._database.transaction() as transaction:
            await transaction.fetch(statements.lock_session(), place)
            kept = await transaction.fetch(statements.lock_stored_session(), place)
            stored = [
                ingestion.Stored(**row)
                for row in await transaction.fetch(statements.select_session_memories(), place)
            ]
            deleted = {
                row["event_id"]
                for row in await transaction.fetch(statements.select_tombstones(), place)
            }
            planned = ingestion.replacement if whole else ingestion.addition
            plan = planned(stored, drafts, deleted, ingestion.new_block(user_id))
            if plan.delete:
                await transaction.fetch(
                    statements.delete_positions(), {**scope, "positions": plan.delete}
                )
            if plan.move:
                froms, tos = map(list, zip(*plan.move, strict=True))
                await transaction.fetch(
                    statements.move_positions(), {**scope, "froms": froms, "tos": tos}
                )
            if plan.insert:
                await self._insert(transaction, app_name, user_id, plan.insert)
            following = ingestion.next_position(stored, plan)
            if kept and kept[0]["memory_position"] != following:
                await transaction.fetch(
                    statements.place_next_memory(), {**place, "next": following}
                )
        if self._vectors is not None:
            await self._vectors.embed_quietly(app_name, user_id)

    async def _write_by_id(
        self, transaction: Transaction, app_name: str, user_id: str, drafts: Sequence[Draft]
    ) -> None:
        scope = {"app_name": app_name, "user_id": user_id}
        wanted = {**scope, "memory_ids": [draft.memory_id for draft in drafts]}
        await transaction.fetch(statements.lock_session(), {**scope, "session_id": ""})
        found = await transaction.fetch(statements.select_by_ids(), wanted)
        if sources := sorted({row["session_id"] for row in found} - {""}):
            for session_id in sources:
                await transaction.fetch(
                    statements.lock_session(), {**scope, "session_id": session_id}
                )
            # A writer of such a session may have moved or dropped them until now.
            found = await transaction.fetch(statements.select_by_ids(), wanted)
        known = {row["memory_id"]: row for row in found}
        rows = []
        for draft in drafts:
            row = known.get(draft.memory_id)
            if row is None:
                rows.append((ingestion.new_block(user_id), draft))
            elif row["digest"] != draft.digest:
                origin = {"session_id": row["session_id"], "event_id": row["event_id"]}
                rows.append((row["position"], replace(draft, **origin)))
        replaced = [
            known[draft.memory_id]["position"] for _, draft in rows if draft.memory_id in known
        ]
        await transaction.fetch(statements.delete_positions(), {**scope, "positions": replaced})
        await self._insert(transaction, app_name, user_id, rows)

    async def _insert(
        self,
        transaction: Transaction,
        app_name: str,
        user_id: str,
        rows: Sequence[tuple[int, Draft]],
    ) -> None:
        config = self._database.settings.text_search_config
        await transaction.fetch(
            statements.insert_memories(), records.insertion(app_name, user_id, rows, config)
        )


def _require_embedder(mode: str, embedder: Embedder | None) -> None:
    if mode == "vector" and embedder is None:
        raise ConfigurationError(
            "mode='vector' needs an embedder; give one, or run pip install 'adkpg[local]'."
        )
