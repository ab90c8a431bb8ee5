"""Tidying: what is over by itself goes, of every table that says so."""

from dataclasses import dataclass

from adkpg.artifacts.sweep import remove_noted
from adkpg.database import Database
from adkpg.erasure.pruning import erase_expired
from adkpg.erasure.retention import end, found
from adkpg.rules import RULES
from adkpg.telemetry.calls import on, traced_function


@dataclass(frozen=True)
class Tidied:
    """How many rows went.

    Attributes:
      memories: That had expired, and what was drawn from them.
      tombstones: Marks of deleted memories whose event is not stored.
      results: Those of invocations whose key has expired.
      sessions: That had expired; their events and saved files went, too.
      audit: Entries of the audit that were older than ``ADKPG_AUDIT_DAYS``.
      tasks: A2A's that ended longer than ``ADKPG_TASK_DAYS`` ago.
    """

    memories: int
    tombstones: int
    results: int = 0
    sessions: int = 0
    audit: int = 0
    tasks: int = 0


@traced_function(on("sessions"))
async def tidy(database: Database) -> Tidied:
    """Erases expired sessions, memories and results, old audit and tasks, and unneeded marks.

    Idempotent. A worker does it every ten minutes. Batches of 500 rows, each found through an index
    and erased in a transaction of its own: it may be ended anywhere, and goes on the next time.
    Many processes may do it simultaneously; what a writer holds is passed over until the next time.
    Objects of an expired session's files go, too, unless the log says what was in the way.

    The mark of a deleted memory stays as long as its event is stored, and ``ADKPG_TOMBSTONE_DAYS``
    longer. If adkpg does not store the event, the days count from the last time that it was given
    to memory. The audit has no entry of tidying, since the settings ask for it.

    Raises:
      DatabaseError: The server refused; batches that were erased before stay erased.
    """
    database.run.require_every_scope()
    gone = {}
    for rule in RULES:
        if rule.over is not None and rule.drawn is None:
            gone[rule.table.name] = sum(
                [len(await end(database, rule, rows)) async for rows in found(database, rule)]
            )
    memories = await erase_expired(database)
    if gone["sessions"]:
        await remove_noted(database)
    return Tidied(
        memories,
        tombstones=gone["memory_tombstones"],
        results=gone["invocation_results"],
        sessions=gone["sessions"],
        audit=gone["audit"],
        tasks=gone["tasks"],
    )
