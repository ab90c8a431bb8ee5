"""Expiry: what has expired goes, and the objects of its files with it."""

from adkpg.artifacts.sweep import remove_noted
from adkpg.database import Database
from adkpg.memory.upkeep.tidying import Tidied, tidy_rows
from adkpg.telemetry.calls import on, traced_function


@traced_function(on("sessions"))
async def tidy(database: Database) -> Tidied:
    """Erases expired sessions, memories and results, old audit, and marks that nobody needs.

    Idempotent. A worker does it every ten minutes. Batches of 500 rows, each found through an index
    and erased in a transaction of its own: it may be ended anywhere, and goes on the next time.
    Many processes may do it simultaneously; what a writer holds is passed over until the next time.
    Objects of an expired session's files go, too, unless the log says what was in the way.

    The mark of a deleted memory stays as long as its event is stored, and ``ADKPG_TOMBSTONE_DAYS``
    longer; so does that of an event that adkpg does not store, counted from the last time that it
    was given to memory.

    Raises:
      DatabaseError: The server refused; batches that were erased before stay erased.
    """
    tidied = await tidy_rows(database)
    if tidied.sessions:
        await remove_noted(database)
    return tidied
