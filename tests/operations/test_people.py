"""The users of an app, page by page."""

import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.operations import list_users
from adkpg.tooling.operations.people import app_names
from tests.fakes.conversation import entry


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
