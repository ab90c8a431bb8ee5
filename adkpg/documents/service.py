"""Documents: what an app knows from texts, found alongside what is remembered of a user."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import PurePath

from google.adk.platform import time as platform_time
from google.genai import types

from adkpg import jsontext
from adkpg.database import Transaction
from adkpg.documents import statements
from adkpg.documents.chunking import CHUNK_TOKENS, chunks
from adkpg.documents.replacing import Piece, change
from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.keys import ScopeKey, require_storable, scope_user, storable
from adkpg.limits import page_rows, require_size
from adkpg.memory import attributes
from adkpg.memory.attributes import Attributes
from adkpg.memory.drafts import Draft, new_draft
from adkpg.memory.records import Memory
from adkpg.memory.service import PgVectorMemoryService
from adkpg.memory.vectors.vectors import Vectors
from adkpg.memory.write.apply import apply
from adkpg.memory.write.plan import new_place
from adkpg.memory.write.statements import lock_session
from adkpg.pages import Page, cursor_of, place_of
from adkpg.telemetry.calls import DELETE, UPSERT, on, traced
from adkpg.timestamps import clamped, moment

_MARKDOWN = frozenset((".md", ".markdown", ".mdx", ".mkd"))
_FEWEST_TOKENS = 20


@dataclass(frozen=True)
class Source:
    """A document that is stored.

    Attributes:
      source: Its name, as it was added.
      chunks: How many pieces it has.
      time: ISO 8601 with offset; when the newest of its pieces was written.
    """

    source: str
    chunks: int
    time: str


@dataclass(frozen=True)
class Report:
    """The result of adding a document.

    Attributes:
      source: Its name.
      added: Pieces written, and embedded.
      unchanged: Pieces that were stored already; they keep their ids, vectors and times.
      removed: Pieces that it no longer has.
    """

    source: str
    added: int
    unchanged: int
    removed: int


@traced(
    add=UPSERT,
    delete=DELETE,
    list_sources=on("memories"),
)
class Documents:
    """Keeps documents as memories of kind ``document``, in pieces that an embedder reads whole.

    Without a user they are the app's: a search of any of its users finds them, unless it says
    ``app_wide=False``. The pieces of a document are neighbours, as the turns of a session are.

    Args:
      memory: The service whose searches are to find them; its embedder makes their vectors.
      chunk_tokens: Estimated tokens of a piece, at least 20. Another number cuts documents again
        when they are added again.

    Raises:
      ConfigurationError: `chunk_tokens` is too small.
    """

    def __init__(self, memory: PgVectorMemoryService, *, chunk_tokens: int = CHUNK_TOKENS) -> None:
        if chunk_tokens < _FEWEST_TOKENS:
            raise ConfigurationError(
                f"chunk_tokens={chunk_tokens} is below {_FEWEST_TOKENS}; pieces need room for a "
                "sentence."
            )
        self._chunk_tokens = chunk_tokens
        self._database = memory.database
        embedder = memory.embedder
        self._vectors = None if embedder is None else Vectors(memory.database, embedder)
        self._memory = memory

    def __repr__(self) -> str:
        return f"Documents({self._memory!r}, chunk_tokens={self._chunk_tokens})"

    async def add(
        self,
        *,
        app_name: str,
        source: str,
        text: str,
        user_id: str | None = None,
        topics: Sequence[str] = (),
        importance: float = 0.5,
        metadata: Mapping[str, object] | None = None,
        modified: date | str | float | None = None,
        markdown: bool | None = None,
    ) -> Report:
        """Stores a document in pieces; one that is stored already becomes what is given now.

        Pieces whose text is the same keep their ids and vectors. Other pieces are written and
        embedded, and those that the text no longer has are deleted. All of it is one transaction,
        so a search finds the old document or the new one. Adding it again changes nothing. If the
        embedder fails, a warning says so, and the pieces are found by their words until
        `PgVectorMemoryService.embed_pending` or a worker has embedded them.

        Args:
          app_name: The app.
          source: The document's name: a relative path, or any name it keeps.
          text: The whole document. A blank one leaves nothing of what was stored.
          user_id: The only user who finds it; None is all users of the app.
          topics: What it is about; searches may ask for them.
          importance: From 0 to 1; a factor of its score that is 1 at 0.5.
          metadata: Kept with each piece; ``ttl`` and ``expires_at`` say until when it is found.
          modified: When it was written: a datetime, ISO 8601 text or Unix seconds; None is now.
            The time of what is new: pieces of the same text keep theirs.
          markdown: Whether it is cut as Markdown; None goes by the ending of `source`.

        Raises:
          InvalidInput: A value cannot be stored; nothing was written.
        """
        require_storable(app_name=app_name, user_id=user_id)
        _require_name(source)
        require_size(self._database.settings, "max_event_mb", f"Document {source!r}", text)
        user = scope_user(user_id)
        self._database.run.require_scope_to_write(app_name, user_id=user)
        now = platform_time.get_time()
        time = clamped(now) if modified is None else moment("modified", modified)
        given = _attributes(topics, importance, metadata, now)
        if markdown is None:
            markdown = PurePath(source).suffix.lower() in _MARKDOWN
        # In a thread: a long text takes seconds, and the event loop goes on meanwhile.
        texts = await asyncio.to_thread(
            chunks, jsontext.storable(text), as_markdown=markdown, max_tokens=self._chunk_tokens
        )
        report = await self._database.run.transact(
            lambda transaction: self._replace(
                transaction, app_name, user, source, texts, time, given
            )
        )
        if self._vectors is not None:
            await self._vectors.embed_quietly(app_name, user)
        return report

    async def delete(self, *, app_name: str, source: str, user_id: str | None = None) -> int:
        """Deletes a document; returns how many pieces it had. An unknown one is nothing.

        Args:
          app_name: The app.
          source: The name it was added with.
          user_id: The user; None is all users of the app.
        """
        if not source or not storable(app_name=app_name, user_id=user_id, source=source):
            return 0
        user = scope_user(user_id)
        self._database.run.require_scope_to_write(app_name, user_id=user)
        nothing = await self._database.run.transact(
            lambda transaction: self._replace(
                transaction, app_name, user, source, [], clamped(0.0), Attributes()
            )
        )
        return nothing.removed

    async def list_sources(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        limit: int = 1000,
        cursor: str | None = None,
    ) -> Page[Source]:
        """Returns some stored documents, by name.

        Args:
          app_name: The app.
          user_id: The user; None is all users of the app.
          limit: At most this many, at least 1, and at most ``ADKPG_MAX_RESULTS``.
          cursor: The `next_cursor` of the page before; None starts at the first.

        Raises:
          InvalidInput: `limit` is below 1, or `cursor` did not come from a page.
        """
        limit = page_rows(self._database.settings, limit)
        (after,) = ("",) if cursor is None else place_of(cursor, str)
        if not storable(app_name=app_name, user_id=user_id):
            return Page([], None)
        rows = await self._database.run.fetch(
            statements.list_sources(
                app_name=app_name, user_id=scope_user(user_id), limit=limit + 1, after=after
            ),
        )
        sources = [
            Source(row["source"], row["chunks"], row["time"].astimezone(UTC).isoformat())
            for row in rows[:limit]
        ]
        return Page(sources, cursor_of(sources[-1].source) if len(rows) > limit else None)

    async def _replace(
        self,
        transaction: Transaction,
        app_name: str,
        user: str,
        source: str,
        texts: Sequence[str],
        time: datetime,
        given: Attributes,
    ) -> Report:
        scope: ScopeKey = {"app_name": app_name, "user_id": user}
        # Who else writes memories of no session takes the same lock.
        await transaction.fetch(lock_session(**scope, session_id=""))
        found = await transaction.fetch(statements.select_pieces(**scope, source=source))
        plan = change(
            [Piece(**row) for row in found],
            texts,
            lambda text, since: _draft(source, text, since or time, given),
            new_place(user),
        )
        await apply(transaction, scope, plan, self._database.settings)
        new = len(plan.insert)
        return Report(source, new, len(texts) - new, len(plan.delete))


def _draft(source: str, text: str, time: datetime, given: Attributes) -> Draft:
    return new_draft(
        kind="document",
        author=None,
        timestamp=time,
        content=types.Content(parts=[types.Part(text=text)]),
        text=text,
        given=given,
        source=source,
    )


def _require_name(source: str) -> None:
    if not source.strip():
        raise InvalidInput("A document without a name cannot be replaced; give its source.")
    require_storable(source=source)


def _attributes(
    topics: Sequence[str], importance: float, metadata: Mapping[str, object] | None, now: float
) -> Attributes:
    attributes.require_topics(topics)
    weight = attributes.weight("importance", importance)
    said = Memory(content=types.Content(), topics=list(topics), importance=weight)
    return attributes.read(metadata, now, said)
