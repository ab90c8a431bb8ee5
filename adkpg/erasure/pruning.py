"""Pruning: erasing what has expired, faded, or is too much, user by user in short transactions."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypedDict

from google.adk.platform import time as platform_time

from adkpg.database import Database, Transaction
from adkpg.erasure import pruning_statements as statements
from adkpg.erasure.locks import giving_way
from adkpg.erasure.noting import noting
from adkpg.erasure.pruning_statements import Candidate
from adkpg.erasure.retention import found
from adkpg.errors import Busy, InvalidInput
from adkpg.keys import APP_WIDE, ScopeKey, Users, asked_user, require_storable
from adkpg.memory import attributes
from adkpg.memory.filters import SearchFilters
from adkpg.memory.write.statements import erase_positions, lock_free_positions, lock_session
from adkpg.rules import BY_TABLE
from adkpg.scopes import narrowed
from adkpg.telemetry.calls import DELETE, traced_function
from adkpg.timestamps import clamped

_PAGE = 1_000
_BATCH = 500
_MOST = 2**63 - 1

PRUNED_KINDS = ("turn", "note", "fact", "summary")
"""The kinds that are pruned if none are named: all except documents, which operators add."""

_REASONS = ("expired", "superseded", "faded", "surplus", "drawn")


class _Rules(TypedDict):
    """As `adkpg.erasure.pruning_statements` has them."""

    superseded: bool
    before: datetime | None
    max_importance: float | None
    max_memories: int | None
    kinds: list[str]


_EXPIRED: _Rules = {
    "superseded": False,
    "before": None,
    "max_importance": None,
    "max_memories": None,
    "kinds": [],
}


@dataclass(frozen=True)
class Pruned:
    """How many of one user's memories were erased, or would be.

    Attributes:
      app_name: The app.
      user_id: The user; None is what the app knows for all its users.
      expired: Had expired.
      superseded: Facts that others had replaced.
      faded: Too old, too unimportant, or both where both were asked for.
      surplus: More than the user may have.
      drawn: Facts and summaries that were drawn from those.
    """

    app_name: str
    user_id: str | None
    expired: int
    superseded: int
    faded: int
    surplus: int
    drawn: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.expired + self.superseded + self.faded + self.surplus + self.drawn


@traced_function(DELETE)
async def prune(
    database: Database,
    *,
    app_name: str | None,
    user_id: str | Users,
    older_than: timedelta | None = None,
    max_importance: float | None = None,
    max_memories: int | None = None,
    kinds: Sequence[str] = PRUNED_KINDS,
    superseded: bool = False,
    dry_run: bool = False,
) -> list[Pruned]:
    """Erases expired memories for good, and others by age, importance and number; idempotent.

    Facts and summaries that were drawn from an erased memory go with it. An erased memory of an
    event does not come back when its session is added again. Memories that a writer holds are
    passed over, until the next time. The audit notes it of the user that is named, or else of each
    app of which something is found.

    Args:
      database: The database.
      app_name: One app's memories; None is all apps'.
      user_id: One user's, or `Users`. The memories of an app itself go only if they are expired or
        superseded.
      older_than: Memories said longer ago than this go.
      max_importance: Memories of this importance, in [0, 1], and less go; with `older_than` only
        those that are old too.
      max_memories: Most live memories that each user keeps, at least 0: the most important, and
        among equals the latest.
      kinds: What these three rules are about; expired memories of any kind go.
      superseded: Whether facts that others replaced go too; else they are kept for audit.
      dry_run: Only counts. A memory that two rules name is counted once.

    Returns:
      What was erased of each user, by app and user; without those of whom nothing was.

    Raises:
      InvalidInput: An option is out of range, or an id cannot be stored.
      DatabaseError: The server refused, or a writer held on for too long; batches that were erased
        before stay erased.
    """
    require_storable(app_name=app_name)
    user = asked_user(user_id)
    if app_name is None or user is None:
        database.run.require_every_scope()
    if max_importance is not None:
        max_importance = attributes.weight("max_importance", max_importance)
    if max_memories is not None and max_memories < 0:
        raise InvalidInput(f"max_memories={max_memories} is below 0; give 0 to keep none.")
    if max_memories is not None and max_memories > _MOST:
        raise InvalidInput(f"max_memories={max_memories} is above {_MOST:,}; leave it out.")
    if older_than is not None and older_than < timedelta():
        raise InvalidInput(f"older_than={older_than} is in the future; give a positive time.")
    before = None
    if older_than is not None:
        before = clamped(platform_time.get_time() - older_than.total_seconds())
    rules: _Rules = {
        "superseded": superseded,
        "before": before,
        "max_importance": max_importance,
        "max_memories": max_memories,
        "kinds": list(SearchFilters(kinds=kinds).kinds),
    }
    pruned = []
    async with noting(database, action="prune", user_id=user) as begin:
        async for scope in _scopes(database, app_name, user, rules):
            if dry_run:
                rows = await database.run.fetch(statements.count_candidates(**scope, **rules))
                counts = Counter({row["reason"]: row["memories"] for row in rows})
            else:
                counts = await _prune_user(database, rules, scope, begin)
            if counts.total():
                pruned.append(
                    Pruned(
                        scope["app_name"],
                        None if scope["user_id"] == APP_WIDE else scope["user_id"],
                        *(counts[reason] for reason in _REASONS),
                    )
                )
    return pruned


@traced_function(DELETE)
async def erase_expired(database: Database) -> int:
    """Erases all users' expired memories for good, as `prune` does without other rules.

    An index finds those of all users. What a writer holds is passed over, and not
    waited for. Superseded facts are kept.

    Returns:
      How many memories were erased, what was drawn from them included.

    Raises:
      DatabaseError: The server refused; batches that were erased before stay erased.
    """
    database.run.require_every_scope()
    erased = 0
    async for rows in found(database, BY_TABLE["memories"]):
        by_scope: defaultdict[tuple[str, str], list[Candidate]] = defaultdict(list)
        for row in rows:
            candidate: Candidate = {
                "position": row["position"],
                "session_id": row["session_id"],
                "reason": "expired",
            }
            by_scope[row["app_name"], row["user_id"]].append(candidate)
        for (app_name, user_id), candidates in by_scope.items():
            scope: ScopeKey = {"app_name": app_name, "user_id": user_id}
            work = partial(_prune_batch, rules=_EXPIRED, scope=scope, candidates=candidates)
            # A writer may hold the session, or a fact that was drawn from them.
            with narrowed(**scope), suppress(Busy):
                erased += (await giving_way(database, scope, work, patience_s=0)).total()
    return erased


async def _scopes(
    database: Database,
    app_name: str | None,
    user_id: str | None,
    rules: _Rules,
) -> AsyncIterator[ScopeKey]:
    if app_name is not None and user_id is not None:
        yield {"app_name": app_name, "user_id": user_id}
        return
    last: ScopeKey | None = None
    rows: Sequence[Any] = [None] * _PAGE
    while len(rows) == _PAGE:
        rows = await database.run.fetch(
            statements.select_scopes(
                **rules,
                app_name=app_name,
                of_user=user_id,
                after_app_name=last["app_name"] if last else None,
                after_user_id=last["user_id"] if last else None,
                limit=_PAGE,
            )
        )
        for row in rows:
            last = {"app_name": row["app_name"], "user_id": row["user_id"]}
            yield last


async def _prune_user(
    database: Database,
    rules: _Rules,
    scope: ScopeKey,
    begin: Callable[[list[str]], Awaitable[None]],
) -> Counter[str]:
    """Ranks a user's memories once, and erases what is to go in batches."""
    with narrowed(**scope):
        candidates = await database.run.fetch(statements.select_candidates(**scope, **rules))
    counts: Counter[str] = Counter()
    if candidates:
        await begin([scope["app_name"]])
    for start in range(0, len(candidates), _BATCH):
        work = partial(
            _prune_batch,
            rules=rules,
            scope=scope,
            candidates=candidates[start : start + _BATCH],
        )
        with narrowed(**scope):
            counts += await giving_way(database, scope, work)
    return counts


async def _prune_batch(
    transaction: Transaction,
    *,
    rules: _Rules,
    scope: ScopeKey,
    candidates: Sequence[Any],
) -> Counter[str]:
    """Erases a batch; returns how many memories went by reason.

    The locks come before the statements that read again what is to go and what was drawn from it,
    so that those see what writers have committed. The surplus that goes is what the user still has
    above the number.
    """
    # An ingest that is writing one of them again would not be seen, and bring it back.
    for session_id in sorted({row["session_id"] for row in candidates}):
        await transaction.fetch(lock_session(**scope, session_id=session_id))
    locked = await transaction.fetch(
        lock_free_positions(**scope, positions=[row["position"] for row in candidates])
    )
    rows = await transaction.fetch(
        statements.select_reasons(**scope, **rules, positions=[row["position"] for row in locked])
    )
    planned = {row["position"]: row["reason"] for row in candidates}
    reasons = {row["position"]: row["reason"] for row in rows if row["reason"] is not None}
    surplus = [
        (row["position"], row["counted"])
        for row in rows
        if row["counted"] is not None and planned[row["position"]] == "surplus"
    ]
    reasons |= {
        position: "surplus"
        for place, (position, counted) in enumerate(surplus, 1)
        if counted - place >= (rules["max_memories"] or 0)
    }
    gone = await transaction.fetch(erase_positions(**scope, positions=list(reasons)))
    counts = Counter(reasons.values())
    counts["drawn"] = sum(row["rows"] for row in gone) - len(reasons)
    return +counts
