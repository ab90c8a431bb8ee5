"""PgVectorMemoryService: long-term memory for ADK agents."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import partial
from typing import TypedDict, Unpack

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.sessions.session import Session

from adkpg.database import Database, Source, Subject, UsesDatabase
from adkpg.embedding.embedder import Embedder
from adkpg.erasure import tidy
from adkpg.errors import ConfigurationError
from adkpg.interface.internal import internal
from adkpg.keys import ScopeKey, SessionKey, require_storable, scope_user, storable
from adkpg.limits import page_rows
from adkpg.memory import records
from adkpg.memory import statements as reading
from adkpg.memory.drafts import changed_draft, drafts_of_events, drafts_of_memories, text_length
from adkpg.memory.filters import NO_FILTERS, SearchFilters, parameters_of
from adkpg.memory.invocation import running_invocation
from adkpg.memory.profile import MemoryProfile, profile_of
from adkpg.memory.queue.worker import Worker
from adkpg.memory.records import Memory
from adkpg.memory.search.hits import Hit
from adkpg.memory.search.options import (
    SearchOptions,
    SearchOverrides,
    require_embedder,
    service_defaults,
)
from adkpg.memory.search.search import Search
from adkpg.memory.vectors.ahead import Ahead
from adkpg.memory.vectors.index import extend_indexes
from adkpg.memory.vectors.vectors import Vectors
from adkpg.memory.vectors.work import Embedding
from adkpg.memory.write import apply as writing
from adkpg.memory.write import statements
from adkpg.pages import Page, cursor_of, place_of
from adkpg.reranking.guarded import GuardedReranker
from adkpg.reranking.reranker import Reranker, require_reranker
from adkpg.telemetry.calls import CREATE, DELETE, SEARCH, UPDATE, UPSERT, accepts, on, traced
from adkpg.timestamps import zone_of

_PROFILE_FACTS = 100  # as many as Facts.profile gives unless asked for more
_TIMES = {"after", "before"}  # what filters ask of times alone is read from an index


class _Page(TypedDict):
    """Which page of memories is read, as the queries take it."""

    live_only: bool
    after_timestamp: datetime | None
    after_position: int | None
    limit: int


@traced(
    search=SEARCH,
    search_memory=SEARCH,
    add_session_to_memory=UPSERT,
    add_events_to_memory=UPSERT,
    add_memory=CREATE,
    update_memory=UPDATE,
    delete_memory=DELETE,
    delete_exactly=DELETE,
    same_as=on("memories"),
    get_memory=on("memories"),
    list_memories=on("memories"),
    count_memories=on("memories"),
    retrieve_profiles=on("memories"),
    facts_about=on("memories"),
    embed_pending=on("memory_jobs"),
    flush=on("memory_jobs"),
    index_large_scopes=on("memory_vectors"),
)
class PgVectorMemoryService(UsesDatabase, BaseMemoryService):
    """A complete ADK memory service on Postgres with pgvector.

    Durable first: memories are committed, found by words immediately, and then embedded. If the
    embedder fails or hangs they stay pending, a warning says so, and the next ingest or
    `embed_pending` catches up. Meanwhile searches answer by words, after ``ADKPG_SEARCH_TIMEOUT_S``
    at the latest. Every search reads the memories of one user of one app only, and compares all of
    their vectors, except for users that `index_large_scopes` put into the HNSW index. What the app
    knows for all its users (the app-wide scope) is searched along.

    Args:
      database: A `Database` to share (it stays open when the service closes), or a URL, or
        nothing for ``ADKPG_DATABASE_URL``.
      embedder: What turns texts into vectors. None is ``ADKPG_EMBEDDER``: by default the offline
        one if ``adkpg[local]`` is installed, else words only, with one warning.
      reranker: Orders the best hits of each search anew; see `adkpg.reranking`. None: none does.
      **options: How searches answer unless they say otherwise: `SearchOptions` by name, and
        Vertex's ``similarity_top_k``.

    Raises:
      ConfigurationError: An argument cannot work.
    """

    def __init__(
        self,
        database: Database | str | None = None,
        *,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        **options: Unpack[SearchOverrides],
    ) -> None:
        super().__init__(database)
        settings = self._database.settings
        usual = SearchOptions(top_k=min(SearchOptions.top_k, settings.max_results))
        self._defaults, embedder = service_defaults(usual, embedder, settings.embedder, options)
        self._vectors = None if embedder is None else Vectors(self._database, embedder)
        self._reranker: GuardedReranker | None = None
        if reranker is not None:
            require_reranker(reranker)
            self._reranker = GuardedReranker(
                reranker, self._database.breakers, settings.rerank_timeout_s
            )
        self._search = Search(self._database, self._vectors, self._reranker)
        if self._vectors is not None:
            self._database.installation.embeds_by(_named(self._vectors.embedder))

    def _told(self) -> dict[str, object]:
        embedder = None if self.embedder is None else _named(self.embedder)
        told: dict[str, object] = {"embedder": embedder, "mode": self._defaults.mode}
        return told if self._reranker is None else told | {"reranker": self._reranker.model}

    @property
    def embedder(self) -> Embedder | None:
        """The embedder that turns texts into vectors; None if only words are searched."""
        return self._vectors.embedder if self._vectors is not None else None

    @property
    def options(self) -> SearchOptions:
        """How searches answer unless they say otherwise."""
        return self._defaults

    async def add_session_to_memory(self, session: Session) -> None:
        """Remembers a session: its memories become the given events', the last version of each.

        Adding it again changes nothing. A stored memory whose event is not given goes, unless the
        event is still in the stored session: a caller with a window of it erases nothing. Deleted
        memories do not come back. Left out: thoughts, events without text, and auth events.

        Raises:
          InvalidInput: An id cannot be stored; nothing was written.
        """
        await self._ingest(
            {
                "app_name": session.app_name,
                "user_id": session.user_id,
                "session_id": session.id,
            },
            session.events,
            whole=True,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers events, after what the session has in memory; the first version of each stays.

        Args:
          app_name: The app.
          user_id: The user.
          events: In the order they were said.
          session_id: Where they were said; events without a session share one place per user.
          custom_metadata: Kept with each and returned with its hits; ``ttl``, ``expires_at``,
            ``importance`` and ``topics`` mean what `adkpg.memory.attributes.read` says.

        Raises:
          InvalidInput: A value cannot be stored; nothing was written.
        """
        await self._ingest(
            {"app_name": app_name, "user_id": user_id, "session_id": session_id or ""},
            events,
            custom_metadata,
            whole=False,
        )

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str | None,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers entries as they are; one whose id is stored already replaces it.

        An entry that is stored as it is given, its timestamp included, is left alone; one of which
        the Database's policy leaves nothing is left out.

        Args:
          app_name: The app.
          user_id: The user; None is the app-wide scope.
          memories: Each with text; without id it gets one, without timestamp it is of now. A
            `Memory` says its kind, topics, importance and expiry itself.
          custom_metadata: Kept with each, under the entry's own; ``memory_id`` in an entry's own
            is its id, as with ADK's Vertex service. ``ttl``, ``expires_at``, ``importance`` and
            ``topics`` mean what `adkpg.memory.attributes.read` says.

        Raises:
          InvalidInput: An entry has no text, or a value cannot be stored; nothing was written.
        """
        require_storable(app_name=app_name, user_id=user_id)
        user = scope_user(user_id)
        self._database.run.require_scope_to_write(app_name, user_id=user)
        now, policy = platform_time.get_time(), self._database.policy
        drafts = await writing.off_loop(
            text_length(entry.content for entry in memories),
            lambda: drafts_of_memories(memories, custom_metadata, now, policy),
        )
        accepts(drafts)
        if not drafts:
            return
        settings = self._database.settings
        await self._database.run.transact(
            lambda transaction: writing.write_by_id(
                transaction, {"app_name": app_name, "user_id": user}, drafts, settings=settings
            )
        )
        if self._vectors is not None:
            await self._vectors.embed_quietly(app_name, user)

    async def update_memory(
        self,
        *,
        app_name: str,
        user_id: str | None,
        memory_id: str,
        text: str | None = None,
        topics: Sequence[str] | None = None,
        importance: float | None = None,
        expires_at: date | str | float | None = None,
        never_expires: bool = False,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> Memory | None:
        """Changes a memory and its repetitions, which a search shows as one hit with it.

        What is left out stays. A new text is the memory's alone: its repetitions are deleted, as
        `delete_memory` deletes them, and so are facts and summaries that were drawn from the old
        text. A turn with a new text is of no event and stands apart from its neighbours; adding its
        session again does not bring the old text back. Topics, importance, end and metadata
        are given to the memory and all its repetitions. Changed text is embedded again.

        Args:
          app_name: The app.
          user_id: The user; None is the app-wide scope.
          memory_id: Its id.
          text: Instead of its content.
          topics: Instead of its topics.
          importance: From 0 to 1.
          expires_at: A datetime, ISO 8601 text, or Unix seconds.
          never_expires: Takes its end away.
          custom_metadata: Instead of its metadata.

        Returns:
          The memory as it is now; None if there is none.

        Raises:
          InvalidInput: A value cannot be stored, the Database's policy refuses the text, or an end
            and `never_expires` are both given; nothing was written.
        """
        if not storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            return None
        scope: ScopeKey = {"app_name": app_name, "user_id": scope_user(user_id)}
        self._database.run.require_scope_to_write(app_name, user_id=scope["user_id"])
        found = await self._database.run.transact(
            lambda transaction: writing.update(
                transaction,
                scope,
                memory_id,
                lambda row: changed_draft(
                    row,
                    text=text,
                    topics=topics,
                    importance=importance,
                    expires_at=expires_at,
                    never_expires=never_expires,
                    custom_metadata=custom_metadata,
                    now=platform_time.get_time(),
                    policy=self._database.policy,
                ),
                text=text,
                settings=self._database.settings,
            )
        )
        if found and text is not None and self._vectors is not None:
            await self._vectors.embed_quietly(**scope)
        return await self.get_memory(app_name=app_name, user_id=user_id, memory_id=memory_id)

    async def delete_memory(  # type: ignore[override] # ADK's returns None: what went is told, too
        self, *, app_name: str, user_id: str | None, memory_id: str | None = None
    ) -> list[str]:
        """Forgets a memory and its repetitions, which a search shows as one hit with it.

        Re-adding their sessions does not bring them back. Their words are gone from the search of
        their neighbours too, and so are facts and summaries that were drawn from them. None and an
        unknown id do nothing. A memory that is not live goes alone. A repetition stays if an event
        with it is appended meanwhile; the next search shows it.

        Args:
          app_name: The app.
          user_id: The user; None is the app-wide scope.
          memory_id: Its id.

        Returns:
          The ids of the memories that went, the given one first; none if there was none.
        """
        if not memory_id or not storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            return []
        scope: ScopeKey = {"app_name": app_name, "user_id": scope_user(user_id)}
        self._database.run.require_scope_to_write(app_name, user_id=scope["user_id"])
        return await self._database.run.transact(
            lambda transaction: writing.delete(transaction, scope, memory_id)
        )

    @internal
    async def delete_exactly(
        self, *, app_name: str, user_id: str | None, memory_ids: Sequence[str]
    ) -> None:
        """Forgets some memories, as `delete_memory` does, and no repetitions of them."""
        scope: ScopeKey = {"app_name": app_name, "user_id": scope_user(user_id)}
        self._database.run.require_scope_to_write(app_name, user_id=scope["user_id"])
        await self._database.run.transact(
            lambda transaction: writing.delete_exactly(transaction, scope, memory_ids)
        )

    @internal
    async def same_as(self, *, app_name: str, user_id: str | None, memory_id: str) -> list[Memory]:
        """Returns a memory and its repetitions, which `delete_memory` deletes with it.

        The memory is the first; none if there is none.
        """
        if not storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            return []
        rows = await self._database.run.fetch(
            statements.select_same(
                app_name=app_name, user_id=scope_user(user_id), memory_id=memory_id
            )
        )
        return [*map(records.memory, writing.same(rows, memory_id))]

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Returns what is remembered of a user that answers a question, the best first.

        At most `top_k`; none if nothing shares a word or is near enough in meaning. Any text is a
        query; an empty one finds nothing. Turns of the invocation that awaits the answer are left
        out: a question is not its own answer. See `search` for options and scores.
        """
        options = self._defaults.changed(exclude_invocation_id=running_invocation())
        if not storable(app_name=app_name, user_id=user_id):
            return SearchMemoryResponse()
        found = await self._search.entries(app_name, user_id, query, options)
        return SearchMemoryResponse(memories=found)

    async def search(
        self,
        *,
        app_name: str,
        user_id: str | None,
        query: str,
        **overrides: Unpack[SearchOverrides],
    ) -> list[Hit]:
        """Returns hits with their reasons, the best first; what is left out is the service's own.

        If the embedder fails or takes longer than ``ADKPG_SEARCH_TIMEOUT_S``, or the app's vectors
        are of another model, a hybrid search answers by words alone; a warning and each hit's
        reason say why. A reranker that fails or takes longer than ``ADKPG_RERANK_TIMEOUT_S`` leaves
        the order as it is. Near-duplicates are folded (`duplicates.groups`). Turns of the
        invocation that awaits the answer are left out, or of the one that is named.

        Args:
          app_name: The app.
          user_id: The user; None searches the app-wide scope alone.
          query: Any text; an empty one finds nothing.
          **overrides: Options for this search alone; see `SearchOptions`.

        Raises:
          ModelError: The embedder failed, or gave no answer in time, and only vectors were
            asked for.
          ModelNotActive: Only vectors were asked for, and the app's are of another model.
          ConfigurationError: Only vectors were asked for, and there is no embedder.
          InvalidInput: An option is out of range.
        """
        overrides.setdefault("exclude_invocation_id", running_invocation())
        options = self._defaults.changed(**overrides)
        require_embedder(options.mode, self.embedder)
        if not storable(app_name=app_name, user_id=user_id):
            return []
        return await self._search.hits(app_name, scope_user(user_id), query, options)

    async def get_memory(
        self, *, app_name: str, user_id: str | None, memory_id: str
    ) -> Memory | None:
        """Returns a memory, also one that has expired or was superseded; None if there is none.

        With `user_id` None of the app's own knowledge.
        """
        if not storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            return None
        user = scope_user(user_id)
        query = reading.select_memory(app_name=app_name, user_id=user, memory_id=memory_id)

        async def read(source: Source) -> records.StoredMemory | None:
            return await source.fetch_one(query)

        row = await self._database.run.read(read, Subject(app_name, user, memories=True))
        if row is None and self._database.standby is not None:
            # The caller may have its id from another process, which stored it a moment ago.
            row = await self._database.run.fetch_one(query)
        return None if row is None else records.memory(row)

    async def list_memories(
        self,
        *,
        app_name: str,
        user_id: str | None,
        filters: SearchFilters | None = None,
        limit: int = 50,
        cursor: str | None = None,
        live: bool = True,
    ) -> Page[Memory]:
        """Returns some memories of a scope, newest first.

        Args:
          app_name: The app.
          user_id: The user; None is the app-wide scope.
          filters: Which ones.
          limit: At most this many, at least 1, and at most ``ADKPG_MAX_RESULTS``.
          cursor: The `next_cursor` of the page before; None starts at the newest.
          live: Without those that have expired or were superseded.

        Raises:
          InvalidInput: `limit` is below 1, or `cursor` did not come from a page.
        """
        limit = page_rows(self._database.settings, limit)
        if not storable(app_name=app_name, user_id=user_id):
            return Page([], None)
        filters = filters or NO_FILTERS
        scope: ScopeKey = {"app_name": app_name, "user_id": scope_user(user_id)}
        asked = parameters_of(filters, zone_of(self._defaults.time_zone))
        place = (None, None) if cursor is None else place_of(cursor, datetime, int)
        page: _Page = {
            "live_only": live,
            "after_timestamp": place[0],
            "after_position": place[1],
            "limit": limit + 1,
        }
        if filters.asked <= _TIMES:
            query = reading.list_memories(
                **scope, after=asked["after"], before=asked["before"], **page
            )
        else:
            query = reading.list_chosen_memories(**scope, **asked, **page)
        rows = await self._database.run.read(
            lambda source: source.fetch(query),
            Subject(**scope, memories=True),
        )
        following = None
        if len(rows) > limit:
            last = rows[limit - 1]
            following = cursor_of(last["timestamp"], last["position"])
        return Page([records.memory(row) for row in rows[:limit]], following)

    async def count_memories(
        self, *, app_name: str, user_id: str | None, filters: SearchFilters | None = None
    ) -> int:
        """Returns how many live memories a scope has; `user_id` None is the app-wide one."""
        if not storable(app_name=app_name, user_id=user_id):
            return 0
        filters = filters or NO_FILTERS
        scope: ScopeKey = {"app_name": app_name, "user_id": scope_user(user_id)}
        asked = parameters_of(filters, zone_of(self._defaults.time_zone))
        if filters.asked <= _TIMES:
            query = reading.count_memories(**scope, after=asked["after"], before=asked["before"])
        else:
            query = reading.count_chosen_memories(**scope, **asked)
        row = await self._database.run.read(
            lambda source: source.fetch_one(query),
            Subject(**scope, memories=True),
        )
        return int(row["memories"]) if row else 0

    async def retrieve_profiles(self, *, app_name: str, user_id: str) -> list[MemoryProfile]:
        """Returns what the facts say of a user, as ADK's tool for profiles asks for it.

        ``VertexAiLoadProfilesTool(memory)`` gives it to an agent. The facts are those that
        `adkpg.facts.Facts` has drawn, or that were added as a `Memory`
        of kind ``fact``.

        Args:
          app_name: The app.
          user_id: The user.

        Returns:
          One profile of at most the hundred most important facts, or none if there are no facts.
        """
        facts = await self.facts_about(
            app_name=app_name, user_id=user_id, topics=None, limit=_PROFILE_FACTS
        )
        return [profile_of(facts, app_name=app_name, user_id=user_id)] if facts else []

    @internal
    async def facts_about(
        self,
        *,
        app_name: str,
        user_id: str,
        topics: Sequence[str] | None,
        limit: int,
        before: datetime | None = None,
    ) -> list[Memory]:
        """Returns a user's live facts, the most important and then the latest first.

        Args:
          app_name: The app.
          user_id: The user.
          topics: About any of these; None is about anything.
          limit: At most this many.
          before: From before this time; None is ever.
        """
        if not storable(app_name=app_name, user_id=user_id):
            return []
        query = reading.select_profile(
            app_name=app_name,
            user_id=user_id,
            topics=None if topics is None else list(topics),
            before=before,
            limit=min(limit, self._database.settings.max_results),
        )
        rows = await self._database.run.read(
            lambda source: source.fetch(query),
            Subject(app_name, user_id, memories=True),
        )
        return [records.memory(row) for row in rows]

    async def embed_pending(self, *, app_name: str | None = None) -> int:
        """Embeds memories that wait for a vector, of an app or of all. Idempotent.

        Batches are embedded outside of any transaction; what changes meanwhile, or is held by a
        writer, stays pending for the next call. Work that another worker has claimed is left to it.

        Args:
          app_name: The app; None is every app.

        Returns:
          How many vectors were stored.

        Raises:
          ModelError: The embedder failed; the rest stays pending.
          ConfigurationError: The service has no embedder.
          InvalidInput: The app's name cannot be stored.
        """
        return await self._required_vectors().embed_pending(app_name=app_name)

    async def run_worker(
        self,
        stop: asyncio.Event | None = None,
        *,
        poll_interval_s: float = 1.0,
        concurrency: int = 2,
    ) -> int:
        """Embeds what is pending until it is stopped.

        It also tidies (`adkpg.erasure.tidy`), and puts new vectors of users above
        ``ADKPG_EXACT_LIMIT`` into the HNSW index, if they have one.

        For an application that writes memories with its events (``remember=``), or many. Run it in
        a task, or run ``adkpg worker`` in a process of its own.

        Args:
          stop: Ends it once it is set: the batches that run have five seconds to end, then they
            are given back.
          poll_interval_s: Pause when nothing is due, in seconds.
          concurrency: Most users whose batches run side by side.

        Returns:
          How many memories it embedded.

        Raises:
          ConfigurationError: The service has no embedder.
        """
        worker = Worker(
            [Embedding(self._required_vectors())],
            chores=[partial(tidy, self._database), partial(extend_indexes, self._database)],
            poll_interval_s=poll_interval_s,
            concurrency=concurrency,
        )
        return await worker.run(stop)

    async def flush(self, *, app_name: str | None = None, timeout_s: float | None = None) -> None:
        """Returns once nothing waits for a vector: embeds what is free, waits for other workers.

        Failures are tried again as a worker would, so this may take as long as the embedder is
        down. Dead letters are not waited for. A service without embedder
        returns immediately.

        Args:
          app_name: The app; None is every app.
          timeout_s: Longest wait in seconds; None waits on.

        Raises:
          TimeoutError: Something still waits after `timeout_s`.
          ModelNotActive: What is left is of an app that is searched with another model, which this
            service cannot embed.
          InvalidInput: The app's name cannot be stored.
        """
        if self._vectors is None:
            return
        async with asyncio.timeout(timeout_s):
            await Embedding(self._vectors).flush(app_name=app_name)

    async def warm(self, *, timeout_s: float | None = None) -> None:
        """Loads a local model, or connects to the embedder's service, before the first search.

        Without it the first search waits for the embedder's loading, and goes without a local
        reranker that takes too long. Without either it does nothing.

        Args:
          timeout_s: Longest wait in seconds; None is ``ADKPG_EMBEDDING_TIMEOUT_S``.

        Raises:
          ModelError: The embedder failed, or gave no answer in time.
          ModelError: The reranker did.
        """
        if self._vectors is not None:
            await self._vectors.guarded.warm(timeout_s)
        if self._reranker is not None:
            await self._reranker.warm(timeout_s or self._database.settings.embedding_timeout_s)

    async def index_large_scopes(self) -> int:
        """Builds the HNSW index for users with more than ``ADKPG_EXACT_LIMIT`` memories.

        Needs the role that migrates, and time: about 0.4 ms a memory. Searches go on meanwhile, and
        answer exactly until the index is ready. Other users' searches stay exact for good. What is
        remembered later is looked at one by one until a worker puts it into the index. Idempotent;
        run it again when more users have grown.

        Returns:
          How many vectors it put into the index.
        """
        return await self._required_vectors().index_large_scopes()

    def _required_vectors(self) -> Vectors:
        if self._vectors is None:
            raise ConfigurationError(
                "The memory service has no embedder; give one, or run pip install 'adkpg[local]'."
            )
        return self._vectors

    async def _ingest(
        self,
        place: SessionKey,
        events: Sequence[Event],
        custom_metadata: Mapping[str, object] | None = None,
        *,
        whole: bool,
    ) -> None:
        require_storable(**place)
        now, policy = platform_time.get_time(), self._database.policy
        drafts = await writing.off_loop(
            text_length(event.content for event in events) + 200 * len(events),
            lambda: drafts_of_events(
                events, place["session_id"], custom_metadata, now=now, policy=policy
            ),
        )
        accepts(drafts)
        vectors = self._vectors
        if vectors is None:
            await writing.ingest_turns(self._database, place, drafts, whole=whole)
            return
        ahead: list[Ahead] = []
        terms = None
        if (model_id := vectors.active_model(place["app_name"])) is not None:
            terms = writing.Terms(
                vectors.claims,
                model_id,
                begin=lambda rows: ahead.append(Ahead(vectors.of_memories(rows))),
            )
        try:
            claimed = await writing.ingest_turns(
                self._database, place, drafts, whole=whole, terms=terms
            )
            if claimed is not None:
                answered = ahead[0].answered() if ahead else None
                await vectors.embed_claimed(claimed.rows, answered)
            if claimed is None or claimed.others:
                await vectors.embed_quietly(place["app_name"], place["user_id"])
        finally:
            for each in ahead:
                await each.close()


def _named(embedder: Embedder) -> str:
    return f"{embedder.model} ({embedder.dimensions})"
