"""`adkpg db grants`, and what operators' commands do with row-level security."""

import asyncio
from collections.abc import Iterator

import pytest

import adkpg as package
from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from tests.fakes.commands import Adkpg
from tests.fakes.conversation import USER, entry
from tests.fakes.roles import GUARDED, Roles
from tests.fakes.toys import ToyEmbedder


@pytest.fixture
def roles(empty_database_url: str) -> Iterator[Roles]:
    made = Roles(empty_database_url)
    asyncio.run(made.create("migrate", "serve", "work"))
    yield made
    asyncio.run(made.drop())


@pytest.fixture
def guarded(adkpg: Adkpg, roles: Roles, monkeypatch: pytest.MonkeyPatch) -> Roles:
    """From an empty database to roles and policies, by the commands that the docs name."""
    monkeypatch.setenv("ADKPG_ROW_LEVEL_SECURITY", "true")

    def granted(purpose: str, by: str | None) -> None:
        printed = adkpg("db", "grants", "--role", purpose, roles.name(purpose))
        assert printed.code == 0, printed.err
        asyncio.run(roles.execute([printed.out], url=by))

    granted("migrate", None)
    upgraded = adkpg("db", "upgrade", "--database-url", roles.url("migrate"))
    assert upgraded.code == 0, upgraded.err
    granted("serve", roles.url("migrate"))
    granted("work", roles.url("migrate"))
    return roles


async def live(url: str) -> None:
    async with Database(url, settings=GUARDED) as database:
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        with package.scope(**USER):
            await DatabaseSessionService(database).create_session(**USER, session_id="s")
            await memory.add_memory(**USER, memories=[entry("a kitten sleeps")])


def test_commands_are_an_operators_and_need_the_role_for_work(adkpg: Adkpg, guarded: Roles) -> None:
    asyncio.run(live(guarded.url("serve")))
    asked = ("sessions", "list", "--app", "app", "--database-url")
    outcome = adkpg(*asked, guarded.url("work"))
    assert (outcome.code, outcome.err) == (0, "")
    assert "s" in outcome.out.split()
    refused = adkpg(*asked, guarded.url("serve"))
    assert (refused.code, refused.out) == (1, "")
    assert "`adkpg db grants` prints the rights that each role needs" in refused.err
    assert refused.err.count("\n") == 1
    forgotten = adkpg(
        "forget", "--app", "app", "--user", "user", "--yes", "--database-url", guarded.url("work")
    )
    assert forgotten.code == 0, forgotten.err
    assert "s" not in adkpg(*asked, guarded.url("work")).out.split()


def test_a_worker_that_may_not_work_says_what_it_needs(adkpg: Adkpg, guarded: Roles) -> None:
    outcome = adkpg("worker", "--once", "--database-url", guarded.url("serve"))
    assert outcome.code == 1
    assert "adkpg db grants" in outcome.err
    assert adkpg("worker", "--once", "--database-url", guarded.url("work")).code == 0


def test_a_superuser_is_refused_to_read(
    adkpg: Adkpg, guarded: Roles, empty_database_url: str
) -> None:
    outcome = adkpg("sessions", "list", "--app", "app", "--database-url", empty_database_url)
    assert (outcome.code, outcome.out) == (1, "")
    assert "BYPASSRLS" in outcome.err
