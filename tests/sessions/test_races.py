"""Many writers at once: through one object, through many, and in locks the test holds."""

import asyncio
from typing import Any

import asyncpg
import pytest
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService
from adkpg.errors import SessionExists, SessionNotFound, StaleSession
from adkpg.sessions.records import Marker
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.locks import locked

pytestmark = pytest.mark.race


@pytest.fixture
def merging(database: Database) -> DatabaseSessionService:
    return DatabaseSessionService(database, on_conflict="merge")


async def _stored(sessions: DatabaseSessionService, session: Session) -> Session:
    found = await sessions.get_session(**USER, session_id=session.id)
    assert found is not None
    return found


async def _sequence(url: str) -> list[int]:
    connection = await asyncpg.connect(url)
    rows = await connection.fetch("SELECT seq FROM adkpg.events ORDER BY seq")
    await connection.close()
    return [row["seq"] for row in rows]


async def _all(*calls: Any) -> list[Any]:
    return await asyncio.gather(*calls, return_exceptions=True)


@pytest.mark.parametrize("on_conflict", ["raise", "merge"])
async def test_tasks_of_one_object_are_served_in_turn(database: Database, on_conflict: str) -> None:
    service = DatabaseSessionService(database, on_conflict=on_conflict)  # type: ignore[arg-type] # one of the two
    session = await service.create_session(**USER)
    wanted = [str(number) for number in range(40)]
    await asyncio.gather(
        *(service.append_event(session, said(text, state={text: 1})) for text in wanted)
    )
    assert texts(session) == wanted
    assert await _stored(service, session) == session


async def test_one_failure_in_the_queue_costs_the_others_nothing(
    sessions: DatabaseSessionService,
) -> None:
    session = await sessions.create_session(**USER)
    ids = ["a", "b", "a", "c"]
    results = await _all(
        *(
            sessions.append_event(session, said(str(number), id=event_id))
            for number, event_id in enumerate(ids)
        )
    )
    assert [isinstance(result, Exception) for result in results] == [False, False, True, False]
    assert texts(await _stored(sessions, session)) == texts(session) == ["0", "1", "3"]


async def test_of_many_objects_exactly_one_wins(sessions: DatabaseSessionService) -> None:
    session = await sessions.create_session(**USER)
    for _ in range(10):
        handles = [await _stored(sessions, session) for _ in range(4)]
        results = await _all(
            *(sessions.append_event(handle, said("x", state={"user:n": 1})) for handle in handles)
        )
        losers = [result for result in results if isinstance(result, Exception)]
        assert [type(loser) for loser in losers] == [StaleSession] * 3
    assert len((await _stored(sessions, session)).events) == 10


async def test_merge_loses_nothing_and_revisions_are_dense(
    merging: DatabaseSessionService, database_url: str
) -> None:
    session = await merging.create_session(**USER)
    handles = [await _stored(merging, session) for _ in range(8)]
    await asyncio.gather(
        *(
            merging.append_event(
                handle, said(f"{n}.{k}", state={f"{scope}{n}.{k}": 1 for scope in SCOPES})
            )
            for n, handle in enumerate(handles)
            for k in range(10)
        )
    )
    assert await _sequence(database_url) == list(range(1, 81))
    stored = await _stored(merging, session)
    assert len(stored.events) == 80
    assert stored.state == {
        f"{scope}{n}.{k}": 1 for scope in SCOPES for n in range(8) for k in range(10)
    }
    for n in range(8):
        mine = [text for text in texts(stored) if text and text.startswith(f"{n}.")]
        assert mine == [f"{n}.{k}" for k in range(10)]


SCOPES = ("", "user:", "app:")


async def test_creates_and_appends_of_all_scopes_never_deadlock(
    sessions: DatabaseSessionService,
) -> None:
    everything = dict.fromkeys(("a", "user:b", "app:c"), 1)

    async def live(number: int) -> None:
        for turn in range(5):
            key: dict[str, Any] = {"app_name": "app", "user_id": f"user {(number + turn) % 3}"}
            session = await sessions.create_session(
                **key, state=everything | {f"user:{number}": 1, f"app:{number}": 1}
            )
            await sessions.append_event(session, said("x", state={"app:z": 1, "user:y": number}))
            await sessions.append_event(session, said("y", state=dict(everything)))

    await asyncio.gather(*(live(number) for number in range(16)))
    listed = await sessions.list_sessions(app_name="app")
    assert len(listed.sessions) == 80
    for number in range(16):
        assert listed.sessions[0].state[f"app:{number}"] == 1


async def test_one_of_many_creates_of_one_id_wins(sessions: DatabaseSessionService) -> None:
    results = await _all(
        *(
            sessions.create_session(**USER, session_id="x", state={"n": n, f"user:{n}": n})
            for n in range(12)
        )
    )
    (winner,) = [result for result in results if isinstance(result, Session)]
    assert sum(isinstance(result, SessionExists) for result in results) == 11
    assert await _stored(sessions, winner) == winner
    assert winner.state == {"n": winner.state["n"], f"user:{winner.state['n']}": winner.state["n"]}


# Both callers stand at the lock that the test holds, so their snapshots are older than it.


async def test_at_one_lock_one_wins_and_the_other_is_stale(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    session = await sessions.create_session(**USER)
    handles = [await _stored(sessions, session) for _ in range(2)]
    async with locked(database_url) as lock:
        calls = asyncio.ensure_future(
            _all(*(sessions.append_event(handle, said("x")) for handle in handles))
        )
        await lock.until_blocked(2)
        await lock.release()
        results = await calls
    assert sorted(type(result).__name__ for result in results) == ["Event", "StaleSession"]
    assert len((await _stored(sessions, session)).events) == 1
    for handle, result in zip(handles, results, strict=True):
        assert len(handle.events) == (0 if isinstance(result, StaleSession) else 1)


async def test_at_one_lock_merge_appends_both(
    merging: DatabaseSessionService, database_url: str
) -> None:
    session = await merging.create_session(**USER)
    handles = [await _stored(merging, session) for _ in range(2)]
    async with locked(database_url) as lock:
        calls = asyncio.ensure_future(
            _all(*(merging.append_event(handle, said("x")) for handle in handles))
        )
        await lock.until_blocked(2)
        await lock.release()
        await calls
    assert await _sequence(database_url) == [1, 2]
    markers = [Marker.of(handle) for handle in (session, *handles)]
    assert None not in markers
    assert len({marker.incarnation for marker in markers if marker}) == 1
    assert len({marker.token for marker in markers if marker}) == 3
    assert sorted(marker.revision for marker in markers if marker) == [0, 1, 2]


@pytest.mark.parametrize("on_conflict", ["raise", "merge"])
async def test_at_one_lock_an_event_delivered_twice_is_stored_once(
    database: Database, database_url: str, on_conflict: str
) -> None:
    service = DatabaseSessionService(database, on_conflict=on_conflict)  # type: ignore[arg-type] # one of the two
    session = await service.create_session(**USER, state={"n": 0})
    handles = [await _stored(service, session) for _ in range(3)]
    event = said("x", state={"n": 1, "user:n": 1})
    async with locked(database_url) as lock:
        calls = asyncio.ensure_future(
            asyncio.gather(
                *(service.append_event(handle, event.model_copy(deep=True)) for handle in handles)
            )
        )
        await lock.until_blocked(3)
        await lock.release()
        await calls
    assert await _sequence(database_url) == [1]
    stored = await _stored(service, session)
    for handle in handles:
        assert handle == stored
        await service.append_event(await _stored(service, session), said("goes on"))


async def test_a_session_deleted_while_an_append_waits_is_not_found(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    session = await sessions.create_session(**USER)
    async with locked(database_url, "DELETE FROM adkpg.sessions") as lock:
        call = asyncio.ensure_future(sessions.append_event(session, said("x", state={"user:a": 1})))
        await lock.until_blocked(1)
        await lock.release()
        with pytest.raises(SessionNotFound):
            await call
    assert session.events == []
    assert await sessions.get_user_state(**USER) == {}


@pytest.mark.parametrize("on_conflict", ["raise", "merge"])
async def test_a_session_created_again_while_an_append_waits_is_another_one(
    database: Database, database_url: str, on_conflict: str
) -> None:
    service = DatabaseSessionService(database, on_conflict=on_conflict)  # type: ignore[arg-type] # one of the two
    session = await service.create_session(**USER, session_id="x")
    async with locked(database_url, "DELETE FROM adkpg.sessions") as lock:
        call = asyncio.ensure_future(service.append_event(session, said("x")))
        await lock.until_blocked(1)
        await lock.connection.execute(
            "INSERT INTO adkpg.sessions (app_name, user_id, session_id) VALUES ('app', 'user', 'x')"
        )
        await lock.release()
        with pytest.raises(StaleSession, match="created again"):
            await call
    assert texts(await _stored(service, session)) == []


async def test_a_create_that_waits_for_one_of_the_same_id_loses(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    insert = (
        "INSERT INTO adkpg.sessions (app_name, user_id, session_id) VALUES ('app', 'user', 'x')"
    )
    async with locked(database_url, insert) as lock:
        call = asyncio.ensure_future(
            sessions.create_session(**USER, session_id="x", state={"user:a": 1})
        )
        await lock.until_blocked(1)
        await lock.release()
        with pytest.raises(SessionExists):
            await call
    assert await sessions.get_user_state(**USER) == {}


async def test_a_waiting_append_of_one_session_holds_up_no_other(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    first = await sessions.create_session(**USER, session_id="first")
    second = await sessions.create_session(**USER, session_id="second")
    rows = "SELECT FROM adkpg.sessions WHERE session_id = 'first' FOR UPDATE"
    async with locked(database_url, rows) as lock:
        call = asyncio.ensure_future(sessions.append_event(first, said("x")))
        await lock.until_blocked(1)
        await sessions.append_event(second, said("y"))
        assert not call.done()
        await lock.release()
        await call
    assert texts(first) == ["x"]
