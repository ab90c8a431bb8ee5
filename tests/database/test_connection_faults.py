"""The faults of connections, in one table: what a caller gets, and whether a call is repeated."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal, NamedTuple

import asyncpg
import pytest

from adkpg import Database, Settings
from adkpg.database import Transaction
from adkpg.errors import Busy, DatabaseError, DatabaseUnavailable
from tests.fakes.queries import written

pytestmark = [pytest.mark.fault, pytest.mark.direct("a pooler has sessions of its own")]

When = Literal["under way", "between", "idle"]
_PID = written("SELECT pg_backend_pid() AS pid")
_LONG = written("SELECT pg_sleep(60) AS slept")
_LOCKED = written("SELECT pg_advisory_xact_lock(7) AS locked")
_ENDED = "pg_terminate_backend"


class Fault(NamedTuple):
    """A row of the table.

    Attributes:
      cause: A timeout of the server, or what ends its process.
      when: Under way is a statement, between two of a transaction, or none.
      times: How often it happens.
      error: What the caller gets; None: the answer.
      said: The core of its sentence.
      tries: How often the work is begun; None: more than once.
    """

    cause: str
    when: When
    times: int
    error: type[DatabaseError] | None
    said: str
    tries: int | None


ALWAYS = 1_000
FAULTS = [
    Fault("statement_timeout", "under way", ALWAYS, Busy, "longer than the server allows", 1),
    Fault("lock_timeout", "under way", ALWAYS, Busy, "held a lock for too long", None),
    pytest.param(
        *Fault("transaction_timeout", "under way", ALWAYS, Busy, "its transaction took longer", 1),
        marks=pytest.mark.newest,
    ),
    pytest.param(
        *Fault("transaction_timeout", "between", ALWAYS, Busy, "its transaction took longer", 1),
        marks=pytest.mark.newest,
    ),
    Fault(
        "idle_in_transaction_session_timeout",
        "between",
        ALWAYS,
        Busy,
        "its transaction stood still",
        1,
    ),
    Fault("idle_session_timeout", "idle", ALWAYS, None, "", 1),
    Fault(_ENDED, "under way", 1, None, "", 2),
    Fault(_ENDED, "between", 1, None, "", 2),
    Fault(_ENDED, "idle", 1, None, "", 1),
    Fault(_ENDED, "under way", ALWAYS, DatabaseUnavailable, "ended the connection", None),
    Fault(_ENDED, "between", ALWAYS, DatabaseUnavailable, "cannot be used any more", None),
]


@pytest.fixture
async def admin(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def _until(admin: asyncpg.Connection, condition: str, pid: int) -> None:
    async with asyncio.timeout(30):
        while not await admin.fetchval(f"SELECT {condition}", pid):
            await asyncio.sleep(0)


_GONE = "NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)"
_RUNS = "EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND query LIKE '%pg_sleep(60)%')"


@pytest.mark.parametrize(("cause", "when", "times", "error", "said", "tries"), FAULTS)
async def test_what_a_caller_gets(
    database_url: str,
    admin: asyncpg.Connection,
    cause: str,
    when: When,
    times: int,
    error: type[DatabaseError] | None,
    said: str,
    tries: int | None,
) -> None:
    begun = 0
    settings = Settings.model_validate({"pool_size": 1, "retry_timeout_s": 1.0})

    async def end(pid: int, *, waits: bool) -> None:
        if waits:
            await _until(admin, _RUNS, pid)
        await admin.execute("SELECT pg_terminate_backend($1, 30000)", pid)

    async def work(transaction: Transaction) -> None:
        nonlocal begun
        begun += 1
        (row,) = await transaction.fetch(_PID)
        happens = begun <= times and when != "idle"
        if when == "between" and happens:
            if cause == _ENDED:
                await end(row["pid"], waits=False)
            else:
                await _until(admin, _GONE, row["pid"])
        if when == "under way" and happens:
            statement = _LOCKED if cause == "lock_timeout" else _LONG
            ending: Any = end(row["pid"], waits=True) if cause == _ENDED else asyncio.sleep(0)
            await asyncio.gather(transaction.fetch(statement), ending)
        await transaction.fetch(_PID)

    async with Database(database_url, settings=settings) as database:
        (row,) = await database.run.fetch(_PID)
        if cause != _ENDED:
            name = await admin.fetchval("SELECT current_database()")
            await admin.execute(f"""ALTER DATABASE "{name}" SET {cause} = '400ms'""")
            await admin.execute("SELECT pg_advisory_lock(7)")
            await database.close()  # what is set is for new sessions
            (row,) = await database.run.fetch(_PID)
        if when == "idle" and cause == _ENDED:
            await end(row["pid"], waits=False)
        elif when == "idle":
            await _until(admin, _GONE, row["pid"])
        if error is None:
            await database.run.transact(work)
        else:
            with pytest.raises(error, match=said) as caught:
                await database.run.transact(work)
            assert type(caught.value) is error
            assert caught.value.written is False  # type: ignore[attr-defined] # of those here
        assert begun == tries if tries else begun > 1
        assert database.connections.use()[0] == 0
