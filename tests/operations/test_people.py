"""The users of an app, page by page."""

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.operations import AppCount, apps_of, list_users
from adkpg.tooling.operations import people_statements as statements
from adkpg.tooling.operations.people import app_names
from tests.fakes.conversation import entry
from tests.fakes.life import PERSONAL, live_through
from tests.fakes.query_plans import explain, rows_read, scans

# 100 apps of 200 users each, with a session and two memories.
CROWD = """
INSERT INTO sessions (app_name, user_id, session_id, created_at, updated_at, settled_at)
SELECT 'app ' || a, 'user ' || u, 's', now(), now(), now()
FROM generate_series(1, 100) a, generate_series(1, 200) u;
INSERT INTO memories (app_name, user_id, position, memory_id, kind, session_id, event_id,
                      timestamp, content, body, length, digest)
SELECT app_name, user_id, n, 'm' || n, 'turn', 's', n, now(), '{}', 'turn', 2, ''
FROM sessions, generate_series(1, 2) n;
"""


async def test_users_are_found_by_a_part_of_their_id_page_by_page(
    database: Database, sessions: DatabaseSessionService
) -> None:
    for user_id in ("", "ana", "bob", "hanna", "%"):
        await sessions.create_session(app_name="app", user_id=user_id)
    page = await list_users(database, app_name="app", limit=2)
    found = [user.user_id for user in page.items]
    while page.next_cursor:
        page = await list_users(database, app_name="app", limit=2, cursor=page.next_cursor)
        found += [user.user_id for user in page.items]
    assert found == ["", "%", "ana", "bob", "hanna"]
    assert [
        each.user_id for each in (await list_users(database, app_name="app", part="an")).items
    ] == [
        "ana",
        "hanna",
    ]
    assert [
        each.user_id for each in (await list_users(database, app_name="app", part="%")).items
    ] == ["%"]
    assert (await list_users(database, app_name="app", part="\x00")).items == []
    assert (await list_users(database, app_name="app")).items[2].sessions == 1


async def test_only_so_many_ids_are_looked_at_for_a_page(
    database: Database,
    sessions: DatabaseSessionService,
    memory: PgVectorMemoryService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("adkpg.tooling.operations.people._WALKED", 4)
    for number in range(9):
        await sessions.create_session(app_name="app", user_id=f"user {number}")
    await memory.add_memory(app_name="app", user_id="only memory 7", memories=[entry("tea")])
    await memory.add_memory(app_name="app", user_id=None, memories=[entry("for all")])
    found: list[list[str]] = []
    cursor = None
    while True:
        page = await list_users(database, app_name="app", part="7", limit=2, cursor=cursor)
        found.append([user.user_id for user in page.items])
        cursor = page.next_cursor
        if cursor is None:
            break
    assert [user for users in found for user in users] == ["only memory 7", "user 7"]
    assert [] in found
    everybody = await list_users(database, app_name="app", limit=10)
    assert (len(everybody.items), everybody.next_cursor) == (10, None)
    assert (await list_users(database, app_name="nobody's")).items == []


async def test_users_of_all_apps_are_found_page_by_page(
    database: Database, sessions: DatabaseSessionService, memory: PgVectorMemoryService
) -> None:
    for app_name in ("b", "", "é"):
        for user_id in ("", "ana", "hanna", "z"):
            await sessions.create_session(app_name=app_name, user_id=user_id)
    await memory.add_memory(app_name="a", user_id="ana", memories=[entry("tea")])
    await memory.add_memory(app_name="a", user_id=None, memories=[entry("for all")])
    apps, users = ("", "b", "é"), ("", "ana", "hanna", "z")
    every = sorted([*((app, user) for app in apps for user in users), ("a", "ana")])
    for part in ("", "an"):
        found = []
        cursor = None
        while True:
            page = await list_users(database, app_name=None, part=part, limit=3, cursor=cursor)
            found += [(user.app_name, user.user_id) for user in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == [(app, user) for app, user in every if part in user]


async def test_apps_are_named_in_order_and_only_so_many(
    database: Database, sessions: DatabaseSessionService, memory: PgVectorMemoryService
) -> None:
    assert await app_names(database, most=9) == []
    for app_name in ("b", "", "é", "b"):
        for user_id in ("ana", "bob"):
            await sessions.create_session(app_name=app_name, user_id=user_id)
    for app_name in ("a", "b", "z"):
        await memory.add_memory(app_name=app_name, user_id="cy", memories=[entry("tea")])
    names = ["", "a", "b", "z", "é"]
    assert await app_names(database, most=9) == names
    for most in range(1, 6):
        assert await app_names(database, most=most) == names[:most]


async def test_the_apps_of_a_user_are_counted_and_no_others(
    database: Database,
    sessions: DatabaseSessionService,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    assert await apps_of(database, user_id="ana") == []
    for app_name in ("", "é", "b"):
        await sessions.create_session(app_name=app_name, user_id="ana", session_id="s")
    await sessions.create_session(app_name="bob's", user_id="bob")
    await memory.add_memory(app_name="wide", user_id=None, memories=[entry("for all")])
    await sessions.update_state(app_name="a", user_id="ana", state_delta={"user:tea": "green"})
    await connection.execute("UPDATE sessions SET expires_at = now() WHERE app_name = 'b'")
    times = dict(
        await connection.fetch("SELECT app_name, updated_at FROM sessions WHERE user_id = 'ana'")
    )
    assert await apps_of(database, user_id="ana") == [
        AppCount("", 1, 0, 0, times[""]),
        AppCount("a", 0, 0, 0, None),
        AppCount("b", 1, 0, 0, times["b"]),
        AppCount("é", 1, 0, 0, times["é"]),
    ]
    for reserved in ("\x01app", "\x00"):
        assert await apps_of(database, user_id=reserved) == []


@pytest.mark.direct("sets a role of replication for its connection")
async def test_a_row_of_any_table_is_kept_of_a_user(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """One app for each table, which alone has rows of the user in it."""
    await connection.execute("SET session_replication_role = replica")  # no cascade, no trigger
    for table in PERSONAL:
        await live_through(database, memory, connection, "ana", table)
        for other in PERSONAL:
            if other != table:
                await connection.execute(f"DELETE FROM {other} WHERE app_name = $1", table)
    assert [each.app_name for each in await apps_of(database, user_id="ana")] == PERSONAL
    assert await apps_of(database, user_id="bob") == []


@pytest.mark.plan
@pytest.mark.parametrize("generic", [False, True])
async def test_the_apps_of_a_user_are_looked_up_in_keys(
    database: Database, connection: asyncpg.Connection, generic: bool
) -> None:
    assert await apps_of(database, user_id="user 7") == []
    await connection.execute(CROWD)
    await connection.execute(
        "DELETE FROM sessions WHERE user_id = 'user 7' AND app_name <> 'app 9'"
    )
    await connection.execute(
        "DELETE FROM memories WHERE user_id = 'user 7' AND app_name <> 'app 5'"
    )
    for analyze in ("SELECT", "VACUUM ANALYZE"):
        await connection.execute(analyze)
        nodes = await explain(
            connection, statements.select_apps_of(user_id="user 7"), generic=generic
        )
        for table in ("sessions", "memories"):
            found = scans(nodes, table)
            assert "Seq Scan" not in {node["Node Type"] for node in found}
            assert sum(map(rows_read, found)) < 1_000
    assert [each.app_name for each in await apps_of(database, user_id="user 7")] == [
        "app 5",
        "app 9",
    ]


@pytest.mark.plan
@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("app_name", ["app 7", None])
async def test_users_are_looked_up_in_keys(
    database: Database, connection: asyncpg.Connection, generic: bool, app_name: str | None
) -> None:
    assert (await list_users(database, app_name="app 7")).items == []
    await connection.execute(CROWD)
    query = statements.select_users(
        app_name=app_name, first_app="app 7", first="", part="r 19", walked=500, limit=5
    )
    for analyze in ("SELECT", "VACUUM ANALYZE"):
        await connection.execute(analyze)
        nodes = await explain(connection, query, generic=generic)
        for table in ("sessions", "memories"):
            found = scans(nodes, table)
            assert "Seq Scan" not in {node["Node Type"] for node in found}
            assert sum(map(rows_read, found)) < 1_000
