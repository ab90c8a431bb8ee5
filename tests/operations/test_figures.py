"""How much there is, by app, by user and by table."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from google.genai import types

from adkpg import Database, DatabaseArtifactService, DatabaseSessionService, PgVectorMemoryService
from adkpg.errors import InvalidInput
from adkpg.operations import growth, statistics
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


async def test_apps_users_and_tables_are_counted(lived: Database) -> None:
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
    assert {each.name for each in found.tables} >= {"events", "memories", "alembic_version"}
    assert all(each.bytes >= 0 and each.index_bytes >= 0 for each in found.tables)


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
    days = await growth(lived, app_name="old", days=7)
    assert [each.events for each in days] == [0, 0, 0, 1, 0, 0, 0]
    assert [each.sessions for each in days] == [0, 0, 0, 0, 0, 0, 1]


async def test_an_empty_database_has_nothing(database: Database) -> None:
    found = await statistics(database)
    assert (found.apps, found.users) == ((), ())
    assert len(await growth(database)) == 30


@pytest.mark.parametrize("number", [0, -1, 10**9])
async def test_numbers_out_of_range_are_refused(database: Database, number: int) -> None:
    with pytest.raises(InvalidInput, match="users="):
        await statistics(database, users=number)
    with pytest.raises(InvalidInput, match="days="):
        await growth(database, days=number)


@pytest.mark.parametrize("few", [1, 1_000])
async def test_estimates_of_whole_tables_are_the_figures(
    lived: Database,
    sessions: DatabaseSessionService,
    monkeypatch: pytest.MonkeyPatch,
    few: int,
) -> None:
    """A sample of all pages is all there is; what an app has few of is counted anyway."""
    await sessions.create_session(app_name="a", user_id="cy", state={"app:x": 1})
    await sessions.delete_session(
        app_name="a",
        user_id="cy",
        session_id=(await sessions.list_sessions(app_name="a")).sessions[0].id,
    )
    exact, days = await statistics(lived), await growth(lived)
    monkeypatch.setattr("adkpg.operations.figures.percent", lambda _: 100.0)
    monkeypatch.setattr("adkpg.operations.figures.few_of", lambda _: few)
    monkeypatch.setattr("adkpg.operations.figures.FEW", few)
    found = await statistics(lived, exact=False)
    assert [app.estimated for app in found.apps] == [False, few == 1, few == 1]
    assert [replace(app, estimated=False) for app in found.apps] == list(exact.apps)
    assert found.users == exact.users
    for app_name in (None, "travel"):
        asked = await statistics(lived, app_name=app_name, users=1, exact=False)
        assert asked.users == exact.users[:1]
        assert len(asked.apps) == (3 if app_name is None else 1)
    assert await growth(lived, exact=False) == days
    assert await growth(lived, app_name="travel", exact=False) == await growth(
        lived, app_name="travel"
    )


async def test_a_sample_of_a_large_table_tells_about_how_much_there_is(
    database: Database, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth of the pages is read; an app with few memories is counted all the same."""
    await connection.execute(
        "INSERT INTO memories (app_name, user_id, position, memory_id, kind, content, body, length,"
        " digest, timestamp, session_id, author)"
        " SELECT CASE WHEN n > 20000 THEN 'small' ELSE 'large' END, 'u' || n % 500, n, n::text,"
        " 'note', '{}', '', 0, n::text, now(), '', '' FROM generate_series(1, 20005) n"
    )
    monkeypatch.setattr("adkpg.sampling_statements.LARGE", 10)
    pages = await connection.fetchval("SELECT pg_relation_size('memories') / 8192")
    monkeypatch.setattr("adkpg.sampling_statements.SAMPLED", pages // 10)
    monkeypatch.setattr("adkpg.operations.figures.few_of", lambda _: 100)
    large, small = (await statistics(database, users=1, exact=False)).apps
    assert (small.users, small.memories, small.new_memories, small.estimated) == (5, 5, 5, False)
    assert large.estimated
    assert 10_000 < large.memories < 40_000
    assert 10_000 < large.new_memories < 40_000
    assert 250 < large.users < 1_000
    today = (await growth(database, exact=False))[-1]
    assert 10_000 < today.memories < 40_000
