"""Jobs: how much is still to be done with memories, and dead letters, which are tried again."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from adkpg.database import Database
from adkpg.errors import InvalidInput
from adkpg.keys import APP_WIDE, Users, asked_user, require_storable, storable
from adkpg.limits import page_rows
from adkpg.memory.queue import statements
from adkpg.pages import Page, cursor_of, place_of
from adkpg.telemetry.calls import on, traced

WorkKind = Literal["embed", "extract"]

_FIRST = ("", "", -(2**63), 0)  # before all places


@dataclass(frozen=True)
class Backlog:
    """How much there is of one kind of work, in memories.

    Attributes:
      work: ``embed`` or ``extract``.
      waiting: Work still to be done, failures included.
      failed: How many of those failed before.
      dead: Dead letters: work that failed too often, and waits for `revive`.
      error: One of the errors, if there are any.
    """

    work: str
    waiting: int
    failed: int
    dead: int
    error: str | None


@dataclass(frozen=True)
class DeadJob:
    """A dead letter: work that failed too often.

    Attributes:
      app_name: The app.
      user_id: The user; None is the app's own.
      memory_id: Which memory it is about.
      created_at: Since when it is to be done.
      attempts: How often it was tried.
      error: Why the last attempt failed.
    """

    app_name: str
    user_id: str | None
    memory_id: str
    created_at: datetime
    attempts: int
    error: str | None


@traced(
    backlog=on("memory_jobs"),
    dead=on("memory_jobs"),
    revive=on("memory_jobs"),
)
class Jobs:
    """The queue of one kind of work: all users' jobs, an app's, or a user's.

    Args:
      database: Where the memories are.
      work: ``embed`` or ``extract``.
    """

    def __init__(self, database: Database, *, work: WorkKind) -> None:
        self._database = database
        self._work = work

    def __repr__(self) -> str:
        return f"Jobs({self._database!r}, work={self._work!r})"

    async def backlog(
        self, *, app_name: str | None = None, user_id: str | Users = Users.ALL
    ) -> Backlog:
        """Returns how much work there is.

        Args:
          app_name: An app's; None is every app's.
          user_id: A user's, or `Users`.

        Raises:
          InvalidInput: An id cannot be stored.
        """
        user = self._user(app_name, user_id)
        if app_name is not None and user is not None:
            query = statements.count_jobs_of_user(work=self._work, app_name=app_name, user_id=user)
        else:
            query = statements.count_jobs(work=self._work, of_app=app_name, of_user=user)
        row = await self._database.run.fetch_one(query)
        assert row is not None
        return Backlog(self._work, **row)

    async def dead(
        self,
        *,
        app_name: str | None = None,
        user_id: str | Users = Users.ALL,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[DeadJob]:
        """Returns some of the dead letters, with the error of each.

        Args:
          app_name: An app's; None is every app's.
          user_id: A user's, or `Users`.
          limit: At most this much, at least 1, and at most ``ADKPG_MAX_RESULTS``.
          cursor: The `next_cursor` of the page before; None starts at the first.

        Raises:
          InvalidInput: `limit` is below 1, an id cannot be stored, or `cursor` did not come
            from a page.
        """
        limit = page_rows(self._database.settings, limit)
        user = self._user(app_name, user_id)
        place = _FIRST if cursor is None else place_of(cursor, str, str, int, int)
        if app_name is not None and user is not None:
            query = statements.select_dead_of_user(
                work=self._work,
                app_name=app_name,
                user_id=user,
                after_position=place[2],
                limit=limit + 1,
            )
        else:
            query = statements.select_dead(
                work=self._work,
                of_app=app_name,
                of_user=user,
                after_app=place[0],
                after_user=APP_WIDE if place[3] else place[1],
                after_position=place[2],
                limit=limit + 1,
            )
        rows = await self._database.run.fetch(query)
        following = None
        if len(rows) > limit:
            last = rows[limit - 1]
            of_app = last["user_id"] == APP_WIDE  # which no cursor may hold
            named = "" if of_app else last["user_id"]
            following = cursor_of(last["app_name"], named, last["position"], int(of_app))
        jobs = [
            DeadJob(
                row["app_name"],
                None if row["user_id"] == APP_WIDE else row["user_id"],
                row["memory_id"],
                row["created_at"],
                row["attempts"],
                row["error"],
            )
            for row in rows[:limit]
        ]
        return Page(jobs, following)

    async def revive(
        self,
        *,
        app_name: str | None = None,
        user_id: str | Users = Users.ALL,
        memory_id: str | None = None,
    ) -> int:
        """Makes dead letters due again, of those whom `backlog` counts; returns how many.

        Args:
          app_name: An app's; None is every app's.
          user_id: A user's, or `Users`.
          memory_id: That of one memory, whose app and user are named.

        Raises:
          InvalidInput: An id cannot be stored, or a memory is named without its user.
        """
        user = self._user(app_name, user_id)
        if app_name is not None and user is not None:
            query = statements.revive_of_user(
                work=self._work, app_name=app_name, user_id=user, memory_id=memory_id
            )
        elif memory_id is not None:
            raise InvalidInput("A memory's id is not enough; give its app and user, too.")
        else:
            query = statements.revive(work=self._work, of_app=app_name, of_user=user)
        if not storable(memory_id=memory_id):
            return 0
        row = await self._database.run.fetch_one(query)
        return int(row["revived"]) if row else 0

    def _user(self, app_name: str | None, user_id: str | Users) -> str | None:
        require_storable(app_name=app_name)
        user = asked_user(user_id)
        if app_name is None or user is None:
            self._database.run.require_every_scope()
        return user
