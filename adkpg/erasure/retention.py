"""Retention: what is over, or old, goes in batches that pass over what others hold."""

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from google.adk.platform import time as platform_time

from adkpg.artifacts.sweep import remove_noted
from adkpg.database import Database
from adkpg.erasure import retention_statements as statements
from adkpg.erasure.noting import noting
from adkpg.erasure.retention_statements import Age, Ended
from adkpg.errors import InvalidInput
from adkpg.keys import Users, asked_user, require_storable
from adkpg.rules import BY_TABLE, Rule
from adkpg.telemetry.calls import on, traced_function
from adkpg.timestamps import clamped

_BATCH = 500
_EVER = datetime(1, 1, 2, tzinfo=UTC)
_KEPT = (BY_TABLE["sessions"], BY_TABLE["events"])


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
    Sessions that a writer holds are passed over until then. The audit notes it of the user that
    is named, or else of each app of which something is found.

    Args:
      database: The database.
      app_name: One app's; None is all apps'.
      user_id: One user's, or `Users.ALL`; an app has no sessions of its own.
      older_than: Sessions whose last event and creation are longer ago than this; None is those
        that have expired only.
      events_only: Sessions and their states stay; their events that are longer ago go. A session
        whose events went is read without them, by agents, too.
      user_states: The ``user:`` states of those who have no session left go too, if they were
        changed longer ago; otherwise no user's go.
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
    age: Age = {"before": before, "app_name": app_name, "of_user": user}
    rules = [BY_TABLE["events" if events_only else "sessions"]]
    if user_states:
        rules.append(BY_TABLE["user_states"])
    pruned: defaultdict[tuple[str, str], _Pruned] = defaultdict(_Pruned)
    async with noting(database, action="prune_sessions", user_id=user) as begin:
        for rule in rules:
            async for rows in found(database, rule, age):
                if not dry_run:
                    await begin(row["app_name"] for row in rows)
                for row in rows if dry_run else await end(database, rule, rows, age):
                    pruned[row["app_name"], row["user_id"]].add(row)
    if any(each.session_ids for each in pruned.values()) and not dry_run:
        await remove_noted(database)
    return [
        PrunedSessions(*whose, len(each.session_ids), each.events, each.states)
        for whose, each in sorted(pruned.items())
    ]


@dataclass
class _Pruned:
    """What went of one user."""

    session_ids: set[str] = field(default_factory=set)
    events: int = 0
    states: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        if (session_id := row.get("session_id")) is None:
            self.states += 1
        else:
            self.session_ids.add(session_id)
            self.events += row["counted"]


async def found(
    database: Database, rule: Rule, age: Age | None = None
) -> AsyncIterator[Sequence[Any]]:
    """Yields batches of rows that are over, or old, as `statements.select_over` finds them.

    Args:
      database: The database.
      rule: Their table's.
      age: Finds old ones instead.
    """
    limit = rule.batch or _BATCH
    days = _days(database, rule)
    last = None
    while True:
        rows = await database.run.fetch(
            statements.select_over(rule, limit=limit, after=last, days=days, age=age)
        )
        if rows:
            yield rows
        if len(rows) < limit:
            return
        last = rows[-1]


async def end(
    database: Database, rule: Rule, rows: Sequence[Any], age: Age | None = None
) -> Sequence[Ended]:
    """Deletes those of some rows that are still over, or old; returns what went.

    What others hold is passed over until the next time.

    Args:
      database: The database.
      rule: Their table's.
      rows: As `found` yields them.
      age: As for `found`.
    """
    gone = await database.run.fetch(
        statements.end_over(rule, rows, days=_days(database, rule), age=age)
    )
    if rule in _KEPT:
        places = {(row["app_name"], row["user_id"], row["session_id"]) for row in gone}
        for app_name, user_id, session_id in places:
            database.keepers.erased(app_name=app_name, user_id=user_id, session_id=session_id)
    return gone


def _days(database: Database, rule: Rule) -> float | None:
    return None if rule.days is None else getattr(database.settings, rule.days)
