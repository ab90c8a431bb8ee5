"""The users of an app, page by page."""

from adkpg import Database, DatabaseSessionService
from adkpg.operations import list_users


async def test_users_are_found_by_a_part_of_their_id_page_by_page(
    database: Database, sessions: DatabaseSessionService
) -> None:
    for user_id in ("", "ana", "bob", "hanna", "%"):
        await sessions.create_session(app_name="app", user_id=user_id)
    page = await list_users(database, app_name="app", limit=2)
    found = [user.user_id for user in page.users]
    while page.next_cursor:
        page = await list_users(database, app_name="app", limit=2, cursor=page.next_cursor)
        found += [user.user_id for user in page.users]
    assert found == ["", "%", "ana", "bob", "hanna"]
    assert [
        each.user_id for each in (await list_users(database, app_name="app", part="an")).users
    ] == [
        "ana",
        "hanna",
    ]
    assert [
        each.user_id for each in (await list_users(database, app_name="app", part="%")).users
    ] == ["%"]
    assert (await list_users(database, app_name="app", part="\x00")).users == []
    assert (await list_users(database, app_name="app")).users[2].sessions == 1
