"""Read URLs that lead nowhere, or elsewhere: the caller sees nothing of it, and operators all."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from sqlalchemy.engine import make_url

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.tooling.operations import Finding, examine
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER, found, remember_apart
from tests.fakes.replicated import PAUSE_S, Replicated
from tests.fakes.replication import until
from tests.fakes.roles import PASSWORD, guarded_roles

pytestmark = pytest.mark.fault

PLACE = {**USER, "session_id": "s"}
TIMEOUT_S = 1.0
SETTINGS = Settings.model_validate({"read_lag_s": 600, "read_timeout_s": TIMEOUT_S})
LOGGER = "adkpg.database.replicas.standby"


def as_role(url: str, role: str, password: str | None = None) -> str:
    given = make_url(url).set(username=role, password=password)
    return given.render_as_string(hide_password=False)


@asynccontextmanager
async def a_wrong_password(both: Replicated) -> AsyncIterator[str]:
    """The standby asks for passwords of this role alone."""
    role = f"{both.name}_p"
    await both.pair.primary.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'right'")
    await both.caught_up()
    async with both.pair.standby.asking_passwords(role):
        yield as_role(both.standby_url, role, "not-right")


@asynccontextmanager
async def no_rights(both: Replicated) -> AsyncIterator[str]:
    role = f"{both.name}_r"
    await both.pair.primary.execute(f"CREATE ROLE {role} LOGIN")
    await both.caught_up()
    yield as_role(both.standby_url, role)


@asynccontextmanager
async def held_back_by_policies(both: Replicated) -> AsyncIterator[str]:
    """The tables have row-level security, and this process, whose own role passes it, no scope."""
    async with guarded_roles(both.primary_url) as roles:
        await both.caught_up()
        yield as_role(both.standby_url, roles.name("read"), PASSWORD)


@asynccontextmanager
async def no_such_database(both: Replicated) -> AsyncIterator[str]:
    yield both.pair.standby.url_of("nowhere")


@asynccontextmanager
async def another_database(both: Replicated) -> AsyncIterator[str]:
    """It has tables of this version."""
    name = f"{both.name}_o"
    await both.pair.primary.execute(f"CREATE DATABASE {name}")
    async with Database(both.pair.primary.url_of(name)) as other:
        await other.upgrade()
    await both.caught_up()
    yield both.pair.standby.url_of(name)


@asynccontextmanager
async def no_pgvector(both: Replicated) -> AsyncIterator[str]:
    name = f"{both.name}_v"
    await both.pair.primary.execute(f"CREATE DATABASE {name}")
    await both.caught_up()
    yield both.pair.standby.url_of(name)


@asynccontextmanager
async def another_revision(both: Replicated) -> AsyncIterator[str]:
    """The primary was migrated, and replay has not come so far."""
    sql = "UPDATE adkpg.adkpg_version SET version_num = '{}'"
    expected = await both.value("SELECT version_num FROM adkpg.adkpg_version")
    await both.pair.primary.execute_in(both.name, sql.format("older"))
    await both.pause()
    await both.pair.primary.execute_in(both.name, sql.format(expected))
    yield both.standby_url
    await both.resume()


@asynccontextmanager
async def no_answer(both: Replicated) -> AsyncIterator[str]:
    """Connections are taken, and nothing is ever said."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 16):
            pass
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield f"postgresql://postgres@127.0.0.1:{port}/{both.name}"
    server.close()


@asynccontextmanager
async def the_primary_itself(both: Replicated) -> AsyncIterator[str]:
    yield both.primary_url


WRONG: dict[Callable[[Replicated], AbstractAsyncContextManager[str]], tuple[str, str, str]] = {
    a_wrong_password: ("password authentication failed", "failure", "password authentication"),
    no_rights: ("has no right to do this", "failure", "has no right to do this"),
    held_back_by_policies: ("no scope was entered", "failure", "row-level security for the role"),
    no_such_database: ("has no such database", "failure", "has no such database"),
    another_database: ("is another database than", "failure", "is another database than"),
    no_pgvector: ("no tables that this version can read", "failure", "is another database than"),
    another_revision: ("no tables that this version can read", "warning", "older"),
    no_answer: ("did not answer in time", "failure", "did not answer in time"),
}
"""What is logged once, and the doctor's finding."""


async def said_by_doctor(database: Database) -> Finding:
    findings = (await examine(database)).findings
    return next(each for each in findings if each.check == "replica")


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
async def test_callers_see_nothing_of_a_wrong_read_url_and_operators_do(
    both: Replicated,
    caplog: pytest.LogCaptureFixture,
    wrong: Callable[[Replicated], AbstractAsyncContextManager[str]],
) -> None:
    logged, status, detail = WRONG[wrong]
    caplog.set_level(logging.INFO, logger=LOGGER)
    async with (
        wrong(both) as read_url,
        Database(both.primary.url, read_url=read_url, settings=SETTINGS) as database,
    ):
        service, memory = DatabaseSessionService(database), PgVectorMemoryService(database)
        live = await service.create_session(**PLACE)
        await service.append_event(live, said("one"))
        await remember_apart(memory, "I like plums")
        await asyncio.sleep(PAUSE_S)
        assert database.run.replica is not None
        breaker = database.run.replica.standby.health._breaker

        async def tried_again() -> bool:
            session = await service.get_session(**PLACE)
            assert session is not None
            assert texts(session) == ["one"]
            assert await found(memory, "plums") == ["I like plums"]
            return breaker._openings >= 2

        await until(tried_again)
        finding = await said_by_doctor(database)
    messages = [each.getMessage() for each in caplog.records if each.name == LOGGER]
    (message,) = messages
    assert logged in message
    assert "not-right" not in caplog.text
    assert (finding.status, detail in finding.detail) == (status, True), finding


async def test_the_primary_itself_is_read_and_the_doctor_says_that_it_helps_nobody(
    both: Replicated, caplog: pytest.LogCaptureFixture
) -> None:
    async with Database(both.primary.url, read_url=both.primary_url, settings=SETTINGS) as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        for number in range(3):
            await service.append_event(live, said(str(number)))
            await asyncio.sleep(PAUSE_S)
            assert await service.get_session(**PLACE) == live
        finding = await said_by_doctor(database)
    assert (finding.status, "is the primary itself" in finding.detail) == ("warning", True)
    assert not [each for each in caplog.records if each.name == LOGGER]
