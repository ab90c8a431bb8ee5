"""Jobs: what is still to be done with memories, claimed, given back, ended."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from adkpg.database import Database
from adkpg.memory import job_statements as statements

Task = Literal["embed", "extract"]

_MOST_USERS = 1_000
_LONGEST_DELAY_S = 600.0


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


class Jobs:
    """The queue of one task. Many processes may work on it at once.

    Args:
      database: Where the memories are.
      task: Which task.
    """

    def __init__(self, database: Database, task: Task) -> None:
        self._database = database
        self._task = task

    async def due_users(
        self, *, model_id: int | None = None, eager: bool = False
    ) -> list[tuple[str, str]]:
        """Returns up to 1,000 (app_name, user_id) that have work nobody has claimed.

        Args:
          model_id: Leaves out apps with another active model; None asks nothing.
          eager: With what waits after a failure too.
        """
        rows = await self._database.fetch(
            statements.select_due_users(eager=eager),
            {"task": self._task, "limit": _MOST_USERS, "model_id": model_id},
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
        """Claims a user's work for ``ADKPG_JOB_LEASE_S``; see `job_statements.claim`."""
        settings = self._database.settings
        return await self._database.fetch(
            statements.claim(eager=eager),
            {
                "app_name": app_name,
                "user_id": user_id,
                "task": self._task,
                "limit": limit,
                "lease_s": settings.job_lease_s,
                "model_id": model_id,
            },
        )

    async def fail(self, rows: Sequence[Any], error: Exception, *, refused: bool) -> None:
        """Gives one user's claimed work back after a failure.

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
        """Gives one user's claimed work back, if it is not done, as if nobody had claimed it."""
        await self._put_back(rows, None, 0.0, refused=False)

    async def complete(self, rows: Sequence[Any]) -> None:
        """Ends one user's claimed work."""
        if rows:
            await self._database.fetch(statements.complete(), self._of(rows))

    async def revive(self, app_name: str | None = None, user_id: str | None = None) -> int:
        """Makes dead work due again, everybody's or one user's; returns how much."""
        one_user = app_name is not None and user_id is not None
        row = await self._database.fetch_one(
            statements.revive(one_user=one_user),
            {"task": self._task, "app_name": app_name, "user_id": user_id},
        )
        return int(row["revived"]) if row else 0

    async def backlog(self, app_name: str | None = None, user_id: str | None = None) -> Backlog:
        """Returns how much work there is, everybody's or one user's."""
        one_user = app_name is not None and user_id is not None
        rows = await self._database.fetch(
            statements.count_jobs(one_user=one_user), {"app_name": app_name, "user_id": user_id}
        )
        found = next((row for row in rows if row["task"] == self._task), None)
        return Backlog(**dict(found)) if found else Backlog(self._task, 0, 0, 0, None)

    async def _put_back(
        self, rows: Sequence[Any], error: str | None, delay_s: float, *, refused: bool
    ) -> None:
        if rows:
            await self._database.fetch(
                statements.put_back(),
                {
                    **self._of(rows),
                    "error": error,
                    "delay_s": delay_s,
                    "refused": refused,
                    "max_attempts": self._database.settings.job_max_attempts,
                },
            )

    def _of(self, rows: Sequence[Any]) -> dict[str, Any]:
        return {
            "app_name": rows[0]["app_name"],
            "user_id": rows[0]["user_id"],
            "task": self._task,
            "positions": [row["position"] for row in rows],
        }
