"""How much there is, by app and by user."""

from datetime import UTC, datetime, timedelta

import pytest
from google.genai import types

from adkpg import Database, DatabaseArtifactService, DatabaseSessionService, PgVectorMemoryService
from adkpg.errors import InvalidInput
from adkpg.tooling.operations import statistics
from tests.fakes.conversation import entry, said


@pytest.fixture
async def lived(
    database: Database, sessions: DatabaseSessionService, memory: PgVectorMemoryService
) -> Database:
    for user, turns in (("ada", 3), ("bob", 1)):
        session = await sessions.create_session(app_name="travel", user_id=user)
        for turn in range(turns):
            await sessions.append_event(session, said(f"turn {turn}"))
    await memory.add_memory(app_name="travel", user_id="ada", memories=[entry("likes tea")])
    words = PgVectorMemoryService(database, mode="text")
    await words.add_memory(app_name="travel", user_id="ada", memories=[entry("waits")])
    await words.add_memory(app_name="other", user_id=None, memories=[entry("for all")])
    await DatabaseArtifactService(database).save_artifact(
        app_name="travel",
        user_id="bob",
        session_id="s",
        filename="a",
        artifact=types.Part(text="abc"),
    )
    return database


async def test_apps_and_users_are_counted(lived: Database) -> None:
    found = await statistics(lived)
    other, travel = found.apps
    assert (other.app_name, other.users, other.memories, other.sessions) == ("other", 0, 1, 0)
    assert (travel.app_name, travel.users, travel.sessions, travel.events) == ("travel", 2, 2, 4)
    assert (travel.memories, travel.vectors, travel.waiting, travel.dead) == (2, 1, 1, 0)
    assert (travel.files, travel.file_bytes) == (1, 3)
    assert (travel.new_sessions, travel.new_events, travel.new_memories) == (2, 4, 2)
    assert travel.payload_bytes > 400
    assert [(each.app_name, each.user_id, each.events) for each in found.users] == [
        ("travel", "ada", 3),
        ("other", None, 0),
        ("travel", "bob", 1),
    ]


async def test_an_app_and_some_users_may_be_asked_for(lived: Database) -> None:
    found = await statistics(lived, app_name="travel", users=1)
    assert [app.app_name for app in found.apps] == ["travel"]
    assert [user.user_id for user in found.users] == ["ada"]
    assert (await statistics(lived, app_name="nobody's")).apps == ()


async def test_rates_are_of_the_span_that_is_asked_for(
    lived: Database, sessions: DatabaseSessionService
) -> None:
    session = await sessions.create_session(app_name="old", user_id="ada")
    before = (datetime.now(UTC) - timedelta(days=3)).timestamp()
    await sessions.append_event(session, said("long ago", timestamp=before))
    day, week = [
        (await statistics(lived, app_name="old", span=timedelta(days=days))).apps[0]
        for days in (1, 7)
    ]
    assert (day.events, day.new_events, week.new_events) == (1, 0, 1)


async def test_an_empty_database_has_nothing(database: Database) -> None:
    found = await statistics(database)
    assert (found.apps, found.users) == ((), ())


@pytest.mark.parametrize("number", [0, -1, 10**9])
async def test_numbers_out_of_range_are_refused(database: Database, number: int) -> None:
    with pytest.raises(InvalidInput, match="users="):
        await statistics(database, users=number)
