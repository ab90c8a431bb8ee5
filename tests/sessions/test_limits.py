"""What is too large is refused before anything is written, whoever else writes meanwhile."""

import asyncio
from typing import Any

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.errors import InvalidInput
from adkpg.testing import said, texts
from tests.fakes.conversation import USER

MEGABYTE = 1_000_000
SMALL = Settings(max_event_mb=1, max_state_mb=1, max_results=3)


@pytest.fixture
async def small(database_url: str) -> Any:
    async with Database(database_url, settings=SMALL) as database:
        yield DatabaseSessionService(database)


def _noise(size: int) -> str:
    return "".join(f"{number * 7919 % 1_000_003:06x}" for number in range(size // 6))


async def _counts(connection: asyncpg.Connection) -> tuple[int, ...]:
    row = await connection.fetchrow(
        "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM events),"
        " (SELECT count(*) FROM app_states), (SELECT count(*) FROM user_states)"
    )
    return tuple(row)


async def test_an_event_above_its_limit(
    small: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    session = await small.create_session(**USER)
    with pytest.raises(InvalidInput, match=r"Event big has 1,000,\d+ bytes.*ADKPG_MAX_EVENT_MB=1"):
        await small.append_event(session, said("é" * (MEGABYTE // 2), id="big"))
    assert (await _counts(connection))[1] == 0
    await small.append_event(session, said("é" * (MEGABYTE // 2 - 500)))
    await small.append_event(session, said("goes on"))
    read = await small.get_session(**USER, session_id=session.id)
    assert texts(read)[1:] == ["goes on"]


@pytest.mark.parametrize("prefix", ["", "user:", "app:"])
async def test_a_delta_above_the_limit_of_states(
    small: DatabaseSessionService, connection: asyncpg.Connection, prefix: str
) -> None:
    large = {f"{prefix}k": "x" * MEGABYTE}
    with pytest.raises(InvalidInput, match=r"state has 1,000,\d+ bytes.*ADKPG_MAX_STATE_MB=1 "):
        await small.create_session(**USER, state=large)
    assert await _counts(connection) == (0, 0, 0, 0)
    session = await small.create_session(**USER)
    with pytest.raises(InvalidInput):
        await small.append_event(session, said("x", state=large))
    assert await _counts(connection) == (1, 0, 0, 0)


@pytest.mark.parametrize(("prefix", "scope"), [("", "session"), ("user:", "user"), ("app:", "app")])
async def test_a_state_that_grows_above_its_limit(
    small: DatabaseSessionService, connection: asyncpg.Connection, prefix: str, scope: str
) -> None:
    session = await small.create_session(**USER)
    part = _noise(400_000)
    for number in range(2):
        await small.append_event(session, said("x", state={f"{prefix}{number}": part}))
    before = await _counts(connection)
    with pytest.raises(InvalidInput, match=f"the {scope}'s state.*ADKPG_MAX_STATE_MB=1 "):
        await small.append_event(session, said("x", state={f"{prefix}2": part}))
    if prefix:
        with pytest.raises(InvalidInput, match=f"the {scope}'s state"):
            await small.create_session(**USER, state={f"{prefix}2": part})
    assert await _counts(connection) == before
    # Its other keys, and smaller values, are taken still.
    await small.append_event(session, said("x", state={f"{prefix}0": None, f"{prefix}2": part}))
    read = await small.get_session(**USER, session_id=session.id)
    assert read is not None
    assert read.state == session.state
    assert read.state[f"{prefix}0"] is None
    assert read.state[f"{prefix}2"] == part


@pytest.mark.race
async def test_writers_at_once_do_not_exceed_the_limit_together(
    small: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    sessions = [await small.create_session(**USER) for _ in range(8)]
    part = _noise(300_000)

    async def append(number: int) -> str:
        try:
            event = said("x", state={f"user:{number}": part})
            await small.append_event(sessions[number], event)
        except InvalidInput:
            return "refused"
        return "stored"

    answers = await asyncio.gather(*map(append, range(8)))
    assert sorted(answers) == ["refused"] * 5 + ["stored"] * 3
    assert (await _counts(connection))[1] == 3
    for session, answer in zip(sessions, answers, strict=True):
        await small.append_event(session, said("goes on"))
        assert len(session.events) == 1 + (answer == "stored")


async def test_all_sessions_or_an_error_that_names_the_pages(small: DatabaseSessionService) -> None:
    for number in range(3):
        await small.create_session(**USER, session_id=str(number))
    assert len((await small.list_sessions(**USER)).sessions) == 3
    await small.create_session(**USER, session_id="one more")
    for user_id in ("user", None):
        with pytest.raises(InvalidInput, match=r"ADKPG_MAX_RESULTS=3.*list_sessions_page"):
            await small.list_sessions(app_name="app", user_id=user_id)
        page = await small.list_sessions_page(app_name="app", user_id=user_id, limit=3)
        rest = await small.list_sessions_page(
            app_name="app", user_id=user_id, limit=3, cursor=page.next_cursor
        )
        assert len(page.sessions + rest.sessions) == 4
    assert (await small.list_sessions(app_name="app", user_id="another")).sessions == []


async def test_pages_have_as_many_rows_as_the_limit(small: DatabaseSessionService) -> None:
    session = await small.create_session(**USER, session_id="s")
    for number in range(4):
        await small.append_event(session, said(str(number)))
        await small.create_session(**USER)
    page = await small.list_events_page(**USER, session_id="s", limit=10**30)
    assert len(page.events) == 3
    rest = await small.list_events_page(**USER, session_id="s", cursor=page.next_cursor)
    assert [event.id for event in page.events + rest.events] == [e.id for e in session.events]
    listed = await small.list_sessions(**USER, page_size=100)
    assert len(listed.sessions) == 3
    assert listed.next_page_token is not None


async def test_many_sessions_are_listed_while_others_are_served(
    sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO sessions (app_name, user_id, session_id, state)"
        " SELECT 'app', 'user', n, '{\"k\": 1}' FROM generate_series(1, 2000) n"
    )
    listing = asyncio.create_task(sessions.list_sessions(**USER))
    turns = 0
    while not listing.done():
        await asyncio.sleep(0)
        turns += 1
    listed = (await listing).sessions
    assert len(listed) == 2_000
    assert all(session.state == {"k": 1} for session in listed)
    assert turns >= 20
