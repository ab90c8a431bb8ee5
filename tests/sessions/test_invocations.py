"""Invocations take turns in a session, and one that lost its place writes nothing more."""

import asyncio
import contextvars
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import asyncpg
import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import (
    Database,
    DatabaseArtifactService,
    DatabaseSessionService,
    PgVectorMemoryService,
    Settings,
)
from adkpg.errors import (
    Busy,
    ConfigurationError,
    InvalidInput,
    InvocationLost,
    SessionNotFound,
    StaleSession,
)
from adkpg.sessions.invocations import LARGEST_RESULT
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.proxy import Proxy

PLACE: dict[str, Any] = {**USER, "session_id": "s"}

pytestmark = pytest.mark.race


@pytest.fixture
async def session(sessions: DatabaseSessionService) -> Session:
    return await sessions.create_session(**PLACE)


async def stored(sessions: DatabaseSessionService) -> Session:
    found = await sessions.get_session(**PLACE)
    assert found is not None
    return found


@asynccontextmanager
async def leasing(database_url: str, lease_s: float) -> AsyncIterator[DatabaseSessionService]:
    """A service whose runs lose the session after a moment, and the session."""
    settings = Settings(invocation_lease_s=lease_s)
    async with DatabaseSessionService(database_url, settings=settings) as sessions:
        await sessions.create_session(**PLACE)
        yield sessions


async def until_waiting(connection: asyncpg.Connection, count: int) -> None:
    async with asyncio.timeout(30):
        while await connection.fetchval("SELECT count(*) FROM invocation_waiters") < count:
            await asyncio.sleep(0)


async def lapse(connection: asyncpg.Connection) -> None:
    """Lets the lease of whoever runs end, as if it had not been renewed."""
    await connection.execute("UPDATE sessions SET invocation_expires_at = now()")


async def held(connection: asyncpg.Connection) -> tuple[bool, int]:
    """Whether the session is taken, and how many wait."""
    return (
        await connection.fetchval("SELECT bool_or(invocation_expires_at > now()) FROM sessions")
        or False,
        await connection.fetchval("SELECT count(*) FROM invocation_waiters"),
    )


@pytest.mark.prepared
async def test_a_run_costs_two_round_trips(proxy: Proxy) -> None:
    async with DatabaseSessionService(proxy.url) as sessions:
        session = await sessions.create_session(**PLACE)
        for key in (None, "first"):  # statements are prepared at their first use
            async with sessions.invocation(**PLACE, key=key):
                await sessions.append_event(session, said("a"))
        before = proxy.round_trips
        async with sessions.invocation(**PLACE):
            assert proxy.round_trips == before + 1
            await sessions.append_event(session, said("a"))
            assert proxy.round_trips == before + 2
        assert proxy.round_trips == before + 3
        async with sessions.invocation(**PLACE, key="k"):
            pass
        assert proxy.round_trips == before + 5
        async with sessions.invocation(**PLACE, key="k") as run:
            assert run.done
        assert proxy.round_trips == before + 6


async def test_they_take_turns_in_the_order_they_came(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    order: list[int] = []

    async def run(number: int) -> None:
        async with sessions.invocation(**PLACE):
            mine = await stored(sessions)
            await sessions.append_event(mine, said(f"question {number}"))
            order.append(number)
            await sessions.append_event(mine, said(f"answer {number}"))

    async with sessions.invocation(**PLACE):
        tasks = []
        for number in range(5):
            tasks.append(asyncio.create_task(run(number)))
            await until_waiting(connection, number + 1)
        assert order == []
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]
    assert texts(await stored(sessions)) == [
        f"{what} {number}" for number in range(5) for what in ("question", "answer")
    ]
    assert await held(connection) == (False, 0)


async def test_nothing_is_open_while_one_runs_or_waits(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    async with sessions.invocation(**PLACE):
        waiting = asyncio.create_task(anext_of(sessions))
        await until_waiting(connection, 1)
        for _ in range(20):
            rows = await connection.fetch(
                "SELECT state FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
                " UNION ALL SELECT 'lock' FROM pg_locks WHERE locktype = 'advisory' AND database ="
                " (SELECT oid FROM pg_database WHERE datname = current_database())"
                " AND objsubid = 1"  # of one number, as all of ours; Citus has some of its own
            )
            assert rows == []
    await waiting


async def anext_of(sessions: DatabaseSessionService) -> None:
    async with sessions.invocation(**PLACE):
        pass


async def test_sessions_do_not_wait_for_each_other(sessions: DatabaseSessionService) -> None:
    for session_id in ("s", "t"):
        await sessions.create_session(**USER, session_id=session_id)
    async with sessions.invocation(**PLACE):
        async with sessions.invocation(**USER, session_id=" t ", timeout_s=0):
            for session_id in ("s", "t"):
                found = await sessions.get_session(**USER, session_id=session_id)
                assert found is not None
                await sessions.append_event(found, said("a"))
        found = await sessions.get_session(**USER, session_id="t")
        assert found is not None
        await sessions.append_event(found, said("after its block, outside of any of this one"))


async def test_busy_leaves_the_line(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    async with sessions.invocation(**PLACE):
        for timeout_s in (0, 0.05):
            with pytest.raises(Busy, match="Session s is busy") as caught:
                await sessions.invocation(**PLACE, timeout_s=timeout_s).__aenter__()
            assert caught.value.written is False
            assert await held(connection) == (True, 0)
        await sessions.append_event(session, said("goes on"))
    assert await held(connection) == (False, 0)


@pytest.mark.parametrize("cancelled", ["once", "at each await"])
async def test_a_cancelled_one_leaves_the_line(
    sessions: DatabaseSessionService,
    session: Session,
    connection: asyncpg.Connection,
    cancelled: str,
) -> None:
    async with sessions.invocation(**PLACE):
        scope = anyio.CancelScope()

        async def wait() -> None:
            with scope:
                await anext_of(sessions)

        task = asyncio.create_task(wait())
        await until_waiting(connection, 1)
        if cancelled == "once":
            task.cancel()
        else:
            scope.cancel()
        await asyncio.wait({task})
        assert await held(connection) == (True, 0)


async def test_a_cancelled_run_frees_the_session(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    scope = anyio.CancelScope()
    with scope:
        async with sessions.invocation(**PLACE, key="k"):
            scope.cancel()
            await asyncio.sleep(60)
    assert scope.cancelled_caught
    assert await held(connection) == (False, 0)
    async with sessions.invocation(**PLACE, key="k") as run:
        assert not run.done


async def test_a_generator_that_is_closed_early_frees_the_session(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    async def stream() -> AsyncGenerator[str]:
        async with sessions.invocation(**PLACE):
            yield "one"
            yield "two"

    streaming = stream()
    assert await anext(streaming) == "one"
    await asyncio.create_task(streaming.aclose())  # as a server does, in a context of its own
    assert await held(connection) == (False, 0)
    await sessions.append_event(session, said("the caller is in no block any more"))


async def test_a_session_must_exist(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    with pytest.raises(SessionNotFound, match="create it"):
        await sessions.invocation(**USER, session_id="missing").__aenter__()
    async with sessions.invocation(**PLACE):
        waiting = asyncio.create_task(anext_of(sessions))
        await until_waiting(connection, 1)
        await sessions.delete_session(**PLACE)
        with pytest.raises(SessionNotFound):
            await waiting
    assert await connection.fetchval("SELECT count(*) FROM invocation_waiters") == 0


async def test_an_error_frees_the_session(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with sessions.invocation(**PLACE):
            raise ZeroDivisionError
    assert await held(connection) == (False, 0)
    await sessions.append_event(session, said("outside again"))


# Leases


@pytest.mark.parametrize("on_conflict", ["raise", "merge"])
async def test_a_late_holder_is_refused(
    database: Database, connection: asyncpg.Connection, on_conflict: Any
) -> None:
    sessions = DatabaseSessionService(database, on_conflict=on_conflict)
    await sessions.create_session(**PLACE)
    taken, over = asyncio.Event(), asyncio.Event()

    async def next_one() -> None:
        async with sessions.invocation(**PLACE):
            taken.set()
            await over.wait()
            await sessions.append_event(await stored(sessions), said("of the next"))

    async with sessions.invocation(**PLACE):
        mine = await stored(sessions)
        await sessions.append_event(mine, said("in time"))
        task = asyncio.create_task(next_one())
        await until_waiting(connection, 1)
        await lapse(connection)
        await taken.wait()
        late = said("late")
        with pytest.raises(InvocationLost, match="another has begun"):
            await sessions.append_event(mine, late)
        with pytest.raises(InvocationLost):
            await asyncio.create_task(sessions.append_event(mine, said("from a task of its own")))
        over.set()
        await task
        with pytest.raises(StaleSession):
            await sessions.append_event(mine, said("still late"))
        assert texts(mine) == ["in time"]
    assert texts(await stored(sessions)) == ["in time", "of the next"]
    assert await held(connection) == (False, 0)


async def test_a_late_end_frees_nothing_of_others(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    first = sessions.invocation(**PLACE)
    await first.__aenter__()
    await lapse(connection)
    async with sessions.invocation(**PLACE, timeout_s=0):
        await first.__aexit__(None, None, None)
        assert await held(connection) == (True, 0)


async def test_a_lease_that_lapsed_is_still_its_own_until_another_begins(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    async with sessions.invocation(**PLACE):
        await lapse(connection)
        await sessions.append_event(session, said("nobody was waiting"))
    assert texts(await stored(sessions)) == ["nobody was waiting"]


async def test_a_lease_is_renewed_while_its_run_lasts(
    database_url: str, connection: asyncpg.Connection
) -> None:
    async with leasing(database_url, 0.6) as sessions:
        session = await stored(sessions)
        async with sessions.invocation(**PLACE):
            with pytest.raises(Busy):
                await sessions.invocation(**PLACE, timeout_s=2).__aenter__()
            await sessions.append_event(session, said("still mine"))


async def test_what_outlives_its_block_writes_where_its_revision_allows(
    sessions: DatabaseSessionService, session: Session
) -> None:
    first, second, third = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def later(mine: Session, text: str, begins: asyncio.Event) -> None:
        await begins.wait()
        await sessions.append_event(mine, said(text))

    async def run_of_its_own() -> None:
        await third.wait()
        async with sessions.invocation(**PLACE):
            await sessions.append_event(await stored(sessions), said("its own"))

    async with sessions.invocation(**PLACE):
        await sessions.append_event(session, said("within"))
        report = asyncio.create_task(later(session, "a report that took longer", first))
        stale = asyncio.create_task(later(await stored(sessions), "too late", second))
        own = asyncio.create_task(run_of_its_own())
    first.set()
    await report
    second.set()
    with pytest.raises(StaleSession, match="load it again") as caught:
        await stale
    assert not isinstance(caught.value, InvocationLost)
    third.set()
    await own
    assert texts(await stored(sessions)) == ["within", "a report that took longer", "its own"]


async def test_an_event_that_is_stored_already_is_accepted_from_a_late_holder(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    event = said("once")
    async with sessions.invocation(**PLACE):
        await sessions.append_event(session, event)
        await lapse(connection)
        other = Context(sessions)
        await asyncio.create_task(other.run())
        await sessions.append_event(session, event)
    assert texts(await stored(sessions)) == ["once"]


class Context:
    """Another invocation of the session, without anything of this one's."""

    def __init__(self, sessions: DatabaseSessionService) -> None:
        self.sessions = sessions

    async def run(self) -> None:
        async with self.sessions.invocation(**PLACE, timeout_s=0):
            pass


async def test_a_service_of_the_same_url_is_held_to_it(
    database_url: str, sessions: DatabaseSessionService, session: Session
) -> None:
    async with DatabaseSessionService(database_url) as other:
        run = sessions.invocation(**PLACE)
        await run.__aenter__()
        await other.append_event(session, said("within"))
        await sessions.delete_session(**PLACE)
        again = await other.create_session(**PLACE)
        with pytest.raises(InvocationLost):
            await other.append_event(again, said("of another session"))
        await run.__aexit__(None, None, None)


# Keys


async def test_a_key_runs_once(sessions: DatabaseSessionService, session: Session) -> None:
    result = {"answer": "4 \x00\ud800", "list": [1, None, 2.5]}
    async with sessions.invocation(**PLACE, key="k") as run:
        assert (run.done, run.result) == (False, None)
        run.finish("replaced")
        run.finish(result)
        assert run.result == {**result, "answer": "4 \x00\ufffd"}, "as a retry gets it"
    for _ in range(2):
        async with sessions.invocation(**PLACE, key="k") as run:
            assert (run.done, run.result) == (True, {**result, "answer": "4 \x00\ufffd"})
            with pytest.raises(ConfigurationError, match="finished already"):
                run.finish(1)
            with pytest.raises(InvocationLost):
                await sessions.append_event(await stored(sessions), said("twice"))
    async with sessions.invocation(**PLACE, key="other") as run:
        assert not run.done
    async with sessions.invocation(**PLACE, key="other") as run:
        assert (run.done, run.result) == (True, None)


async def test_a_retry_waits_for_the_run_and_gets_its_result(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    runs = 0

    async def request(key: str) -> Any:
        nonlocal runs
        async with sessions.invocation(**PLACE, key=key) as run:
            if not run.done:
                runs += 1
                await until_waiting(connection, 3)
                run.finish({"run": runs})
            return run.result

    answers = await asyncio.gather(*(request("k") for _ in range(4)))
    assert answers == [{"run": 1}] * 4
    assert await held(connection) == (False, 0)


async def test_a_run_that_failed_runs_again(
    sessions: DatabaseSessionService, session: Session
) -> None:
    async def fails() -> None:
        async with sessions.invocation(**PLACE, key="k") as run:
            run.finish("wrong")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    async with sessions.invocation(**PLACE, key="k") as run:
        assert not run.done


async def test_a_key_that_expired_runs_again_and_goes(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    for key in ("a", "b"):
        async with sessions.invocation(**PLACE, key=key) as run:
            run.finish(key)
    await connection.execute("UPDATE invocation_results SET expires_at = now()")
    async with sessions.invocation(**PLACE, key="a") as run:
        assert not run.done
        run.finish("again")
    rows = await connection.fetch("SELECT idempotency_key, result FROM invocation_results")
    assert [tuple(row) for row in rows] == [("a", '"again"')]


async def test_a_late_run_leaves_no_result(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    late = sessions.invocation(**PLACE, key="k")
    run = await late.__aenter__()
    run.finish("late")
    await lapse(connection)
    async with sessions.invocation(**PLACE, key="k", timeout_s=0) as again:
        assert not again.done
        again.finish("in time")
        with pytest.raises(InvocationLost):
            await late.__aexit__(None, None, None)
    async with sessions.invocation(**PLACE, key="k") as run:
        assert run.result == "in time"


async def test_an_end_whose_answer_was_lost_is_repeated(proxy: Proxy) -> None:
    async with DatabaseSessionService(proxy.url) as sessions:
        session = await sessions.create_session(**PLACE)
        async with sessions.invocation(**PLACE, key="k") as run:
            await sessions.append_event(session, said("a"))
            run.finish(1)
            proxy.lose_answers = 1
        proxy.lose_answers = 1
        async with sessions.invocation(**PLACE) as other:
            await sessions.append_event(session, said("b"))
        async with sessions.invocation(**PLACE, key="k") as run:
            assert run.result == 1
        assert not other.done


@pytest.mark.parametrize("key", ["", "k" * 513, "\x00", "\ud800"])
def test_keys_that_cannot_be_stored_are_refused(sessions: DatabaseSessionService, key: str) -> None:
    with pytest.raises(InvalidInput, match="key="):
        sessions.invocation(**PLACE, key=key)


async def test_results_that_cannot_be_stored_are_refused(
    sessions: DatabaseSessionService, session: Session
) -> None:
    async with sessions.invocation(**PLACE, key="k") as run:
        run.finish("kept")
        for result in (object(), float("nan"), "x" * LARGEST_RESULT):
            with pytest.raises(InvalidInput, match="result"):
                run.finish(result)
    async with sessions.invocation(**PLACE, key="k") as run:
        assert run.result == "kept"


async def test_without_a_key_no_result_is_stored(
    sessions: DatabaseSessionService, session: Session, connection: asyncpg.Connection
) -> None:
    async with sessions.invocation(**PLACE) as run:
        run.finish(1)
        assert run.result == 1
    assert await connection.fetchval("SELECT count(*) FROM invocation_results") == 0


# Whatever the clock says, and whatever the event loop does


async def test_a_dead_holder_is_passed_over_though_its_end_is_far_away(
    database_url: str, connection: asyncpg.Connection
) -> None:
    """The server's clock went back by an hour, by itself or by a failover."""
    async with leasing(database_url, 0.3) as sessions:
        async with sessions.invocation(**PLACE, timeout_s=0):
            pass
        await connection.execute(
            "UPDATE sessions SET invocation_expires_at = now() + interval '1 hour'"
        )
        await connection.execute(
            "INSERT INTO invocation_waiters (app_name, user_id, session_id, holder, since, seen_at)"
            " SELECT app_name, user_id, session_id, gen_random_uuid(), now(),"
            " now() + interval '1 hour' FROM sessions"
        )
        async with sessions.invocation(**PLACE, timeout_s=30):
            await sessions.append_event(await stored(sessions), said("goes on"))


async def test_a_live_holder_keeps_its_session_though_its_end_is_far_away(
    database_url: str, connection: asyncpg.Connection
) -> None:
    async with leasing(database_url, 0.6) as sessions:
        session = await stored(sessions)
        async with sessions.invocation(**PLACE):
            await connection.execute(
                "UPDATE sessions SET invocation_expires_at = now() + interval '1 hour'"
            )
            with pytest.raises(Busy, match="ADKPG_INVOCATION_TIMEOUT_S"):
                await sessions.invocation(**PLACE, timeout_s=2).__aenter__()
            await sessions.append_event(session, said("still mine"))


async def test_a_blocked_event_loop_loses_nothing(
    database_url: str, connection: asyncpg.Connection
) -> None:
    async with leasing(database_url, 0.5) as sessions:
        session = await stored(sessions)
        async with sessions.invocation(**PLACE):
            waiting = asyncio.create_task(anext_of(sessions))
            await until_waiting(connection, 1)
            block_for(1.5)
            await sessions.append_event(session, said("mine"))
        await waiting


def block_for(seconds: float) -> None:
    time.sleep(seconds)


async def test_the_wait_is_a_setting(database_url: str) -> None:
    settings = Settings(invocation_timeout_s=0)
    async with DatabaseSessionService(database_url, settings=settings) as sessions:
        await sessions.create_session(**PLACE)
        async with sessions.invocation(**PLACE):
            with pytest.raises(Busy, match="for 0 s"):
                await sessions.invocation(**PLACE).__aenter__()


WRITES: dict[str, Callable[[Database, Session], Awaitable[Any]]] = {
    "append": lambda db, s: DatabaseSessionService(db).append_event(s, said("late")),
    "merge": lambda db, s: DatabaseSessionService(db, on_conflict="merge").append_event(
        s, said("late")
    ),
    "user's state": lambda db, s: DatabaseSessionService(db).update_state(
        app_name=s.app_name, user_id=s.user_id, state_delta={"user:a": 1}
    ),
    "app's state": lambda db, s: DatabaseSessionService(db).update_state(
        app_name=s.app_name, state_delta={"app:a": 1}
    ),
    "another session": lambda db, s: DatabaseSessionService(db).create_session(**USER),
    "fork": lambda db, s: DatabaseSessionService(db).fork_session(**PLACE),
    "deletion": lambda db, s: DatabaseSessionService(db).delete_session(**PLACE),
    "file": lambda db, s: DatabaseArtifactService(db).save_artifact(
        **PLACE, filename="f", artifact=types.Part(text="x")
    ),
    "deletion of files": lambda db, s: DatabaseArtifactService(db).delete_artifact(
        **PLACE, filename="f"
    ),
    "memory": lambda db, s: memory_of(db).add_memory(
        **USER, memories=[MemoryEntry(content=types.UserContent("x"))]
    ),
    "memories of the session": lambda db, s: memory_of(db).add_session_to_memory(s),
    "deletion of memories": lambda db, s: memory_of(db).delete_memory(**USER, memory_id="x"),
    "forgetting": lambda db, s: DatabaseSessionService(db).delete_session(**PLACE, forget=True),
}


def memory_of(database: Database) -> PgVectorMemoryService:
    return PgVectorMemoryService(database, mode="text")


async def test_a_run_that_lost_its_session_writes_nothing_more_by_whatever_call(
    database_url: str, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(invocation_lease_s=0.3)
    async with (
        Database(database_url, settings=settings) as database,
        Database(database_url) as others,
    ):
        sessions = DatabaseSessionService(database)
        mine = await sessions.create_session(**PLACE)
        await sessions.append_event(mine, said("in time"))
        taken, over = asyncio.Event(), asyncio.Event()

        async def next_one() -> None:
            async with DatabaseSessionService(others).invocation(**PLACE):
                taken.set()
                await over.wait()

        async with sessions.invocation(**PLACE):
            task = asyncio.create_task(next_one(), context=contextvars.Context())
            await until_waiting(connection, 1)
            block_of_all = "UPDATE sessions SET invocation_expires_at = now()"
            async with asyncio.timeout(30):
                while not taken.is_set():  # the lease may be renewed before it is looked at
                    await connection.execute(block_of_all)
                    await asyncio.sleep(0.01)
                while "took session s" not in caplog.text:
                    await asyncio.sleep(0.01)
            for what, write in WRITES.items():
                caught = await asyncio.gather(write(database, mine), return_exceptions=True)
                assert isinstance(caught[0], InvocationLost), (what, caught)
            assert texts(await stored(sessions)) == ["in time"], "it may read"
        over.set()
        await task
        for what in ("append", "user's state", "file", "memory"):
            await WRITES[what](database, await stored(sessions))
