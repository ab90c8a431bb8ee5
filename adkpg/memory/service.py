"""PgVectorMemoryService: long-term memory for ADK agents."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.sessions.session import Session

from adkpg.database import Database, Transaction
from adkpg.embedding.default import default_embedder
from adkpg.embedding.embedder import Embedder
from adkpg.errors import ConfigurationError, EmbeddingError, InvalidInput
from adkpg.keys import require_storable, storable
from adkpg.memory import ingestion, recall, records, statements, vector_statements
from adkpg.memory.records import Draft, Hit
from adkpg.memory.vectors import Vectors

logger = logging.getLogger(__name__)

Mode = Literal["hybrid", "vector", "text"]


class PgVectorMemoryService(BaseMemoryService):
    """A complete ADK memory service on Postgres with pgvector.

    Durable first: memories are committed, found by their words at once, and then embedded. If the
    embedder fails they stay pending, a warning says so, and the next ingest or `embed_pending`
    catches up. Every search reads the memories of one user of one app only, and compares all of
    their vectors, except for users that `index_large_scopes` put into the HNSW index.

    Args:
      database: A `Database` to share (it stays open when the service closes), or a URL, or
        nothing for ``ADKPG_DATABASE_URL``.
      embedder: What turns texts into vectors. None is ``ADKPG_EMBEDDER``: by default the offline
        one if ``adkpg[local]`` is installed, else words only, with one warning.
      top_k: Most memories that a search returns, at least 1.
      min_score: Lowest cosine, in [-1, 1], of a hit that no word of the question leads to. None is
        the embedder's own floor, under which its model finds noise.
      mode: ``hybrid`` is words and vectors together, ``vector`` and ``text`` one of them alone.
      **database_options: With a URL, for the `Database` made of it.

    Raises:
      ConfigurationError: An argument cannot work.
    """

    def __init__(
        self,
        database: Database | str | None = None,
        *,
        embedder: Embedder | None = None,
        top_k: int = 20,
        min_score: float | None = None,
        mode: Mode = "hybrid",
        **database_options: Any,
    ) -> None:
        _require_range(top_k, min_score)
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
        settings = self._database.settings
        if embedder is None and mode != "text":
            embedder = default_embedder(settings.embedder)
        _require_mode(mode, embedder)
        self._vectors = None if embedder is None else Vectors(self._database, embedder)
        self._top_k = top_k
        self._min_score = min_score
        self._mode: Mode = mode if embedder is not None else "text"
        self._approximate: set[tuple[str, str]] = set()

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
        drafts = records.drafts_of_events(session.events)
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
          custom_metadata: Kept with each and returned with its hits.

        Raises:
          InvalidInput: A value cannot be stored; nothing was written.
        """
        drafts = records.drafts_of_events(events, custom_metadata)
        await self._ingest(app_name, user_id, session_id or "", drafts, whole=False)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers entries as they are; one whose id is stored already replaces it.

        An entry that is stored as it is given, its timestamp included, is left alone.

        Args:
          app_name: The app.
          user_id: The user.
          memories: Each with text; without id it gets one, without timestamp it is of now.
          custom_metadata: Kept with each, under the entry's own; ``memory_id`` in an entry's own
            is its id, as with ADK's Vertex service.

        Raises:
          InvalidInput: An entry has no text, or a value cannot be stored; nothing was written.
        """
        require_storable(app_name=app_name, user_id=user_id)
        drafts = records.drafts_of_memories(memories, custom_metadata, platform_time.get_time())
        if not drafts:
            return
        scope = {"app_name": app_name, "user_id": user_id}
        ids = [draft.memory_id for draft in drafts]
        async with self._database.transaction() as transaction:
            await transaction.fetch(statements.lock_session(), {**scope, "session_id": ""})
            found = await transaction.fetch(
                statements.select_by_ids(), {**scope, "memory_ids": ids}
            )
            if sources := sorted({row["session_id"] for row in found} - {""}):
                for session_id in sources:
                    await transaction.fetch(
                        statements.lock_session(), {**scope, "session_id": session_id}
                    )
                # A writer of such a session may have moved or dropped them until now.
                found = await transaction.fetch(
                    statements.select_by_ids(), {**scope, "memory_ids": ids}
                )
            known = {row["memory_id"]: row for row in found}
            drafts = [
                draft
                for draft in drafts
                if draft.memory_id not in known or known[draft.memory_id]["digest"] != draft.digest
            ]
            replaced = [known[draft.memory_id] for draft in drafts if draft.memory_id in known]
            await transaction.fetch(
                statements.delete_positions(),
                {**scope, "positions": [row["position"] for row in replaced]},
            )
            rows = [
                (
                    known[draft.memory_id]["position"]
                    if draft.memory_id in known
                    else ingestion.new_block(),
                    draft,
                )
                for draft in drafts
            ]
            sessions = [
                (known[draft.memory_id]["session_id"], known[draft.memory_id]["event_id"])
                if draft.memory_id in known
                else ("", None)
                for draft in drafts
            ]
            await self._insert(transaction, scope, rows, sessions)
        if self._vectors is not None:
            await self._vectors.embed_quietly(app_name, user_id)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forgets one memory; re-adding its session does not bring it back.

        Its words are gone from the search of its neighbours too. None and an unknown id do
        nothing.
        """
        if not memory_id or not storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            return
        scope = {"app_name": app_name, "user_id": user_id}
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
        query; an empty one finds nothing. See `search` for scores.
        """
        hits = await self.search(app_name=app_name, user_id=user_id, query=query)
        return SearchMemoryResponse(memories=[hit.memory for hit in hits])

    async def search(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        top_k: int | None = None,
        min_score: float | None = None,
        mode: Mode | None = None,
    ) -> list[Hit]:
        """Returns scored hits, the best first; arguments left out are the service's own.

        If the embedder fails, a hybrid search answers by words alone, with a warning.

        Raises:
          EmbeddingError: The embedder failed and only vectors were asked for.
          ConfigurationError: Only vectors were asked for, and there is no embedder.
          InvalidInput: `top_k` or `min_score` is out of range, or there is no such mode.
        """
        _require_range(top_k, min_score, InvalidInput)
        mode = mode or self._mode
        _require_mode(mode, self.embedder, InvalidInput)
        text = records.storable_text(query)
        if not text or not storable(app_name=app_name, user_id=user_id):
            return []
        parameters: dict[str, Any] = {
            "app_name": app_name,
            "user_id": user_id,
            "query": text,
            "config": self._database.settings.text_search_config,
            "top_k": top_k or self._top_k,
        }
        lexical = mode != "vector"
        vector = None if mode == "text" else await self._query_vector(text, required=not lexical)
        if vector is None or self._vectors is None:
            shape = recall.Shape(lexical=lexical, vector=False)
            rows = await self._database.fetch(recall.search(shape), parameters)
            return [records.hit(row) for row in rows]
        floor = self._min_score if min_score is None else min_score
        parameters |= self._vectors.model | {
            "query_vector": vector,
            "min_cosine": self._vectors.floor if floor is None else floor,
        }
        scope = (app_name, user_id)
        shape = recall.Shape(lexical=lexical, vector=True, large=self._vectors.large)
        if scope in self._approximate:
            shape = replace(shape, approximate=await self._vectors.numbered_model())
            async with self._database.transaction() as transaction:
                await transaction.fetch(vector_statements.tune_search(), {})
                rows = list(await transaction.fetch(recall.search(shape), parameters))
        else:
            rows = await self._database.fetch(recall.search(shape), parameters)
        if rows:  # a statement cannot ask first: each search tells how the next is to be answered
            change = self._approximate.add if rows[0]["approximate"] else self._approximate.discard
            change(scope)
        return [records.hit(row) for row in rows]

    async def embed_pending(
        self, *, app_name: str | None = None, user_id: str | None = None
    ) -> int:
        """Embeds memories that wait for a vector: everybody's, or one user's. Idempotent.

        Batches are embedded outside of any transaction; what changes meanwhile, or is held by a
        writer, stays pending for the next call.

        Returns:
          How many vectors were stored.

        Raises:
          EmbeddingError: The embedder failed; the rest stays pending.
          ConfigurationError: The service has no embedder.
        """
        return await self._required_vectors().embed_pending(app_name, user_id)

    async def index_large_scopes(self) -> int:
        """Builds the HNSW index for users with more than ``ADKPG_EXACT_LIMIT`` memories.

        Needs the role that migrates, and time: about 0.4 ms a memory. Searches go on meanwhile, and
        answer exactly until the index is ready. Other users' searches stay exact for good.
        Idempotent; run it again when more users have grown.

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
        self, app_name: str, user_id: str, session_id: str, drafts: list[Draft], *, whole: bool
    ) -> None:
        require_storable(app_name=app_name, user_id=user_id, session_id=session_id)
        scope = {"app_name": app_name, "user_id": user_id}
        place = {**scope, "session_id": session_id}
        async with self._database.transaction() as transaction:
            await transaction.fetch(statements.lock_session(), place)
            stored = [
                ingestion.Stored(**row)
                for row in await transaction.fetch(statements.select_session_memories(), place)
                if row["event_id"] is not None
            ]
            deleted = {
                row["event_id"]
                for row in await transaction.fetch(statements.select_tombstones(), place)
            }
            planned = ingestion.replacement if whole else ingestion.addition
            plan = planned(stored, drafts, deleted, ingestion.new_block())
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
                sessions = [(session_id, draft.event_id) for _, draft in plan.insert]
                await self._insert(transaction, scope, plan.insert, sessions)
        if self._vectors is not None:
            await self._vectors.embed_quietly(app_name, user_id)

    async def _insert(
        self,
        transaction: Transaction,
        scope: dict[str, str],
        rows: Sequence[tuple[int, Draft]],
        sources: Sequence[tuple[str, str | None]],
    ) -> None:
        drafts = [draft for _, draft in rows]
        await transaction.fetch(
            statements.insert_memories(),
            {
                **scope,
                "config": self._database.settings.text_search_config,
                "positions": [position for position, _ in rows],
                "memory_ids": [draft.memory_id for draft in drafts],
                "session_ids": [session_id for session_id, _ in sources],
                "event_ids": [event_id for _, event_id in sources],
                "authors": [draft.author for draft in drafts],
                "timestamps": [draft.timestamp for draft in drafts],
                "contents": [draft.content for draft in drafts],
                "bodies": [draft.body for draft in drafts],
                "metadata": [draft.custom_metadata for draft in drafts],
                "digests": [draft.digest for draft in drafts],
            },
        )

    async def _query_vector(self, text: str, *, required: bool) -> str | None:
        if self._vectors is None:
            return None
        try:
            return await self._vectors.of_query(text)
        except EmbeddingError as exc:
            if required:
                raise
            logger.warning("The search answers by words alone: %s", exc)
            return None


def _require_mode(
    mode: str,
    embedder: Embedder | None,
    error: type[ConfigurationError] | type[InvalidInput] = ConfigurationError,
) -> None:
    if mode not in ("hybrid", "vector", "text"):
        raise error(f"mode is 'hybrid', 'vector' or 'text', not {mode!r}.")
    if mode == "vector" and embedder is None:
        raise ConfigurationError(
            "mode='vector' needs an embedder; give one, or run pip install 'adkpg[local]'."
        )


def _require_range(
    top_k: int | None,
    min_score: float | None,
    error: type[ConfigurationError] | type[InvalidInput] = ConfigurationError,
) -> None:
    if top_k is not None and top_k < 1:
        raise error(f"top_k={top_k} is below 1; ask for at least one memory.")
    if min_score is not None and not -1 <= min_score <= 1:
        raise error(f"min_score={min_score} is a cosine, from -1 to 1.")
