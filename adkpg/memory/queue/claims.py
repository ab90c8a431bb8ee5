"""Claims: how workers share a queue of jobs: claimed, given back, failed, completed."""

import asyncio
import logging
import random
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from adkpg import jsontext
from adkpg.database import Database
from adkpg.errors import DatabaseError
from adkpg.keys import ScopeKey
from adkpg.memory.queue import statements
from adkpg.memory.queue.jobs import WorkKind
from adkpg.outages.cancellation import uninterrupted

logger = logging.getLogger(__name__)

ClaimT = TypeVar("ClaimT")

_USERS_READ = 200
_FIRST = ("", "")
_LONGEST_DELAY_S = 600.0
_LONGEST_ERROR = 2_000


@dataclass(frozen=True)
class Waiting:
    """Memories that wait for a model.

    Attributes:
      own: How many memories.
      other_app: An app whose memories wait for another model; None if there is none.
    """

    own: int
    other_app: str | None


class Claims:
    """The queue of one kind of work, as workers share it; many processes may do so simultaneously.

    A claim is a lease: it lapses after ``ADKPG_JOB_LEASE_S``, and then another may claim the same
    work. The worker that had it before can no longer give it back, fail it or end it.

    Args:
      database: Where the memories are.
      work: ``embed`` or ``extract``.
    """

    def __init__(self, database: Database, *, work: WorkKind) -> None:
        self._database = database
        self._work = work
        self._after = _FIRST

    async def due_users(self, *, model_id: int | None = None) -> list[tuple[str, str]]:
        """Returns some users, as (app_name, user_id), with work that is due and unclaimed.

        Goes on where the call before ended, and begins again after the last: so each call costs
        the same, however many wait, and each user has a turn.

        Args:
          model_id: Leaves out apps with another active model; None asks nothing.
        """
        found, after = await self._users(self._after, model_id=model_id)
        if not found and self._after != _FIRST:
            found, after = await self._users(_FIRST, model_id=model_id)
        self._after = after or _FIRST
        return found

    async def users(self, *, app_name: str | None, model_id: int) -> AsyncIterator[tuple[str, str]]:
        """Yields all users with work that no worker has claimed, also what waits after a failure.

        Args:
          app_name: An app's; None is every app's.
          model_id: Leaves out apps with another active model.
        """
        after: tuple[str, str] | None = _FIRST
        while after is not None:
            found, after = await self._users(
                after, app_name=app_name, model_id=model_id, eager=True
            )
            for scope in found:
                yield scope

    async def claim(
        self,
        app_name: str,
        user_id: str,
        limit: int,
        *,
        model_id: int | None = None,
        eager: bool = False,
    ) -> list[Any]:
        """Claims a user's work; see `statements.claim`. A cancelled caller claims nothing.

        Args:
          app_name: The app.
          user_id: The user.
          limit: At most this many memories.
          model_id: Nothing if the app has another active model; None asks nothing.
          eager: With what waits after a failure too.
        """
        claim = statements.claim_eagerly if eager else statements.claim
        return await self.held(
            self._database.run.fetch(
                claim(
                    app_name=app_name,
                    user_id=user_id,
                    work=self._work,
                    claim=str(uuid.uuid4()),
                    limit=limit,
                    lease_s=self._database.settings.job_lease_s,
                    model_id=model_id,
                )
            ),
            list,
        )

    async def held(
        self, claiming: Coroutine[Any, Any, ClaimT], claimed: Callable[[ClaimT], Sequence[Any]]
    ) -> ClaimT:
        """Awaits a statement that claims work; a cancelled caller claims nothing.

        Args:
          claiming: What the server answers is the result.
          claimed: Tells what the answer claimed.
        """
        asked = asyncio.ensure_future(claiming)

        async def give_back() -> None:
            await asyncio.wait({asked})
            if asked.exception() is None:
                await self.release(claimed(asked.result()))

        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:  # the server may have claimed it already
            await uninterrupted(give_back())
            raise

    async def fail(self, rows: Sequence[Any], error: Exception, *, refused: bool) -> None:
        """Gives work of one claim back after a failure.

        It is due again after a delay that doubles with every attempt that was refused, up to ten
        minutes.

        Args:
          rows: As claimed.
          error: What happened; its text is kept.
          refused: Whether the work itself was refused. It becomes a dead letter after
            ``ADKPG_JOB_MAX_ATTEMPTS``; a service that is down is asked for ever.
        """
        if rows:
            attempts = max(row["attempts"] for row in rows)
            delay_s = min(2.0 ** min(attempts, 20), _LONGEST_DELAY_S) * random.uniform(0.5, 1)
            await self._put_back(rows, f"{type(error).__name__}: {error}", delay_s, refused=refused)

    async def release(self, rows: Sequence[Any]) -> None:
        """Gives work of one claim back, if it is not done, as if no worker had claimed it.

        A cancelled caller does so, too.
        """
        if rows:
            await uninterrupted(self._put_back(rows, None, 0.0, refused=False))

    async def complete(self, rows: Sequence[Any]) -> None:
        """Ends work of one claim."""
        if rows:
            positions = [row["position"] for row in rows]
            await self._database.run.fetch(
                statements.complete(
                    **_of(rows),
                    work=self._work,
                    claimed_until=rows[0]["lease_expires_at"],
                    positions=positions,
                )
            )

    async def waiting(self, *, app_name: str | None, model_id: int) -> Waiting:
        """Returns what waits for a model, of an app or of all; no dead letters."""
        self._database.run.require_every_scope()
        row = await self._database.run.fetch_one(
            statements.select_waiting(work=self._work, of_app=app_name, model_id=model_id)
        )
        assert row is not None
        return Waiting(**row)

    async def _users(
        self,
        after: tuple[str, str],
        *,
        app_name: str | None = None,
        model_id: int | None,
        eager: bool = False,
    ) -> tuple[list[tuple[str, str]], tuple[str, str] | None]:
        """Reads some users with jobs; returns those with work, and the last if more may follow."""
        self._database.run.require_every_scope()
        if app_name is None:
            query = statements.select_users(
                work=self._work,
                after_app=after[0],
                after_user=after[1],
                limit=_USERS_READ,
                model_id=model_id,
                eager=eager,
                lease_s=self._database.settings.job_lease_s,
            )
        else:
            query = statements.select_users_of_app(
                work=self._work,
                app_name=app_name,
                after_app=after[0],
                after_user=after[1],
                limit=_USERS_READ,
                model_id=model_id,
                eager=eager,
                lease_s=self._database.settings.job_lease_s,
            )
        rows = await self._database.run.fetch(query)
        # Each part of the tables sends its first ones.
        users = sorted((row["app_name"], row["user_id"], row["due"]) for row in rows)[:_USERS_READ]
        last = users[-1][:2] if len(users) >= _USERS_READ else None
        return [(app, user_id) for app, user_id, due in users if due], last

    async def _put_back(
        self, rows: Sequence[Any], error: str | None, delay_s: float, *, refused: bool
    ) -> None:
        """Gives work back; if the database does not let it, the lease lapses."""
        try:
            await self._database.run.fetch(
                statements.put_back(
                    **_of(rows),
                    work=self._work,
                    claimed_until=rows[0]["lease_expires_at"],
                    memory_ids=[row["memory_id"] for row in rows],
                    error=None if error is None else jsontext.storable(error)[:_LONGEST_ERROR],
                    delay_s=delay_s,
                    refused=refused,
                    max_attempts=self._database.settings.job_max_attempts,
                )
            )
        except DatabaseError as exc:
            logger.warning("Claimed work waits until its lease lapses: %s", exc)


def _of(rows: Sequence[Any]) -> ScopeKey:
    return {"app_name": rows[0]["app_name"], "user_id": rows[0]["user_id"]}
