"""What the tables hold of a demo."""

from adkpg import Database, DatabaseSessionService
from adkpg.tables import metadata
from adkpg.tooling.demo.rows import APP, count


async def test_each_table_with_rows_of_apps_is_counted_for_one_user(
    database: Database, sessions: DatabaseSessionService
) -> None:
    for user_id, number in (("ana", 2), ("bob", 1)):
        for _ in range(number):
            await sessions.create_session(
                app_name=APP, user_id=user_id, state={"app:seen": True, "user:seen": True}
            )
    await sessions.create_session(app_name="other", user_id="ana")
    rows = await count(database, "ana")
    assert [row.table for row in rows] == [
        table.name for table in metadata.tables.values() if "app_name" in table.c
    ]
    assert {row.table: row.count for row in rows if row.count} == {
        "sessions": 2,
        "app_states": 1,
        "user_states": 1,
    }
    assert all(row.comment for row in rows)
