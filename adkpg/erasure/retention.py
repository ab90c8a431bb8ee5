"""Retention: deleting old sessions, or old events of sessions, in batches."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from google.adk.platform import time as platform_time

from adkpg.artifacts.sweep import remove_noted
from adkpg.database import Database
from adkpg.erasure import retention_statements as statements
from adkpg.errors import InvalidInput
from adkpg.keys import Users, asked_user, require_storable
from adkpg.telemetry.calls import on, traced_function
from adkpg.timestamps import clamped

_PAGE = 100
_EVENTS = 5_000
_EVER = datetime(1, 1, 2, tzinfo=UTC)


class _Sessions(TypedDict):
    app_names: list[str]
    user_ids: list[str]
    session_ids: list[str]


@dataclass(frozen=True)
class PrunedSessions:
    """What was deleted of one user's sessions, or would be.

    Attributes:
      app_name: The app.
      user_id: The user.
      sessions: How many sessions went, or with `events_only` lost events.
      events: How many events went.
      states: 1 if the user's state went, too.
    """

    app_name: str
    user_id: str
    sessions: int
    events: int
    states: int


@traced_function(on("sessions"))
async def prune_sessions(
    database: Database,
    *,
    app_name: str | None,
    user_id: str | Users,
    older_than: timedelta | None = None,
    events_only: bool = False,
    user_states: bool = False,
    dry_run: bool = False,
) -> list[PrunedSessions]:
    """Deletes expired sessions, and others by age; idempotent.

    A session goes with its events and saved files, as by `delete_session`: what was remembered of
    it stays. Objects of its files go, too, unless the log says what was in the way. Batches of 100
    sessions, each a transaction of its own: it may be ended anywhere, and goes on the next time.
    Sessions that somebody writes to are passed over until then.

    Args:
      database: The database.
      app_name: One app's; None is all apps'.
      user_id: One user's, or `Users.ALL`; an app has no sessions of its own.
      older_than: Sessions whose last event and creation are longer ago than this; None is those
        that have expired only.
      events_only: Sessions and their states stay; their events that are longer ago go. A session
        whose events went is read without them, by agents, too.
      user_states: The ``user:`` states of those who have no session left go too, if they were
        changed longer ago; else nobody's do.
      dry_run: Only counts.

    Returns:
      What went of each user, by app and user; without those of whom nothing did.

    Raises:
      InvalidInput: An id cannot be stored, or `older_than` is missing or in the future.
      DatabaseError: The server refused; batches that were deleted before stay deleted.
    """
    require_storable(app_name=app_name)
    user = asked_user(user_id)
    if app_name is None or user is None:
        database.run.require_every_scope()
    if older_than is not None and older_than < timedelta():
        raise InvalidInput(f"older_than={older_than} is in the future; give a positive time.")
    if older_than is None and (events_only or user_states):
        raise InvalidInput("Events and states go by age alone; give older_than, such as 90 days.")
    before = _EVER
    if older_than is not None:
        before = clamped(platform_time.get_time() - older_than.total_seconds())
    counts: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    async for page in _pages(database, app_name, user, before, whole=not events_only):
        gone: Sequence[Any] = page
        if not dry_run:
            given: _Sessions = {
                "app_names": [row["app_name"] for row in page],
                "user_ids": [row["user_id"] for row in page],
                "session_ids": [row["session_id"] for row in page],
            }
            delete = _delete_events if events_only else _delete_sessions
            gone = await delete(database, given, before)
        for row in gone:
            count = counts[row["app_name"], row["user_id"]]
            count[0] += 1
            count[1] += row["events"]
    if counts and not dry_run and not events_only:
        await remove_noted(database)
    if user_states:
        for row in await _states(database, app_name, user, before, dry_run=dry_run):
            counts[row["app_name"], row["user_id"]][2] = 1
    return [PrunedSessions(*whose, *count) for whose, count in sorted(counts.items())]


async def _pages(
    database: Database,
    app_name: str | None,
    user_id: str | None,
    before: datetime,
    *,
    whole: bool,
) -> AsyncIterator[Sequence[Any]]:
    select = statements.select_old if whole else statements.select_with_old_events
    last: Any = {"app_name": "", "user_id": "", "session_id": ""}
    while True:
        page = await database.run.fetch(
            select(
                app_name=app_name,
                of_user=user_id,
                before=before,
                after_app_name=last["app_name"],
                after_user_id=last["user_id"],
                after_session_id=last["session_id"],
                limit=_PAGE,
            )
        )
        if page:
            yield page
        if len(page) < _PAGE:
            return
        last = page[-1]


async def _delete_sessions(database: Database, given: _Sessions, before: datetime) -> Sequence[Any]:
    gone = await database.run.fetch(statements.delete_old_sessions(**given, before=before))
    _tell(database, gone)
    return gone


async def _delete_events(database: Database, given: _Sessions, before: datetime) -> Sequence[Any]:
    counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    while True:
        gone = await database.run.fetch(
            statements.delete_old_events(**given, before=before, limit=_EVENTS)
        )
        for row in gone:
            counts[row["app_name"], row["user_id"], row["session_id"]] += 1
        if len(gone) < _EVENTS:
            break
    names = ("app_name", "user_id", "session_id")
    deleted = [{**dict(zip(names, key, strict=True)), "events": n} for key, n in counts.items()]
    _tell(database, deleted)
    return deleted


async def _states(
    database: Database,
    app_name: str | None,
    user_id: str | None,
    before: datetime,
    *,
    dry_run: bool,
) -> Sequence[Any]:
    if dry_run:
        return await database.run.fetch(
            statements.select_nobodys_states(app_name=app_name, of_user=user_id, before=before)
        )
    gone: list[Any] = []
    while True:
        batch = await database.run.fetch(
            statements.delete_nobodys_states(
                app_name=app_name, of_user=user_id, before=before, limit=_EVENTS
            )
        )
        gone += batch
        if len(batch) < _EVENTS:
            return gone


def _tell(database: Database, gone: Sequence[Any]) -> None:
    for row in gone:
        database.keepers.erased(
            app_name=row["app_name"], user_id=row["user_id"], session_id=row["session_id"]
        )
