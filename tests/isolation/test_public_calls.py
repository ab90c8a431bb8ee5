"""No public call gives one user anything of another, with row-level security and without."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from a2a.utils.errors import A2AError, InternalError

import adkpg
from adkpg import Database
from adkpg.errors import AdkpgError, PermissionDenied, ScopeMissing
from tests.fakes.public_calls import (
    APP,
    CALLS,
    EVERYBODYS,
    OTHERS,
    Person,
    Services,
    furnish,
    kept,
    public_calls,
)
from tests.fakes.roles import GUARDED, Roles, guarded_roles

ADA, BOB = Person("ada"), Person("bob")


def whole(person: Person) -> dict[str, Any]:
    return {"app_name": APP, "user_id": person.user_id}


@pytest.fixture
async def furnished(database_url: str, connection: asyncpg.Connection) -> Services:
    """Two people's lives, written by an administrator."""
    async with Database(database_url) as database:
        services = Services.on(database)
        await furnish(services, connection, ADA, BOB)
        return services


@pytest.fixture
async def roles(furnished: Services, database_url: str) -> AsyncIterator[Roles]:
    async with guarded_roles(database_url) as made:
        yield made


def test_every_public_call_is_known_here() -> None:
    assert set(public_calls()) - {"Database"} <= {*CALLS, *EVERYBODYS, *OTHERS}
    assert {*CALLS, *EVERYBODYS} <= set(public_calls())


async def test_naming_another_users_things_reaches_none_of_them(
    furnished: Services, database_url: str, connection: asyncpg.Connection
) -> None:
    """Without row-level security; each statement names its user."""
    before = await kept(connection, BOB)
    assert all(before.values())
    async with Database(database_url) as database:
        services = Services.on(database, furnished.live)
        for name, call in CALLS.items():
            try:
                told = repr(await call(services, whole(ADA), BOB))
            except (AdkpgError, A2AError) as exc:
                told = repr(exc)
            assert BOB.secret not in told, name
            assert await kept(connection, BOB) == before, name


async def test_a_call_as_another_user_reaches_nothing_of_theirs(
    furnished: Services, roles: Roles, connection: asyncpg.Connection
) -> None:
    """Though the statements name that user: who asks is the context's to say."""
    before = await kept(connection, BOB)
    async with Database(roles.url("serve"), settings=GUARDED) as database:
        services = Services.on(database, furnished.live)
        for name, call in CALLS.items():
            with adkpg.scope(**whole(ADA)):
                try:
                    told = repr(await call(services, whole(BOB), BOB))
                except (AdkpgError, A2AError) as exc:
                    told = repr(exc)
            assert BOB.secret not in told, name
            assert await kept(connection, BOB) == before, name


async def test_every_call_without_a_scope_is_an_error(furnished: Services, roles: Roles) -> None:
    async with Database(roles.url("serve"), settings=GUARDED) as database:
        services = Services.on(database, furnished.live)
        for call in CALLS.values():
            with pytest.raises((ScopeMissing, InternalError)) as refused:
                await call(services, whole(ADA), ADA)
            told = refused.value  # by a store of tasks, what a peer is told
            assert isinstance(told, ScopeMissing) or isinstance(told.__cause__, ScopeMissing)


async def test_what_is_about_everybody_is_refused_in_one_users_scope(
    furnished: Services, roles: Roles, connection: asyncpg.Connection
) -> None:
    """It would do a part of what it says."""
    before = [await kept(connection, person) for person in (ADA, BOB)]
    async with Database(roles.url("serve"), settings=GUARDED) as database:
        services = Services.on(database)
        for name, call in EVERYBODYS.items():
            with adkpg.scope(**whole(ADA)), pytest.raises(ScopeMissing):
                await call(services)
            if name == "table_sizes":
                continue  # the server's own catalog, which Postgres shows each role
            with adkpg.every_scope(), pytest.raises(PermissionDenied, match="db grants"):
                await call(services)
    assert [await kept(connection, person) for person in (ADA, BOB)] == before


async def test_workers_and_operators_reach_everybody(
    furnished: Services, roles: Roles, connection: asyncpg.Connection
) -> None:
    async with Database(roles.url("work"), settings=GUARDED) as database:
        services = Services.on(database)
        with adkpg.every_scope():
            for call in EVERYBODYS.values():
                await call(services)
            listed = await services.sessions.list_sessions(app_name=APP)
            assert {session.user_id for session in listed.sessions} == {"ada", "bob"}
            stop = asyncio.Event()
            stop.set()
            assert await services.memory.run_worker(stop) == 0
            for person in (ADA, BOB):
                await adkpg.erasure.forget(database, **whole(person))
        left = [set((await kept(connection, person)).values()) for person in (ADA, BOB)]
        assert left == [{None}, {None}]


async def test_ones_own_calls_answer_as_without_row_level_security(
    server: Any, connection: asyncpg.Connection, furnished: Services, database_url: str
) -> None:
    """Of what is one's own nothing is hidden, and no statement fails in its scope."""
    plain = await told_by(Database(database_url), furnished)
    name = await server.create(template=server.template)
    url = server.url_of(name)
    try:
        own = await asyncpg.connect(url)
        await own.execute("SET search_path = adkpg, public")
        async with Database(url) as database:
            again = Services.on(database)
            await furnish(again, own, ADA, BOB)
        async with guarded_roles(url) as roles:
            guarded = await told_by(Database(roles.url("serve"), settings=GUARDED), again)
        await own.close()
    finally:
        await server.drop(name)
    assert guarded == plain
    assert plain["PgVectorMemoryService.get_memory"][1] == 1


async def told_by(opened: Database, furnished: Services) -> dict[str, tuple[str, int]]:
    """What each call answered, but for what is random, and how often it told the secret."""
    answers = {}
    async with opened as database:
        services = Services.on(database, furnished.live)
        with adkpg.scope(**whole(ADA)):
            for name, call in CALLS.items():
                answer = repr(await call(services, whole(ADA), ADA))
                answers[name] = (
                    re.sub(r"datetime\([^)]*\)|[0-9a-f-]{16,}|[\d.:+TZ-]{6,}", "#", answer),
                    answer.count(ADA.secret),
                )
    return answers
