"""Jobs: how much is still to be done with memories, and what was given up tried again."""

from dataclasses import dataclass
from types import EllipsisType
from typing import Literal

from adkpg.database import Database
from adkpg.keys import asked_user
from adkpg.memory.queue import statements
from adkpg.telemetry.calls import on, traced

Task = Literal["embed", "extract"]


@dataclass(frozen=True)
class Backlog:
    """The amount of work of one task, in memories.

    Attributes:
      task: ``embed`` or ``extract``.
      waiting: Work still to be done, failures included.
      failed: How many of those failed before.
      dead: Work that was given up, until `revive`.
      error: One of the errors, if there are any.
    """

    task: str
    waiting: int
    failed: int
    dead: int
    error: str | None


@traced(
    backlog=on("memory_jobs"),
    revive=on("memory_jobs"),
)
class Jobs:
    """The queue of one task: everybody's jobs, an app's, or a user's.

    Args:
      database: Where the memories are.
      task: ``embed`` or ``extract``.
    """

    def __init__(self, database: Database, *, task: Task) -> None:
        self._database = database
        self._task = task

    async def backlog(
        self, *, app_name: str | None = None, user_id: str | EllipsisType | None = ...
    ) -> Backlog:
        """Returns how much work there is.

        Args:
          app_name: An app's; None is every app's.
          user_id: A user's; None is the app's own, and left out every user's.

        Raises:
          InvalidInput: The user id cannot be stored.
        """
        shape, asked = self._asked(app_name, user_id)
        row = await self._database.fetch_one(statements.count_jobs(**shape), asked)
        assert row is not None
        return Backlog(self._task, **dict(row))

    async def revive(
        self, *, app_name: str | None = None, user_id: str | EllipsisType | None = ...
    ) -> int:
        """Makes dead work due again, of those whom `backlog` counts; returns how much.

        Raises:
          InvalidInput: The user id cannot be stored.
        """
        shape, asked = self._asked(app_name, user_id)
        row = await self._database.fetch_one(statements.revive(**shape), asked)
        return int(row["revived"]) if row else 0

    def _asked(
        self, app_name: str | None, user_id: str | EllipsisType | None
    ) -> tuple[dict[str, bool], statements.TaskParameters]:
        user = asked_user(user_id)
        if app_name is None or user is None:
            self._database.require_every_scope()
        shape = {"app": app_name is not None, "user": user is not None}
        return shape, {"task": self._task, "app_name": app_name, "user_id": user}
