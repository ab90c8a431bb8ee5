"""Upkeep: giving memories their vectors, now or beside the application."""

import asyncio

from adkpg.database import Database
from adkpg.errors import ConfigurationError
from adkpg.memory.queue.jobs import Jobs
from adkpg.memory.queue.worker import Worker
from adkpg.memory.vectors.vectors import Vectors
from adkpg.memory.vectors.work import Embedding


class KeptVectors:
    """Memories whose vectors follow them: immediately, by a worker, or when somebody asks."""

    _database: Database
    _vectors: Vectors | None

    async def embed_pending(
        self, *, app_name: str | None = None, user_id: str | None = None, app_wide: bool = False
    ) -> int:
        """Embeds memories that wait for a vector: everybody's, an app's or a user's. Idempotent.

        Batches are embedded outside of any transaction; what changes meanwhile, or is held by a
        writer, stays pending for the next call. What another worker has claimed is left to it.

        Args:
          app_name: The app; None is everybody's.
          user_id: The user, with `app_name`; None is all of the app's.
          app_wide: What the app knows for all its users, alone.

        Returns:
          How many vectors were stored.

        Raises:
          EmbeddingError: The embedder failed; the rest stays pending.
          ConfigurationError: The service has no embedder.
        """
        return await self.required_vectors().embed_pending(
            app_name=app_name, user_id=user_id, app_wide=app_wide
        )

    async def run_worker(
        self,
        stop: asyncio.Event | None = None,
        *,
        poll_interval_s: float = 1.0,
        users_at_once: int = 2,
    ) -> int:
        """Embeds what is pending until it is stopped; see `adkpg.memory.queue.worker.Worker`.

        For an application that writes memories with its events (``remember=``), or many. Run it in
        a task, or run ``adkpg worker`` in a process of its own.

        Args:
          stop: Ends it once it is set: the batches that run are finished.
          poll_interval_s: Pause when nothing is due, in seconds.
          users_at_once: Most users whose batches run side by side.

        Returns:
          How many memories it embedded.

        Raises:
          ConfigurationError: The service has no embedder.
        """
        embedding = self._embedding(self.required_vectors())
        worker = Worker([embedding], poll_interval_s=poll_interval_s, users_at_once=users_at_once)
        return await worker.run(stop)

    async def flush(
        self,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        app_wide: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Returns once nothing waits for a vector: embeds what is free, waits for other workers.

        What fails is tried again as a worker would, so this may take as long as the embedder is
        down; what was given up (dead) is not waited for. A service without embedder returns
        immediately.

        Args:
          app_name: The app; None is everybody's.
          user_id: The user, with `app_name`; None is all of the app's.
          app_wide: What the app knows for all its users, alone.
          timeout_s: Longest wait in seconds; None waits on.

        Raises:
          TimeoutError: Something still waits after `timeout_s`.
          ModelNotActive: What is left is of an app that is searched with another model, which this
            service cannot embed.
        """
        if self._vectors is None:
            return
        async with asyncio.timeout(timeout_s):
            await self._embedding(self._vectors).flush(
                app_name=app_name, user_id=user_id, app_wide=app_wide
            )

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

    def _embedding(self, vectors: Vectors) -> Embedding:
        return Embedding(vectors, Jobs(self._database, task="embed"))
