"""Jobs: what is still to be done with memories, claimed, given back, ended."""

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from adkpg import jsontext
from adkpg.database import Database
from adkpg.errors import DatabaseUnavailable
from adkpg.memory.queue import statements

logger = logging.getLogger(__name__)

Task = Literal["embed", "extract"]

_MOST_USERS = 1_000
_LONGEST_DELAY_S = 600.0
_LONGEST_ERROR = 2_000


@dataclass(frozen=True)
class Backlog:
    """How much work of one task there is, in memories.

    Attributes:
      task: ``embed`` or ``extract``.
      waiting: What is still to be done, what failed before included.
      failed: How many of those failed before.
      dead: What was given up until `revive`.
      error: One of the errors, if there are any.
    """

    task: str
    waiting: int
    failed: int
    dead: int
    error: str | None


@dataclass(frozen=True)
class Waiting:
    """What waits for a model.

    Attributes:
      own: How many memories.
      other_app: An app whose memories wait for another model; None if there is none.
    """

    own: int
    other_app: str | None


class Jobs:
    """The queue of one task. Many processes may work on it at once.

    A claim is a lease: it lapses after ``ADKPG_JOB_LEASE_S``, and then another may claim the same
    work. Whoever had it before can no longer give it back, fail it or end it.

    Args:
      database: Where the memories are.
      task: Which task.
    """

    def __init__(self, database: Database, task: Task) -> None:
        self._database = database
        self._task = task

    async def due_users(
        self,
        app_name: str | None = None,
        user_id: str | None = None,
        *,
        model_id: int | None = None,
        eager: bool = False,
    ) -> list[tuple[str, str]]:
        """Returns up to 1,000 (app_name, user_id) that have work nobody has claimed.

        Args:
          app_name: Of this app only.
          user_id: Of this user only.
          model_id: Leaves out apps with another active model; None asks nothing.
          eager: With what waits after a failure too.
        """
        rows = await self._database.fetch(
            statements.select_due_users(eager=eager, **_asked(app_name, user_id)),
            {**self._scope(app_name, user_id), "limit": _MOST_USERS, "model_id": model_id},
        )
        return [(row["app_name"], row["user_id"]) for row in rows]

    async def claim(
        self,
        app_name: str,
        user_id: str,
        limit: int,
        *,
        model_id: int | None = None,
        eager: bool = False,
    ) -> list[Any]:
        """Claims a user's work; see `job_statements.claim`. A cancelled caller claims nothing.

        Args:
          app_name: The app.
          user_id: The user.
          limit: At most so much.
          model_id: Nothing if the app has another active model; None asks nothing.
          eager: With what waits after a failure too.
        """
        claiming = asyncio.ensure_future(
            self._database.fetch(
                statements.claim(eager=eager),
                {
                    **self._scope(app_name, user_id),
                    "limit": limit,
                    "lease_s": self._database.settings.job_lease_s,
                    "model_id": model_id,
                },
            )
        )
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:  # the server may have claimed it already
            await asyncio.wait({claiming})
            if claiming.exception() is None:
                await self.release(claiming.result())
            raise

    async def fail(self, rows: Sequence[Any], error: Exception, *, refused: bool) -> None:
        """Gives work of one claim back after a failure.

        It is due again after a delay that doubles with every attempt, up to ten minutes.

        Args:
          rows: As claimed.
          error: What happened; its text is kept.
          refused: Whether the work itself was refused, which is given up after
            ``ADKPG_JOB_MAX_ATTEMPTS``; a service that is down is asked for ever.
        """
        attempts = max(row["attempts"] for row in rows)
        delay_s = min(2.0 ** min(attempts, 20), _LONGEST_DELAY_S) * random.uniform(0.5, 1)
        await self._put_back(rows, f"{type(error).__name__}: {error}", delay_s, refused=refused)

    async def release(self, rows: Sequence[Any]) -> None:
        """Gives work of one claim back, if it is not done, as if nobody had claimed it.

        Without a connection that is a warning: the lease lapses.
        """
        try:
            await self._put_back(rows, None, 0.0, refused=False)
        except DatabaseUnavailable as exc:
            logger.warning("Claimed work waits until its lease lapses: %s", exc)

    async def complete(self, rows: Sequence[Any]) -> None:
        """Ends work of one claim."""
        if rows:
            positions = [row["position"] for row in rows]
            await self._database.fetch(
                statements.complete(claimed=True), {**self._of(rows), "positions": positions}
            )

    async def revive(self, app_name: str | None = None, user_id: str | None = None) -> int:
        """Makes dead work due again, everybody's, an app's or a user's; returns how much."""
        row = await self._database.fetch_one(
            statements.revive(**_asked(app_name, user_id)), self._scope(app_name, user_id)
        )
        return int(row["revived"]) if row else 0

    async def backlog(self, app_name: str | None = None, user_id: str | None = None) -> Backlog:
        """Returns how much work there is, everybody's, an app's or a user's."""
        row = await self._database.fetch_one(
            statements.count_jobs(**_asked(app_name, user_id)), self._scope(app_name, user_id)
        )
        assert row is not None
        return Backlog(self._task, **dict(row))

    async def waiting(
        self, app_name: str | None = None, user_id: str | None = None, *, model_id: int
    ) -> Waiting:
        """Returns what waits for a model, everybody's, an app's or a user's; nothing dead."""
        row = await self._database.fetch_one(
            statements.select_waiting(**_asked(app_name, user_id)),
            {**self._scope(app_name, user_id), "model_id": model_id},
        )
        assert row is not None
        return Waiting(**dict(row))

    async def _put_back(
        self, rows: Sequence[Any], error: str | None, delay_s: float, *, refused: bool
    ) -> None:
        if rows:
            await self._database.fetch(
                statements.put_back(),
                {
                    **self._of(rows),
                    "memory_ids": [row["memory_id"] for row in rows],
                    "error": None if error is None else jsontext.storable(error)[:_LONGEST_ERROR],
                    "delay_s": delay_s,
                    "refused": refused,
                    "max_attempts": self._database.settings.job_max_attempts,
                },
            )

    def _scope(self, app_name: str | None, user_id: str | None) -> dict[str, Any]:
        return {"task": self._task, "app_name": app_name, "user_id": user_id}

    def _of(self, rows: Sequence[Any]) -> dict[str, Any]:
        first = rows[0]
        scope = self._scope(first["app_name"], first["user_id"])
        return {**scope, "claimed_until": first["lease_expires_at"]}


def _asked(app_name: str | None, user_id: str | None) -> dict[str, bool]:
    return {"app": app_name is not None, "user": user_id is not None}
