"""The console under row-level security, and in a schema of another name."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings, scope
from adkpg.tooling.console import create_console
from adkpg.tooling.testing import said
from tests.fakes.browser import Browser
from tests.fakes.roles import GUARDED, Roles, guarded_roles
from tests.fakes.toys import ToyEmbedder

PLACE: dict[str, Any] = {"app": "app", "user": "ana", "session": "s"}


async def lived(database: Database, memory: PgVectorMemoryService) -> None:
    with scope(app_name="app", user_id="ana"):
        sessions = DatabaseSessionService(database)
        session = await sessions.create_session(app_name="app", user_id="ana", session_id="s")
        await sessions.append_event(session, said("my kitten sleeps"))
        await memory.add_session_to_memory(session)


@pytest.fixture
async def roles(database_url: str) -> AsyncIterator[Roles]:
    async with guarded_roles(database_url) as made:
        yield made


async def test_a_role_for_work_sees_all_and_one_that_serves_a_person(
    roles: Roles, browse: Callable[..., Browser], embedder: ToyEmbedder
) -> None:
    async with (
        Database(roles.url("work"), settings=GUARDED) as worked,
        Database(roles.url("serve"), settings=GUARDED) as served,
    ):
        memory = PgVectorMemoryService(worked, embedder=embedder)
        await lived(worked, memory)
        operator = browse(create_console(worked, memory=memory))
        assert "/app?app=app" in await operator.text("/")
        for page in ({"path": "/app", "app": "app"}, {"path": "/", "find": "an"}):
            assert "user=ana" in await operator.text(**page)
        assert "my kitten sleeps" in await operator.text("/app", app="app"), "first words"
        assert "my kitten sleeps" in await operator.text("/session", **PLACE, preload=1)
        serving = PgVectorMemoryService(served, embedder=embedder)
        of_one = browse(create_console(served, memory=serving))
        refused = await of_one.get("/")
        assert refused.status_code == 403
        assert "Traceback" not in refused.text
        assert "my kitten sleeps" in await of_one.text("/session", **PLACE)
        for query in ({}, {"q": "kitten"}):
            listed = await of_one.text("/person", **PLACE, view="sessions", **query)
            assert "my kitten sleeps" in listed
            others = {**PLACE, "user": "bob", "view": "sessions", **query}
            assert "kitten sleeps" not in await of_one.text("/person", **others)


async def test_a_schema_of_another_name_is_shown(
    empty_database_url: str, browse: Callable[..., Browser], embedder: ToyEmbedder
) -> None:
    settings = Settings(database_schema="my_agents")
    async with Database(empty_database_url, settings=settings) as database:
        await database.upgrade()
        memory = PgVectorMemoryService(database, embedder=embedder)
        await lived(database, memory)
        browser = browse(create_console(database, memory=memory))
        assert "/app?app=app" in await browser.text("/")
        assert "user=ana" in await browser.text("/app", app="app")
        assert "my kitten sleeps" in await browser.text("/session", **PLACE, preload=1)
