"""What is too large is refused before anything is written, whoever else writes meanwhile."""

import asyncio
from typing import Any

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.errors import InvalidInput
from adkpg.sessions import reading_statements, records
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER

MEGABYTE = 1_000_000
SMALL = Settings(max_event_mb=1, max_state_mb=1, max_results=3, max_app_state_per_user_kb=1_000)


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
        assert len(page.items + rest.items) == 4
    assert (await small.list_sessions(app_name="app", user_id="another")).sessions == []


async def test_pages_have_as_many_rows_as_the_limit(small: DatabaseSessionService) -> None:
    session = await small.create_session(**USER, session_id="s")
    for number in range(4):
        await small.append_event(session, said(str(number)))
        await small.create_session(**USER)
    page = await small.list_events_page(**USER, session_id="s", limit=10**30)
    assert len(page.items) == 3
    rest = await small.list_events_page(**USER, session_id="s", cursor=page.next_cursor)
    assert [event.id for event in page.items + rest.items] == [e.id for e in session.events]
    listed = await small.list_sessions_page(**USER, limit=100)
    assert len(listed.items) == 3
    assert listed.next_cursor is not None


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


SHAPES = {  # kilobytes of the app's, each user's and each session's state; users; sessions of each
    "a user's state": (0, 300, 1, 1, 12),
    "an app's state": (300, 0, 1, 3, 4),
    "users' states": (0, 300, 1, 3, 4),
    "states of sessions": (0, 0, 300, 2, 6),
    "all of them": (90, 90, 90, 3, 4),
    "one that is too large by itself": (600, 600, 600, 2, 2),
    "small ones": (1, 1, 1, 3, 4),
    "nothing": (0, 0, 0, 1, 3),
}


@pytest.mark.parametrize("one_user", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_listing_is_as_large_as_its_limit_and_no_session_is_missed(
    database_url: str, connection: asyncpg.Connection, shape: str, one_user: bool
) -> None:
    app_kb, user_kb, own_kb, users, each = SHAPES[shape]
    async with Database(
        database_url, settings=Settings(max_answer_mb=1, max_app_state_per_user_kb=1_000)
    ) as database:
        service = DatabaseSessionService(database)
        for user in range(users):
            for number in range(each):
                state: dict[str, Any] = {}
                if number == 0:
                    state |= {"app:k": "a" * (1_000 * app_kb), "user:k": "u" * (1_000 * user_kb)}
                state["k"] = "o" * (1_000 * own_kb)
                await service.create_session(
                    app_name="app", user_id=f"u{user}", session_id=f"s{number}", state=state
                )
        who = "u0" if one_user else None
        ids = [(f"u{user}", f"s{number}") for user in range(users) for number in range(each)]
        wanted = {place for place in ids if who in (None, place[0])}
        sizes = [len(s) for s in ("app:k", "user:k", "k")]
        of_one = 1_000 * (app_kb + user_kb + own_kb) + sum(sizes)

        seen: list[tuple[str, str]] = []
        cursor = None
        while True:
            page = await service.list_sessions_page(
                app_name="app", user_id=who, limit=7, cursor=cursor
            )
            assert page.items
            assert len(page.items) == 1 or len(page.items) * of_one <= 1_000_000
            for session in page.items:
                seen.append((session.user_id, session.id))
                assert [len(session.state[key]) for key in ("app:k", "user:k", "k")] == [
                    1_000 * app_kb,
                    1_000 * user_kb,
                    1_000 * own_kb,
                ]
            if (cursor := page.next_cursor) is None:
                break
        assert len(seen) == len(wanted)
        assert set(seen) == wanted

        if len(wanted) * of_one <= 1_000_000:
            listed = await service.list_sessions(app_name="app", user_id=who)
            assert {(each.user_id, each.id) for each in listed.sessions} == wanted
        else:
            with pytest.raises(InvalidInput, match=r"ADKPG_MAX_ANSWER_MB=1 .*list_sessions_page"):
                await service.list_sessions(app_name="app", user_id=who)
        of_nodes = "SELECT to_regclass('citus_stat_activity') IS NOT NULL"
        if not one_user and await connection.fetchval(of_nodes):
            return  # each node sends its page, which is measured when it has come
        limits: Any = {"app_name": "app", "limit": 100, "most_bytes": 1_000_000}
        if who is None:
            query = reading_statements.list_sessions_of_app(**limits)
        else:
            query = reading_statements.list_sessions(
                **limits, user_id=who, after_time=None, after_session_id=None
            )
        statement, parameters = query
        sent = await connection.fetchval(
            "SELECT sum(octet_length(coalesce(state, '')) + octet_length(coalesce(app_state, ''))"
            f" + octet_length(coalesce(user_state, ''))) FROM ({statement.text('adkpg')}) AS rows",
            *statement.arguments(parameters),
        )
        assert sent <= max(1_000_000, of_one + 100), "by the server, before anything is sent"


async def test_sessions_of_a_listing_share_texts_and_no_containers(
    sessions: DatabaseSessionService,
) -> None:
    deep: Any = "x" * 1_000
    for _ in range(290):
        deep = {"k": [deep]}
    await sessions.create_session(
        **USER, state={"user:deep": deep, "app:list": [{"a": ["t" * 99]}]}
    )
    await sessions.create_session(**USER)
    first, second = (await sessions.list_sessions(**USER)).sessions
    inner = [session.state["app:list"][0]["a"] for session in (first, second)]
    assert inner[0][0] is inner[1][0]
    inner[0].append("more")
    first.state["user:deep"]["k"][0]["k"] = None
    assert inner[1] == ["t" * 99]
    assert second.state["user:deep"] == deep


@pytest.mark.parametrize("limit", [0, 10, 25, 1_000])
def test_what_several_parts_send_is_one_listing(limit: int) -> None:
    """Each begins anew to count, and has its own in order."""
    of_one, of_another = [
        [
            {"updated_at": time, "user_id": "u", "session_id": "s", "size": 8}
            | {"number": number, "listed": 2}
            for number, time in enumerate(times, start=1)
        ]
        for times in ((4, 1), (3, 2))
    ]
    some, there = records.fitting(of_one + of_another, limit, "updated_at")
    fit = {0: 1, 10: 1, 25: 3, 1_000: 4}[limit]
    assert ([row["updated_at"] for row in some], there) == ([4, 3, 2, 1][:fit], 4)
    assert records.fitting([], limit, "updated_at") == ([], 0)


def test_a_listing_ends_where_a_part_had_no_room_for_more() -> None:
    """What it left out comes before what others sent."""

    def part(times: list[int], listed: int) -> list[dict[str, Any]]:
        return [
            {"updated_at": time, "user_id": "u", "session_id": "s", "size": 8}
            | {"number": number, "listed": listed}
            for number, time in enumerate(times, start=1)
        ]

    rows = part([5], 3) + part([2, 1], 2)
    some, there = records.fitting(rows, 1_000, "updated_at")
    assert ([row["updated_at"] for row in some], there) == ([5], 5)
