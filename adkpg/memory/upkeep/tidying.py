"""Tidying: erases what has expired, and rows that nobody needs any more."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from adkpg.database import WITHOUT_RACES, Database, Transaction
from adkpg.errors import Busy
from adkpg.keys import ScopeKey
from adkpg.memory.upkeep import statements
from adkpg.memory.upkeep.statements import Ended
from adkpg.memory.write.statements import give_way, lock_session
from adkpg.queries import Query
from adkpg.scopes import narrowed
from adkpg.telemetry.calls import DELETE, on, traced_function

_BATCH = 500
_SESSIONS = 100  # whose events go with them


@dataclass(frozen=True)
class Tidied:
    """How many rows went.

    Attributes:
      memories: That had expired, and what was drawn from them.
      tombstones: Marks of deleted memories whose event is not stored.
      results: Of invocations whose key has expired.
      sessions: That had expired; their events and saved files went, too.
      audit: Entries of the audit that were older than ``ADKPG_AUDIT_DAYS``.
    """

    memories: int
    tombstones: int
    results: int = 0
    sessions: int = 0
    audit: int = 0


@traced_function(on("sessions"))
async def tidy(database: Database) -> Tidied:
    """Erases expired sessions, memories and results, old audit, and marks that nobody needs.

    Idempotent. A worker does it every ten minutes. Batches of 500 rows, each found through an index
    and erased in a transaction of its own: it may be ended anywhere, and goes on the next time.
    Many processes may do it simultaneously; what a writer holds is passed over until the next time.

    The mark of a deleted memory stays as long as its event is stored, and ``ADKPG_TOMBSTONE_DAYS``
    longer; so does that of an event that adkpg does not store, counted from the last time that it
    was given to memory.

    Raises:
      DatabaseError: The server refused; batches that were erased before stay erased.
    """
    return await tidy_rows(database)


async def tidy_rows(database: Database) -> Tidied:
    """Does what `tidy` does, as a part of a call."""
    sessions = await _sweep_sessions(database)
    memories = await erase_expired(database)
    days, kept_days = database.settings.tombstone_days, database.settings.audit_days
    tombstones = await _swept(
        database,
        partial(statements.select_over_tombstones, days=days),
        partial(statements.end_tombstones, days=days),
    )
    results = await _swept(database, statements.select_over_results, statements.end_results)
    audit = await _swept(
        database,
        partial(statements.select_over_audit, days=kept_days),
        partial(statements.end_audit, days=kept_days),
    )
    return Tidied(memories, tombstones, results, sessions, audit)


@traced_function(DELETE)
async def erase_expired(database: Database) -> int:
    """Erases everybody's expired memories for good, as `tidy` does.

    Superseded facts are kept.

    Returns:
      How many memories were erased, what was drawn from them included.

    Raises:
      DatabaseError: As `tidy`.
    """
    database.run.require_every_scope()
    erased = 0
    last: Any = None
    while True:
        found = await database.run.fetch(
            statements.select_expired(
                limit=_BATCH,
                after_expires_at=last["expires_at"] if last else None,
                after_app_name=last["app_name"] if last else None,
                after_user_id=last["user_id"] if last else None,
                after_position=last["position"] if last else None,
            )
        )
        by_scope = defaultdict(list)
        for row in found:
            by_scope[row["app_name"], row["user_id"]].append(row)
        for (app_name, user_id), rows in by_scope.items():
            scope: ScopeKey = {"app_name": app_name, "user_id": user_id}
            with narrowed(app_name, user_id):
                erased += await _erase(database, scope, rows)
        if len(found) < _BATCH:
            return erased
        last = found[-1]


async def _sweep_sessions(database: Database) -> int:
    database.run.require_every_scope()
    count = 0
    last: Any = None
    while True:
        found = await database.run.fetch(
            statements.select_expired_sessions(
                limit=_SESSIONS,
                after_app_name=last["app_name"] if last else "",
                after_user_id=last["user_id"] if last else "",
                after_session_id=last["session_id"] if last else "",
            )
        )
        if found:
            gone = await database.run.fetch(
                statements.delete_expired_sessions(
                    **_lists(found, "app_name", "user_id", "session_id")
                )
            )
            count += len(gone)
            for row in gone:
                database.keepers.erased(
                    app_name=row["app_name"], user_id=row["user_id"], session_id=row["session_id"]
                )
        if len(found) < _SESSIONS:
            return count
        last = found[-1]


async def _erase(database: Database, scope: ScopeKey, rows: Sequence[Any]) -> int:
    """Erases those of some memories that are still expired; returns how many went.

    The locks come before the statement that reads again what is to go and what was drawn from it,
    so that it sees what writers have committed. None is waited for: nobody is kept waiting by what
    waits here, and nothing deadlocks.
    """

    async def erase(transaction: Transaction) -> int:
        await transaction.fetch(give_way(**scope))
        # An ingest that is writing one of them again would not be seen, and bring it back.
        for session_id in sorted({row["session_id"] for row in rows}):
            await transaction.fetch(lock_session(**scope, session_id=session_id))
        free = await transaction.fetch(
            statements.lock_free_positions(**scope, **_lists(rows, "position"))
        )
        (gone,) = await transaction.fetch(
            statements.erase_expired_positions(**scope, **_lists(free, "position"))
        )
        return int(gone["erased"])

    try:
        return await database.run.transact(erase, policy=WITHOUT_RACES)
    except Busy:  # a writer holds the session, or a fact that was drawn from them
        return 0


async def _swept(
    database: Database, select_over: Callable[..., Query[Any]], end: Callable[..., Query[Ended]]
) -> int:
    """Deletes rows that are over: finds everybody's, and deletes them by their keys."""
    gone = passed = 0
    while True:
        rows = await database.run.fetch(select_over(limit=_BATCH, passed=passed))
        if rows:
            done = await database.run.fetch(end(**_lists(rows, *rows[0].keys())))
            gone += sum(row["gone"] for row in done)
            passed += len(rows) - len(done)
        if len(rows) < _BATCH:
            return gone


def _lists(rows: Sequence[Any], *names: str) -> dict[str, Any]:
    """The columns of rows as parameters, each named after its column in the plural."""
    return {f"{name}s": [row[name] for row in rows] for name in names}
