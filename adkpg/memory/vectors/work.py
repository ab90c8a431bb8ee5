"""Embedding as work of a worker: memories that wait for a vector get one."""

import asyncio
import logging
from dataclasses import dataclass

from adkpg import scopes
from adkpg.errors import ModelError, ModelUnavailable
from adkpg.keys import require_storable
from adkpg.memory.vectors.vectors import Vectors

logger = logging.getLogger(__name__)

_FLUSH_POLL_S = 0.05
_LONGEST_POLL_S = 1.0


@dataclass(frozen=True)
class Embedding:
    """Gives memories their vectors.

    Attributes:
      vectors: The embedder's.
      name: What the log calls it.
    """

    vectors: Vectors
    name: str = "embedding"

    def pause_s(self) -> float:
        """Returns for how many seconds the embedder is not asked, since it is away."""
        return self.vectors.guarded.pause_s()

    def forgive(self) -> None:
        """Has an embedder that is away asked again now."""
        self.vectors.guarded.forgive()

    async def due_users(self) -> list[tuple[str, str]]:
        """Returns users with memories that wait for a vector of this model."""
        model_id, _ = await self.vectors.numbered_model()
        return await self.vectors.claims.due_users(model_id=model_id)

    async def work(self, app_name: str, user_id: str) -> int:
        """Embeds one batch."""
        return await self.vectors.embed_user(app_name, user_id, eager=False, batches=1)

    async def flush(self, *, app_name: str | None) -> None:
        """Does what `PgVectorMemoryService.flush` says, without a limit of time."""
        require_storable(app_name=app_name)
        guarded = self.vectors.guarded
        guarded.forgive()
        eager = True  # what failed before is tried immediately, and then again when it is due
        while True:
            if app_name is not None:
                await self.vectors.require_active(app_name)
            model_id, _ = await self.vectors.numbered_model()
            async for app, user in self.vectors.claims.users(app_name=app_name, model_id=model_id):
                try:
                    with scopes.narrowed(app, user):
                        await self.vectors.embed_user(app, user, eager=eager)
                except ModelError as exc:
                    if guarded.news("flush", exc):
                        logger.warning("Flushing goes on: %s", exc)
                    if isinstance(exc, ModelUnavailable):
                        break
            model_id, _ = await self.vectors.numbered_model()
            waiting = await self.vectors.claims.waiting(app_name=app_name, model_id=model_id)
            if not waiting.own:
                if waiting.other_app is None:
                    return
                await self.vectors.require_active(waiting.other_app)
            eager = False
            # Another process may end what waits while the embedder is away from this one.
            await asyncio.sleep(max(_FLUSH_POLL_S, min(guarded.pause_s(), _LONGEST_POLL_S)))
