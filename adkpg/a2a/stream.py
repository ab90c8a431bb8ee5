"""Stream: the events of a task that another process works on, as they come."""

import asyncio
from collections.abc import AsyncGenerator

from a2a.server.cluster import TaskEventStream, TaskVersion, VersionedEvent
from a2a.types import Task, TaskState
from a2a.utils.errors import TaskNotFoundError

from adkpg.a2a import statements
from adkpg.a2a.task import RUNNING, StoredVersion, TaskKey, read, read_event
from adkpg.a2a.words import GONE, for_peers
from adkpg.database import Database

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class TaskEvents(TaskEventStream):
    """Reads the events that `DatabaseTaskStore` has saved.

    No connection is held meanwhile: the database is asked every second, and more often just after
    an event.

    Args:
      database: Where the tasks are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def publish(self, task_id: str, event: VersionedEvent) -> None:
        """Does nothing: a save has written the event."""

    async def subscribe(
        self, task_id: str, *, after: TaskVersion
    ) -> AsyncGenerator[VersionedEvent, None]:
        """Yields a task's events, each once and in order, until it ends or waits for a client.

        Where a change was saved as a whole task, that is yielded.

        Args:
          task_id: The task.
          after: The version that `DatabaseTaskStore.get` returned: it says whose task it is.

        Raises:
          TaskNotFoundError: It was erased, or the version came from elsewhere.
          InternalError: The database refused.
        """
        if not isinstance(after, StoredVersion):
            raise TaskNotFoundError
        place, revision = after.place, after.revision
        pause_s = _SHORTEST_PAUSE_S
        while True:
            with for_peers():
                rows = await self._database.run.fetch(
                    statements.select_news(**place, revision=revision)
                )
                if rows and rows[0]["lapsed"]:
                    await self._database.run.fetch(statements.fail_lapsed(**place, reason=GONE))
                    continue
            if not rows:
                raise TaskNotFoundError
            (news,) = rows
            if news["revision"] == revision + len(news["events"]):
                for payload in news["events"]:
                    revision += 1
                    yield VersionedEvent(event=read_event(payload), version=TaskVersion(revision))
            else:
                task, revision = await self._whole(place)
                yield VersionedEvent(event=task, version=TaskVersion(revision))
            if TaskState.Value(news["state"]) not in RUNNING:
                return
            new = bool(news["events"])
            pause_s = _SHORTEST_PAUSE_S if new else min(1.5 * pause_s, _LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)

    async def _whole(self, place: TaskKey) -> tuple[Task, int]:
        with for_peers():
            rows = await self._database.run.fetch(statements.select_task(**place))
        if not rows:
            raise TaskNotFoundError
        return read(rows[0]["payload"], rows[0]["events"]), rows[0]["revision"]

    async def destroy(self, task_id: str) -> None:
        """Does nothing: the events go with the task."""
