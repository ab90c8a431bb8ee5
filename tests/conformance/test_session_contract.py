"""What only our session service promises: incarnations, merging, pages, ownership."""

import random
from typing import Any

import pytest
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from sqlalchemy.ext.asyncio import create_async_engine

from adkpg import Database, DatabaseSessionService
from adkpg.errors import (
    ConfigurationError,
    InvalidInput,
    SessionNotFound,
    StaleSession,
)
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER


async def _stored(sessions: DatabaseSessionService, session: Session) -> Session:
    found = await sessions.get_session(**USER, session_id=session.id)
    assert found is not None
    return found


# Incarnations


@pytest.mark.parametrize("on_conflict", ["raise", "merge"])
async def test_a_session_created_again_is_another_one(database: Database, on_conflict: str) -> None:
    service = DatabaseSessionService(database, on_conflict=on_conflict)  # type: ignore[arg-type] # a literal of each
    old = await service.create_session(**USER, session_id="x")
    await service.delete_session(**USER, session_id="x")
    new = await service.create_session(**USER, session_id="x")
    with pytest.raises(StaleSession, match="deleted and created again"):
        await service.append_event(old, said("late"))
    assert old.events == []
    assert await _stored(service, new) == new


async def test_errors_name_the_session_and_the_cure(sessions: DatabaseSessionService) -> None:
    session = await sessions.create_session(**USER, session_id="x")
    other = await _stored(sessions, session)
    await sessions.append_event(session, said("first"))
    with pytest.raises(StaleSession, match=r"x has been modified in storage.*load it again"):
        await sessions.append_event(other, said("second"))
    await sessions.delete_session(**USER, session_id="x")
    with pytest.raises(SessionNotFound, match="Session x not found"):
        await sessions.append_event(session, said("third"))


# Merging


async def test_merge_appends_whatever_the_revision(database: Database) -> None:
    service = DatabaseSessionService(database, on_conflict="merge")
    first = await service.create_session(**USER)
    second = await _stored(service, first)
    await service.append_event(first, said("1", state={"a": 1, "user:a": 1, "app:a": 1}))
    await service.append_event(second, said("2", state={"b": 2, "user:b": 2, "app:b": 2}))
    await service.append_event(first, said("3"))
    stored = await _stored(service, first)
    assert texts(stored) == ["1", "2", "3"]
    assert stored.state == {
        f"{scope}{key}": value
        for scope in ("", "user:", "app:")
        for key, value in (("a", 1), ("b", 2))
    }


async def test_merge_accepts_a_session_rebuilt_from_json(database: Database) -> None:
    service = DatabaseSessionService(database, on_conflict="merge")
    session = await service.create_session(**USER)
    rebuilt = Session.model_validate_json(session.model_dump_json())
    await service.append_event(session, said("1"))
    await service.append_event(rebuilt, said("2"))
    assert texts(await _stored(service, session)) == ["1", "2"]


# Sessions rebuilt from JSON


async def test_a_rebuilt_session_whose_last_event_is_the_stored_one_goes_on(
    sessions: DatabaseSessionService,
) -> None:
    session = await sessions.create_session(**USER)
    await sessions.append_event(session, said("1", timestamp=2000.0))
    rebuilt = Session.model_validate_json(session.model_dump_json())
    rebuilt.last_update_time = 0.0
    await sessions.append_event(rebuilt, said("2"))
    assert texts(await _stored(sessions, session)) == ["1", "2"]


async def test_a_rebuilt_session_repeats_an_append(sessions: DatabaseSessionService) -> None:
    session = await sessions.create_session(**USER)
    rebuilt = Session.model_validate_json(session.model_dump_json())
    event = said("1")
    await sessions.append_event(session, event)
    await sessions.append_event(rebuilt, event.model_copy(deep=True))
    assert rebuilt == session
    await sessions.append_event(rebuilt, said("2"))
    assert await _stored(sessions, session) == rebuilt


async def test_a_rebuilt_session_that_was_deleted_is_not_found(
    sessions: DatabaseSessionService,
) -> None:
    session = await sessions.create_session(**USER)
    rebuilt = Session.model_validate_json(session.model_dump_json())
    await sessions.delete_session(**USER, session_id=session.id)
    with pytest.raises(SessionNotFound):
        await sessions.append_event(rebuilt, said("1"))


async def test_more_recent_events_than_anybody_has(sessions: DatabaseSessionService) -> None:
    session = await sessions.create_session(**USER)
    await sessions.append_event(session, said("x"))
    for recent in (2**63 - 1, 2**63, 10**30):
        config = GetSessionConfig(num_recent_events=recent)
        found = await sessions.get_session(**USER, session_id=session.id, config=config)
        assert found == session
    page = await sessions.list_events_page(**USER, session_id=session.id, limit=10**30)
    assert page.items == session.events
    listed = await sessions.list_sessions_page(**USER, limit=10**30)
    assert [each.id for each in listed.items] == [session.id]


async def test_no_session_id_names_no_session(sessions: DatabaseSessionService) -> None:
    await sessions.create_session(**USER)
    nothing: Any = None
    for session_id in (nothing, "", " "):
        assert await sessions.get_session(**USER, session_id=session_id) is None
        await sessions.delete_session(**USER, session_id=session_id)
    assert len((await sessions.list_sessions(app_name="app")).sessions) == 1


# Pages


async def test_pages_of_a_users_sessions_are_by_last_update(
    sessions: DatabaseSessionService,
) -> None:
    for number in range(7):
        session = await sessions.create_session(
            **USER, session_id=f"s{number}", state={"n": number, "user:u": 1, "app:a": 1}
        )
        await sessions.append_event(session, said("x", timestamp=1000.0 + number // 2))
    await sessions.create_session(app_name="app", user_id="other")
    found, cursor = [], None
    while True:
        page = await sessions.list_sessions_page(**USER, limit=2, cursor=cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
        assert len(page.items) == 2
    assert [session.id for session in found] == ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]
    for session in found:
        assert session.events == []
        assert session.state == {"n": int(session.id[1]), "user:u": 1, "app:a": 1}


@pytest.mark.parametrize("order", ["as_made", "reversed", "shuffled", "equal"])
async def test_pages_of_many_sessions_leave_none_out_whatever_their_ids(
    sessions: DatabaseSessionService, order: str
) -> None:
    """More than ten pages of them: where the last one begins is told by a part of them."""
    numbers = list(range(60))
    updated = {
        "as_made": numbers,
        "reversed": numbers[::-1],
        "shuffled": random.Random(0).sample(numbers, 60),
        "equal": [0] * 60,
    }[order]
    for number, time in zip(numbers, updated, strict=True):
        session = await sessions.create_session(**USER, session_id=f"{number:02}")
        await sessions.append_event(session, said("x", timestamp=1000.0 + time))
    newest_first = sorted(numbers, key=lambda number: (updated[number], number), reverse=True)
    for limit in (1, 7):
        found, cursor = [], None
        while True:
            page = await sessions.list_sessions_page(**USER, limit=limit, cursor=cursor)
            found += [int(session.id) for session in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == newest_first


async def test_pages_of_an_app_are_by_creation(
    sessions: DatabaseSessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, user in enumerate(["a", "", "b", "a", "c"]):
        monkeypatch.setattr(
            "google.adk.platform.time.get_time", lambda now=1000.0 + number // 2: now
        )
        await sessions.create_session(
            app_name="app", user_id=user, session_id=f"s{number}", state={f"user:{user}": number}
        )
    found, cursor = [], None
    while True:
        page = await sessions.list_sessions_page(app_name="app", limit=2, cursor=cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    assert [session.id for session in found] == ["s4", "s2", "s3", "s0", "s1"]
    assert [session.state for session in found] == [
        {"user:c": 4},
        {"user:b": 2},
        {"user:a": 3},
        {"user:a": 3},
        {"user:": 1},
    ]


async def test_a_page_that_is_exactly_full_is_the_last(sessions: DatabaseSessionService) -> None:
    for number in range(2):
        await sessions.create_session(**USER, session_id=str(number))
    page = await sessions.list_sessions_page(**USER, limit=2)
    assert (len(page.items), page.next_cursor) == (2, None)
    assert (await sessions.list_sessions_page(app_name="none")).items == []


async def test_pages_of_events_are_in_append_order_and_stay_so_while_more_are_appended(
    sessions: DatabaseSessionService,
) -> None:
    session = await sessions.create_session(**USER)
    for number in range(5):
        await sessions.append_event(session, said(str(number), timestamp=1000.0 - number))
    first = await sessions.list_events_page(**USER, session_id=f" {session.id} ", limit=2)
    await sessions.append_event(session, said("5"))
    rest = await sessions.list_events_page(**USER, session_id=session.id, cursor=first.next_cursor)
    assert first.items + rest.items == session.events
    assert rest.next_cursor is None
    missing = await sessions.list_events_page(**USER, session_id="none")
    assert (missing.items, missing.next_cursor) == ([], None)


async def test_pages_refuse_what_is_no_limit_and_no_cursor(
    sessions: DatabaseSessionService,
) -> None:
    for limit in (0, -1):
        with pytest.raises(InvalidInput, match=f"limit={limit}"):
            await sessions.list_sessions_page(**USER, limit=limit)
        with pytest.raises(InvalidInput, match=f"limit={limit}"):
            await sessions.list_events_page(**USER, session_id="x", limit=limit)
    with pytest.raises(InvalidInput, match="did not come from a page"):
        await sessions.list_sessions_page(**USER, cursor="other")
    with pytest.raises(InvalidInput, match="did not come from a page"):
        await sessions.list_events_page(**USER, session_id="x", cursor="other")


# Making and closing services


async def test_a_service_given_a_database_leaves_it_open(database: Database) -> None:
    async with DatabaseSessionService(database) as service:
        assert service.database is database
        await service.create_session(**USER, session_id="x")
    before = await _pids(database)
    await DatabaseSessionService(database).get_session(**USER, session_id="x")
    assert await _pids(database) == before


@pytest.mark.direct("tells connections by their server processes, which clients share")
async def test_a_service_made_from_a_url_closes_its_own(
    database_url: str, database: Database
) -> None:
    async with DatabaseSessionService(database_url) as service:
        await service.create_session(**USER)
        (own,) = await _pids(service.database)
    assert own not in await _pids(database)
    await service.close()
    assert await service.get_user_state(**USER) == {}  # it opens again
    await service.close()


async def _pids(database: Database) -> set[int]:
    engine = await database.engine()
    async with engine.connect() as connection:
        rows = await connection.exec_driver_sql(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND application_name NOT LIKE 'citus_internal%'"
        )
        return {row[0] for row in rows}


async def test_adks_own_keywords(database_url: str) -> None:
    engine_url = database_url.replace("postgresql://", "postgresql+asyncpg://", 1)
    async with DatabaseSessionService(
        db_url=engine_url, pool_size=2, connect_args={"server_settings": {"application_name": "x"}}
    ) as service:
        session = await service.create_session(**USER)
        engine = await service.database.engine()
        async with engine.connect() as connection:
            name = await connection.exec_driver_sql("SHOW application_name")
            assert name.scalar() == "x"
    engine = create_async_engine(engine_url)
    async with DatabaseSessionService(db_engine=engine) as service:
        assert await service.get_session(**USER, session_id=session.id) == session
    await engine.dispose()


@pytest.mark.parametrize("on_conflict", ["", "MERGE", None, "ignore"])
def test_on_conflict_is_raise_or_merge(on_conflict: str | None) -> None:
    with pytest.raises(ConfigurationError, match="'raise' or 'merge'"):
        DatabaseSessionService("postgresql://h/d", on_conflict=on_conflict)  # type: ignore[arg-type] # the wrong value is the test


async def test_one_database_is_named() -> None:
    with pytest.raises(ConfigurationError, match="Name one database"):
        DatabaseSessionService("postgresql://h/d", db_url="postgresql://h/d")
    with pytest.raises(ConfigurationError, match="belong to the Database"):
        DatabaseSessionService(Database("postgresql://h/d"), pool_size=3)
    unnamed = DatabaseSessionService()
    with pytest.raises(ConfigurationError, match="ADKPG_DATABASE_URL"):
        await unnamed.get_user_state(**USER)


async def test_unknown_engine_options_are_named(database_url: str) -> None:
    service = DatabaseSessionService(database_url, pool_colour="blue")
    with pytest.raises(ConfigurationError, match="pool_colour"):
        await service.get_user_state(**USER)
