"""Reembedding: gives an app's memories vectors of another model, then searches with that one."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from adkpg.database import Database
from adkpg.embedding.embedder import Embedder
from adkpg.errors import (
    AdkpgError,
    ConfigurationError,
    ConstraintViolated,
    ModelError,
)
from adkpg.memory.vectors.vectors import Embedded, Vectors, registered, store
from adkpg.tooling.models import statements
from adkpg.tooling.models.switch import lacking, switch

logger = logging.getLogger(__name__)

_READ_TOGETHER = 10_000
_BEFORE_ALL = ("", -(2**63))  # a user and a position
_MODEL_GONE = "memory_vectors_model_fkey"


@dataclass(frozen=True)
class Progress:
    """The progress of reembedding an app.

    Attributes:
      app_name: The app.
      covered: Memories that have a vector of the new model.
      memories: All of the app's, as last counted.
    """

    app_name: str
    covered: int
    memories: int


@dataclass(frozen=True)
class Reembedded:
    """The outcome of one app.

    Attributes:
      app_name: The app.
      embedded: Vectors stored before the switch.
      queued: Memories that came too late for it and were queued by it; they are found by words
        until they have their vectors.
    """

    app_name: str
    embedded: int
    queued: int


class Reembedding:
    """One app's change to the model of an embedder.

    Memories without a vector of the new model are read in order, embedded batch by batch and
    stored alongside their old vectors; no transaction is open meanwhile. Changes before the
    place that was reached is found by the next pass. So a run that ended anywhere is continued
    by the next, and two simultaneous ones do the same work twice and no harm.

    Args:
      database: Where the app is.
      embedder: The new model's.
      app_name: The app.
      progress: Is told after each batch.

    Raises:
      ConfigurationError: Postgres cannot index vectors of this length.
    """

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        app_name: str,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._vectors = Vectors(database, embedder)
        self._app_name = app_name
        self._progress = progress or (lambda _: None)
        self._refused: list[AdkpgError] = []

    async def run(self) -> Reembedded:
        """Does what `Models.reembed` says of one app."""
        self._vectors.guarded.forgive()
        embedded = 0
        while True:
            found, stored = await self._pass()
            embedded += stored
            if self._refused:
                raise self._refusal()
            # The few that came meanwhile wait in the queue, or there would never be an end.
            if found <= self._batch_size or not stored:
                break
        model_id = await self._registered()
        _, queued = await switch(self._database, self._app_name, model_id, queue=True)
        if queued:
            await self._embed_queued()
        return Reembedded(self._app_name, embedded, queued)

    @property
    def _batch_size(self) -> int:
        return self._database.settings.embedding_batch_size

    async def _registered(self) -> int:
        return await registered(self._database, self._embedder.model, self._embedder.dimensions)

    async def _pass(self) -> tuple[int, int]:
        """Goes over all memories once; returns how many lacked a vector, and how many got one."""
        # Registered only when its first vectors are there; until then no memory has one of it.
        model_id, _ = await self._vectors.numbered_model()
        count = await lacking(self._database, self._app_name, model_id)
        covered, memories = count.memories - count.lacking, count.memories
        self._refused = []
        found = stored = 0
        async for places in self._places(model_id):
            self._progress(Progress(self._app_name, min(covered + stored, memories), memories))
            found += len(places)
            rows = await self._database.run.fetch(
                statements.select_texts(
                    app_name=self._app_name,
                    model_id=model_id,
                    user_ids=[place["user_id"] for place in places],
                    positions=[place["position"] for place in places],
                )
            )
            any_embedded = False
            async with aclosing(self._vectors.of_memories(rows)) as groups:
                async for embedded, refused in groups:
                    self._refused += [error for _, error in refused]
                    if embedded:
                        any_embedded = True
                        model_id = model_id or await self._registered()
                        stored += await self._store(model_id, embedded)
            if not any_embedded and len(rows) > 1:  # not the texts are at fault
                break
        self._progress(Progress(self._app_name, min(covered + stored, memories), memories))
        return found, stored

    async def _places(self, model_id: int) -> AsyncIterator[Sequence[Any]]:
        """Yields where memories lack a vector, a batch at a time."""
        user_id, position = _BEFORE_ALL
        while places := await self._database.run.fetch(
            statements.select_lacking(
                app_name=self._app_name,
                model_id=model_id,
                after_user=user_id,
                after_position=position,
                limit=_READ_TOGETHER,
            )
        ):
            for start in range(0, len(places), self._batch_size):
                yield places[start : start + self._batch_size]
            user_id, position = places[-1]["user_id"], places[-1]["position"]

    async def _store(self, model_id: int, embedded: Sequence[Embedded]) -> int:
        try:
            large = self._vectors.large
            return await store(self._database, model_id, embedded, large=large, ahead=True)
        except ConstraintViolated as exc:
            if exc.constraint != _MODEL_GONE:
                raise
            raise ConfigurationError(
                f"Model {self._embedder.model!r} was dropped while its vectors were being made; "
                "run the command again."
            ) from exc

    async def _embed_queued(self) -> None:
        try:
            await self._vectors.embed_pending(app_name=self._app_name)
        except ModelError as exc:
            logger.warning(
                "App %r is searched with model %r now, but some memories still wait for vectors: "
                "%s A worker, or embed_pending(), catches up.",
                self._app_name,
                self._embedder.model,
                exc,
            )

    def _refusal(self) -> ModelError:
        first = self._refused[0]
        error = ModelError(
            f"App {self._app_name!r} is searched as before, since {len(self._refused)} of its "
            f"memories got no vector of model {self._embedder.model!r} ({first}); fix the cause "
            "and run it again, or queue them by adkpg models activate --force."
        )
        error.__cause__ = first
        return error
