"""Locks: erasing gives way to all other writers."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from adkpg.database import WITHOUT_RACES, Database, Transaction
from adkpg.errors import Busy
from adkpg.keys import ScopeKey
from adkpg.memory.write.statements import give_way

T = TypeVar("T")

_PAUSE_S = 0.1


async def giving_way(
    database: Database,
    scope: ScopeKey,
    work: Callable[[Transaction], Awaitable[T]],
    *,
    patience_s: float | None = None,
) -> T:
    """Runs work in one transaction that waits for no lock longer than 200 ms.

    When it would, it is rolled back and tried again after a pause, for as long as
    ``ADKPG_COMMAND_TIMEOUT_S``. So it may take locks in any order: it has let go before Postgres
    looks for a deadlock (after 1 s by default), and no other writer is the victim of one. Citus
    looks at times of its own, so on a cluster one may be; its call is repeated.

    Args:
      database: The database.
      scope: The person whose rows it locks.
      work: Given the transaction; may run several times, each from the start.
      patience_s: For how long it is tried again; None is ``ADKPG_COMMAND_TIMEOUT_S``.

    Raises:
      Busy: A writer held what is to be erased for all that time; nothing was erased.
    """
    clock = asyncio.get_running_loop()
    if patience_s is None:
        patience_s = database.settings.command_timeout_s
    deadline = clock.time() + patience_s

    async def quick(transaction: Transaction) -> T:
        await transaction.fetch(give_way(**scope))
        return await work(transaction)

    while True:
        try:
            return await database.run.transact(quick, policy=WITHOUT_RACES)
        except Busy as exc:
            if clock.time() > deadline:
                raise Busy(
                    "Another transaction holds rows that are to be erased, so nothing was "
                    "erased; end that transaction, or try again later.",
                    written=False,
                ) from exc
        await asyncio.sleep(_PAUSE_S * random.uniform(0.5, 1.5))
