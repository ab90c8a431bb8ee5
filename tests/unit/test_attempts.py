"""A call is made again while what it failed of passes, and no longer than it may be."""

import asyncio
from collections.abc import Callable, Iterator

import asyncpg
import pytest

from adkpg.database import attempts as module
from adkpg.database.attempts import CALL, GLANCE, PROMPT, WITHOUT_RACES, Attempt, Attempts, Policy
from adkpg.database.driver import Fault, NeverReached
from adkpg.errors import (
    Busy,
    DatabaseError,
    DatabaseUnavailable,
    InvalidInput,
    ReadOnly,
    RetryableError,
    SchemaError,
)

LOST = asyncpg.ConnectionDoesNotExistError("closed in the middle of operation")
AWAY = asyncpg.CannotConnectNowError("the database system is starting up")
RACE = asyncpg.SerializationError("could not serialize access")
NODE = asyncpg.InternalServerError("failed to connect to 10.0.0.1")
NODE.sqlstate = "XX000"
STANDBY = asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT in a read-only transaction")
UNPREPARED = asyncpg.InvalidSQLStatementNameError("prepared statement does not exist")
GONE = asyncpg.UndefinedTableError("relation does not exist")
REFUSED = asyncpg.InvalidPasswordError("password authentication failed")
FULL = asyncpg.DiskFullError("no space left on device")


class Connected:
    """Connections that note what they are told."""

    def __init__(self, *, seeks_primary: bool = False) -> None:
        self.url = "postgresql://bot:***@host/app"
        self.closings = 0
        self.seeks_primary = seeks_primary
        self.heeded: list[Fault] = []

    def heed(self, fault: Fault) -> None:
        self.heeded.append(fault)


class Tables:
    """Tables that may be others now."""

    def doubted(self, failure: DatabaseError, attempt: Attempt, *, again: bool) -> bool:
        return isinstance(failure, SchemaError) and not again


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses, in which no time goes by."""
    pauses: list[float] = []

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)

    monkeypatch.setattr(module, "sleep", sleep)
    return pauses


async def made(
    *faults: BaseException,
    connected: Connected | None = None,
    policy: Policy = CALL,
    budget_s: float = 30.0,
    sent: bool = False,
    then: Callable[[], object] = lambda: None,
) -> int:
    """Makes a call that fails of one after the other; returns how many attempts it took."""
    left: Iterator[BaseException] = iter(faults)
    count = 0
    async for attempt in Attempts(connected or Connected(), Tables(), policy, budget_s):
        with attempt:
            count += 1
            attempt.sent = sent
            then()
            for fault in left:
                raise fault
            return count
    raise AssertionError("an attempt returns or raises")


@pytest.mark.parametrize("passing", [LOST, AWAY, RACE, NODE, UNPREPARED])
async def test_what_passes_is_repeated_and_heeded(passing: Exception) -> None:
    connected = Connected()
    assert await made(passing, passing, passing, connected=connected) == 4
    assert len(connected.heeded) == 3


@pytest.mark.parametrize(
    ("lasting", "meant"),
    [(REFUSED, DatabaseUnavailable), (FULL, DatabaseError), (STANDBY, ReadOnly)],
)
async def test_what_lasts_is_raised_at_once(
    lasting: Exception, meant: type[Exception], slept: list[float]
) -> None:
    with pytest.raises(meant) as raised:
        await made(lasting)
    assert raised.value.__cause__ is lasting
    assert slept == []


async def test_a_standby_is_waited_for_where_another_server_may_be_the_primary() -> None:
    assert await made(STANDBY, connected=Connected(seeks_primary=True)) == 2


@pytest.mark.parametrize(("policy", "fault"), [(WITHOUT_RACES, RACE), (PROMPT, NODE)])
async def test_a_policy_leaves_some_faults_to_the_caller(policy: Policy, fault: Exception) -> None:
    with pytest.raises(RetryableError):
        await made(fault, policy=policy)
    assert await made(AWAY, policy=policy) == 2


@pytest.mark.parametrize("at_once", [LOST, UNPREPARED])
async def test_without_a_budget_a_lost_connection_alone_is_replaced_once(
    at_once: Exception, slept: list[float]
) -> None:
    assert await made(at_once, policy=GLANCE) == 2
    assert slept == []
    for faults in ((at_once, at_once), (AWAY,), (RACE,)):
        with pytest.raises(RetryableError):
            await made(*faults, policy=GLANCE)


async def test_an_address_that_was_never_reached_is_not_tried_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LONGEST_FIRST_S", 0.0)
    with pytest.raises(DatabaseUnavailable):
        await made(NeverReached(111, "refused"))
    assert await made(ConnectionRefusedError(111, "refused")) == 2


async def test_pauses_grow_and_have_a_bound(slept: list[float]) -> None:
    await made(*[AWAY] * 9)
    for pause_s, longest_s in zip(
        slept, [0.05, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 1.6, 1.6], strict=True
    ):
        assert longest_s / 2 <= pause_s <= longest_s


async def test_what_may_be_written_once_stays_unknown() -> None:
    """The first attempt may have been committed, whatever the last one says."""
    with pytest.raises(Busy) as raised:
        await made(LOST, RACE, sent=True, policy=WITHOUT_RACES)
    assert raised.value.written is None
    with pytest.raises(Busy) as raised:
        await made(RACE, sent=True, policy=WITHOUT_RACES)
    assert raised.value.written is False


async def test_a_table_that_is_missing_is_looked_for_again_once() -> None:
    assert await made(GONE) == 2
    with pytest.raises(SchemaError):
        await made(GONE, GONE)


@pytest.mark.parametrize(
    "own", [asyncio.CancelledError(), KeyboardInterrupt(), InvalidInput("wrong"), KeyError("x")]
)
async def test_what_is_not_the_databases_passes_as_it_is(own: BaseException) -> None:
    with pytest.raises(type(own)) as raised:
        await made(own)
    assert raised.value is own


@pytest.mark.parametrize("fault", [LOST, AWAY])
async def test_a_call_ends_when_its_connections_are_closed(fault: Exception) -> None:
    connected = Connected()

    def close() -> None:
        connected.closings += 1

    with pytest.raises(DatabaseUnavailable, match="was closed while a call was under way"):
        await made(fault, connected=connected, then=close)


async def test_a_call_that_pauses_ends_when_its_connections_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connected = Connected()

    async def closing(_: float) -> None:
        connected.closings += 1

    monkeypatch.setattr(module, "sleep", closing)
    with pytest.raises(DatabaseUnavailable, match="was closed while a call was under way"):
        await made(AWAY, connected=connected)


def test_an_attempt_alone_translates_and_repeats_nothing() -> None:
    with (
        pytest.raises(DatabaseUnavailable, match=r"bot:\*\*\*@host") as raised,
        Attempt("bot:***@host"),
    ):
        raise LOST
    assert raised.value.__cause__ is LOST
    with pytest.raises(InvalidInput, match="lone surrogate"), Attempt():
        "\ud800".encode()
