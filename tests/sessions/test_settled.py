"""Listings of a user's sessions: the active ones are sorted, the settled ones are in an index."""

import random
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.sessions import reading_statements
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER
from tests.fakes.locks import locked
from tests.fakes.query_plans import explain, rows_read, scans

SETTLES = "SELECT 's' || n FROM generate_series(1, 10000) n WHERE hashtext('s' || n) & 63 = 0"
ACTIVE = "SELECT session_id FROM adkpg.sessions WHERE settled_at IS NULL ORDER BY updated_at DESC"
MANY = """
INSERT INTO adkpg.sessions (app_name, user_id, session_id, created_at, updated_at, settled_at)
SELECT 'app', 'user', 'old ' || n, now(), at, CASE WHEN $2 THEN at END
FROM generate_series(1, $1::int) n,
     LATERAL (SELECT now() - interval '1 day' - (n / 2) * interval '1 minute' AS at) t
"""


async def listed(sessions: DatabaseSessionService, *, limit: int = 7, **scope: Any) -> list[str]:
    """The ids of a user's sessions, page by page."""
    found: list[str] = []
    cursor = None
    while True:
        page = await sessions.list_sessions_page(**USER | scope, limit=limit, cursor=cursor)
        found += [session.id for session in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def settling(connection: asyncpg.Connection, count: int = 1) -> list[str]:
    """Ids of sessions whose creation settles others."""
    rows = await connection.fetch(f"{SETTLES} LIMIT $1", count)
    return [row[0] for row in rows]


async def by_update(connection: asyncpg.Connection) -> list[str]:
    rows = await connection.fetch(
        "SELECT session_id FROM adkpg.sessions WHERE user_id = 'user'"
        " ORDER BY updated_at DESC, session_id DESC"
    )
    return [row["session_id"] for row in rows]


@pytest.mark.parametrize("settled", [False, True])
async def test_each_session_is_listed_once_wherever_it_stands(
    sessions: DatabaseSessionService, connection: asyncpg.Connection, settled: bool
) -> None:
    """Two of a minute each, and some that went on since."""
    await connection.execute(MANY, 300, settled)
    for number in (4, 100, 299):
        session = await sessions.get_session(**USER, session_id=f"old {number}")
        assert session is not None
        await sessions.append_event(session, said("on it goes"))
    await sessions.create_session(**USER, session_id="new")
    await sessions.create_session(**USER | {"user_id": "other"}, session_id="anothers")
    expected = await by_update(connection)
    assert expected[:2] == ["new", "old 299"]
    for limit in (1, 2, 7, 300):
        assert await listed(sessions, limit=limit) == expected
    assert await listed(sessions, user_id="other") == ["anothers"]


async def test_those_updated_last_stay_active_and_an_append_wakes_others(
    sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await connection.execute(MANY, 2_000, False)
    first, second, third = await settling(connection, 3)
    await sessions.create_session(**USER, session_id=first)  # a thousand at most at a time
    assert len(await connection.fetch(ACTIVE)) == 1_001
    await sessions.create_session(**USER, session_id=second)
    active = [row[0] for row in await connection.fetch(ACTIVE)]
    # 128, and those of the same minute as the last of these.
    assert active[:2] == [second, first]
    assert sorted(active[2:]) == sorted(f"old {number}" for number in range(1, len(active) - 1))
    assert 128 <= len(active) <= 129
    session = await sessions.get_session(**USER, session_id="old 2000")
    assert session is not None
    await sessions.append_event(session, said("awake"))
    assert "old 2000" in [row[0] for row in await connection.fetch(ACTIVE)]
    await sessions.create_session(**USER, session_id=third)
    active = [row[0] for row in await connection.fetch(ACTIVE)]
    assert {third, second, first, "old 2000"} < set(active)
    assert await listed(sessions, limit=500) == await by_update(connection)


async def test_a_user_of_few_sessions_has_none_settled(
    sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await connection.execute(MANY, 126, False)
    for session_id in await settling(connection, 2):
        await sessions.create_session(**USER, session_id=session_id)
    assert len(await connection.fetch(ACTIVE)) == 128


@pytest.mark.race
async def test_settling_waits_for_nobody_who_appends(
    sessions: DatabaseSessionService, connection: asyncpg.Connection, database_url: str
) -> None:
    await connection.execute(MANY, 300, False)
    (session_id,) = await settling(connection)
    held = "SELECT FROM adkpg.sessions WHERE session_id = 'old 300' AND user_id = 'user' FOR UPDATE"
    async with locked(database_url, held):
        await sessions.create_session(**USER, session_id=session_id)
    active = [row[0] for row in await connection.fetch(ACTIVE)]
    assert active[-1] == "old 300"
    assert len(active) <= 130


async def test_what_settled_says_when_it_was_updated(connection: asyncpg.Connection) -> None:
    """Whoever writes one and forgets the other is refused, else listings would leave it out."""
    await connection.execute(MANY, 1, True)
    with pytest.raises(asyncpg.CheckViolationError, match="sessions_settled_at_check"):
        await connection.execute("UPDATE adkpg.sessions SET updated_at = now()")


async def test_a_settled_session_ends_as_others_do(
    sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await connection.execute(MANY, 20, True)
    await connection.execute(
        "UPDATE adkpg.sessions SET expires_at = now(), expires = true WHERE session_id = 'old 3'"
    )
    await sessions.delete_session(**USER, session_id="old 4")
    left = {f"old {number}" for number in range(1, 21)} - {"old 3", "old 4"}
    assert set(await listed(sessions)) == left


@pytest.mark.property
async def test_any_order_of_calls_lists_what_there_is(
    sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    """Against the times themselves, with creations that settle in between."""
    chance = random.Random(7)
    await connection.execute(MANY, 150, False)
    ids = [f"old {number}" for number in range(1, 151)]
    starting = iter(await settling(connection, 40))
    for _ in range(120):
        kind = chance.choice(["append", "append", "create", "delete", "past"])
        if kind == "create" and (session_id := next(starting, None)):
            await sessions.create_session(**USER, session_id=session_id)
            ids.append(session_id)
        elif kind == "delete":
            await sessions.delete_session(**USER, session_id=ids.pop(chance.randrange(len(ids))))
        elif kind in ("append", "past"):
            session = await sessions.get_session(**USER, session_id=chance.choice(ids))
            assert session is not None
            event = said("again")
            if kind == "past":  # an event says when it was
                event.timestamp = datetime(2001, 1, chance.randint(1, 9), tzinfo=UTC).timestamp()
            await sessions.append_event(session, event)
        assert await listed(sessions, limit=chance.choice([3, 50, 200])) == await by_update(
            connection
        )
    assert set(ids) == set(await by_update(connection))


@pytest.mark.plan
async def test_a_page_reads_the_active_ones_and_itself(
    database: Database, connection: asyncpg.Connection
) -> None:
    """Whether the planner knows the table or not: 10,000 sessions were read for each page."""
    await connection.execute(MANY, 10_000, True)
    await connection.execute(
        "UPDATE adkpg.sessions SET settled_at = NULL WHERE session_id LIKE 'old 77%'"
    )
    active = len(await connection.fetch(ACTIVE))
    page = {
        **USER,
        "limit": 51,
        "most_bytes": 64_000_000,
    }
    places: tuple[dict[str, Any], ...] = (
        {"after_time": None, "after_session_id": None},
        {"after_time": "2999-01-01", "after_session_id": ""},
    )
    for analyze in ("SELECT", "VACUUM ANALYZE adkpg.sessions"):
        await connection.execute(analyze)
        for generic in (False, True):
            for place in places:
                query = reading_statements.list_sessions(**page, **place)
                nodes = await explain(connection, query, generic=generic)
                assert nodes[0]["Actual Rows"] == 51
                read = sum(
                    rows_read(node)
                    for node in scans(nodes, "sessions")
                    if "Index" in node["Node Type"]
                )
                assert {node["Node Type"] for node in scans(nodes, "sessions")} <= {
                    "Index Scan",
                    "Bitmap Heap Scan",
                    "Bitmap Index Scan",
                }
                assert read <= 2 * active + 51
