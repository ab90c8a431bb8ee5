"""Reporting: the metrics that are of no call: what waits, and the use of the pool."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adkpg.database import Database
from adkpg.errors import AdkpgError
from adkpg.telemetry import instruments
from adkpg.telemetry.calls import on, traced_function
from adkpg.tooling.operations import memory_statements as statements

logger = logging.getLogger(__name__)

_KINDS = ("embed", "extract")


@traced_function(on("memory_jobs"))
async def report(database: Database) -> None:
    """Sets the gauges of what waits and for how long, of dead letters, and of the pool's use.

    Args:
      database: Whose; of the running event loop's pool.

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
      DatabaseError: The server refused it.
    """
    database.run.require_every_scope()
    rows = await database.run.fetch(statements.select_queue())
    found = {row["work"]: row for row in rows}
    for work in _KINDS:
        row, labels = found.get(work), {"adkpg.work": work}
        instruments.waiting.set(row["waiting"] if row else 0, labels)
        instruments.oldest.set(row["oldest_s"] if row else 0, labels)
        instruments.dead.set(row["dead"] if row else 0, labels)
    used, idle, most = database.connections.use()
    pool = {"db.client.connection.pool.name": str(database.place.get("server.address", "adkpg"))}
    instruments.connections.set(used, pool | {"db.client.connection.state": "used"})
    instruments.connections.set(idle, pool | {"db.client.connection.state": "idle"})
    instruments.most_connections.set(most, pool)


@asynccontextmanager
async def reporting(database: Database, *, interval_s: float = 15.0) -> AsyncIterator[None]:
    """Reports again and again while the context lasts; asks nothing without an exporter.

    Args:
      database: Whose.
      interval_s: How often, in seconds.
    """

    async def repeat() -> None:
        while True:
            if instruments.listened_to():
                try:
                    await report(database)
                except AdkpgError as exc:
                    logger.debug("The gauges could not be set: %s", exc)
            await asyncio.sleep(interval_s)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
