"""Connections that end: in mid-append, while idle, with the server, or that never begin."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.database.address import parse
from adkpg.embedded import EmbeddedServer
from adkpg.errors import (
    AdkpgError,
    Busy,
    ConfigurationError,
    DatabaseError,
    DatabaseUnavailable,
)
from adkpg.tooling.testing import said, texts
from adkpg.tooling.testing.server import Server
from tests.fakes.conversation import USER
from tests.fakes.locks import locked
from tests.fakes.proxy import Proxy

pytestmark = [pytest.mark.fault, pytest.mark.usefixtures("impatient")]

PASSWORD = "s3cr%t@/:pa55"


async def test_an_append_cut_in_the_middle_is_repeated(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    session = await sessions.create_session(**USER, state={"n": 0})
    event = said("x", state={"n": 1, "user:n": 1, "temp:n": 1})
    async with locked(database_url) as lock:
        call = asyncio.ensure_future(sessions.append_event(session, event))
        for _ in range(2):  # the first time it is sent again
            (pid,) = await lock.until_blocked(1)
            await lock.cut(pid)
        with pytest.raises(DatabaseUnavailable):
            await call
    assert (session.events, session.state) == ([], {"n": 0, "temp:n": 1})
    stored = await sessions.get_session(**USER, session_id=session.id)
    assert (texts(stored), await sessions.get_user_state(**USER)) == ([], {})
    await sessions.append_event(session, event)
    assert session.state == {"n": 1, "user:n": 1, "temp:n": 1}
    await sessions.append_event(session, said("y"))
    assert texts(await sessions.get_session(**USER, session_id=session.id)) == ["x", "y"]


async def test_connections_cut_while_idle_cost_nothing(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    session = await sessions.create_session(**USER)
    for number in range(3):
        copies = [session.model_copy(deep=True) for _ in range(4)]
        await asyncio.gather(*(sessions.get_user_state(**USER) for _ in copies))
        connection = await asyncpg.connect(database_url)
        await connection.execute(
            "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        await connection.close()
        await sessions.append_event(session, said(str(number)))
    assert texts(await sessions.get_session(**USER, session_id=session.id)) == ["0", "1", "2"]


async def test_a_farewell_to_an_idle_connection_costs_nothing(
    proxy: Proxy, database_url: str
) -> None:
    other = await asyncpg.connect(database_url)
    async with DatabaseSessionService(proxy.url) as service:
        session = await service.create_session(**USER)
        proxy.say(b"E\x00\x00\x00\x13SFATAL\x00C57P02\x00\x00")
        await other.fetchval("SELECT 1")  # meanwhile the message arrives, but no end of the stream
        await service.append_event(session, said("x"))
        assert texts(await service.get_session(**USER, session_id=session.id)) == ["x"]
    await other.close()


@pytest.mark.direct("the pooler has words of its own for a database that is gone")
async def test_a_pool_that_can_open_no_more_connections_says_why(
    empty_database_url: str, server: Server
) -> None:
    async with DatabaseSessionService(empty_database_url, auto_upgrade=True) as service:
        session = await service.create_session(**USER)
        await server.drop(parse(empty_database_url).dsn.partition("?")[0].rpartition("/")[2])
        with pytest.raises(DatabaseUnavailable):  # the connection that was cut, or none any more
            await service.append_event(session, said("x"))
        with pytest.raises(DatabaseUnavailable, match="no such database"):
            await service.append_event(session, said("x"))


async def test_a_server_that_restarts(own_server: EmbeddedServer) -> None:
    async with DatabaseSessionService(own_server.url, auto_upgrade=True) as service:
        session = await service.create_session(**USER)
        await service.append_event(session, said("before"))
        await asyncio.to_thread(own_server.stop)
        event = said("during")
        with pytest.raises(DatabaseUnavailable, match="cannot be reached"):
            await service.append_event(session, event)
        assert texts(session) == ["before"]
        await asyncio.to_thread(own_server.start)
        await service.append_event(session, event)
        assert texts(await service.get_session(**USER, session_id=session.id)) == [
            "before",
            "during",
        ]


async def test_an_exhausted_pool_says_which_knobs_to_turn(database_url: str) -> None:
    async with Database(database_url, pool_size=1, max_overflow=0, pool_timeout=0.05) as database:
        service = DatabaseSessionService(database)
        session = await service.create_session(**USER)
        async with database.run.transaction():
            with pytest.raises(Busy, match="ADKPG_POOL_SIZE") as caught:
                await service.append_event(session, said("x"))
        assert session.events == []
        assert caught.value.written is False
        await service.append_event(session, said("y"))


async def _refused(url: str) -> DatabaseError:
    async with DatabaseSessionService(url) as service:
        with pytest.raises(DatabaseError) as caught:
            await service.create_session(**USER)
    return caught.value


def _everything_said(error: BaseException | None) -> str:
    """Returns an error's text with those of all its causes."""
    said = ""
    while error is not None:
        said += f"{error} {error!r} "
        error = error.__cause__ or error.__context__
    return said


@pytest.mark.parametrize("location", ["127.0.0.1:1/d", "/d?host=/nowhere", "nowhere.invalid/d"])
async def test_a_server_that_is_not_there(location: str) -> None:
    error = await _refused(f"postgresql://u:pa55w0rd@{location}")
    assert isinstance(error, DatabaseUnavailable)
    assert "cannot be reached" in str(error)
    assert "pa55w0rd" not in _everything_said(error)


@pytest.mark.direct("the pooler has words of its own for a database that is not there")
async def test_a_database_that_is_not_there(database_url: str) -> None:
    head, _, query = database_url.partition("?")
    error = await _refused(head.rsplit("/", 1)[0] + f"/nowhere?{query}")
    assert isinstance(error, DatabaseUnavailable)
    assert "does not exist" in str(error)


async def test_a_server_without_tls_that_is_asked_for_it(proxy: Proxy) -> None:
    mark = "&" if "?" in proxy.url else "?"
    error = await _refused(f"{proxy.url}{mark}sslmode=require&connect_timeout=5")
    assert isinstance(error, DatabaseUnavailable)
    assert "could not agree on TLS" in str(error)
    assert "sslmode" in str(error)


@pytest.mark.direct("a pooler has words of its own for it")
async def test_an_option_that_neither_driver_nor_server_knows_is_named(database_url: str) -> None:
    mark = "&" if "?" in database_url else "?"
    with pytest.raises(ConfigurationError, match=r"sslmod"):
        await DatabaseSessionService(f"{database_url}{mark}sslmod=require").list_sessions(
            app_name="app"
        )


async def test_passwords(own_server: EmbeddedServer, own_directory: Path) -> None:
    """A server that asks for passwords: wrong, right with odd characters, and by a function."""
    connection = await asyncpg.connect(own_server.url)
    await connection.execute(f"CREATE ROLE guarded LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    rules = own_directory / "pgdata" / "pg_hba.conf"
    rules.write_text("local all guarded scram-sha-256\n" + rules.read_text())
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()
    url = own_server.url.replace("postgres@", "guarded{}@")

    error = await _refused(url.format(":wr0ng"))
    assert isinstance(error, DatabaseUnavailable)
    assert "refused the user or password" in str(error)
    assert "guarded" in str(error)
    assert "written %40 %2F %3A %25" in str(error)
    assert "wr0ng" not in _everything_said(error)
    without = str(await _refused(url.format("")))
    assert "refused" in without
    assert "%40" not in without

    with pytest.raises(ConfigurationError, match="/nowhere/pgpass that passfile names"):
        await DatabaseSessionService(url.format("") + "&passfile=/nowhere/pgpass").list_sessions(
            app_name="app"
        )

    asked = []

    async def password() -> str:
        asked.append(1)
        return PASSWORD if len(asked) % 2 == 0 else "a token that has just expired"

    quoted = "s3cr%25t%40%2F%3Apa55"
    for database in (
        Database(url.format(f":{quoted}"), auto_upgrade=True),
        Database(url.format(""), password=PASSWORD),
        Database(url.format(""), password=lambda: PASSWORD),
        Database(url.format(""), password=password),
    ):
        async with database:
            assert await DatabaseSessionService(database).get_user_state(**USER) == {}
            await database.upgrade()
            await database.check()
            assert PASSWORD not in repr(database)
    assert asked


async def test_a_statement_that_takes_too_long(database_url: str) -> None:
    mark = "&" if "?" in database_url else "?"
    async with DatabaseSessionService(f"{database_url}{mark}command_timeout=0.2") as service:
        session = await service.create_session(**USER)
        event = said("x")
        async with locked(database_url):
            with pytest.raises(DatabaseUnavailable, match="ADKPG_COMMAND_TIMEOUT_S") as caught:
                await service.append_event(session, event)
        assert isinstance(caught.value, AdkpgError)
        assert session.events == []
        await service.append_event(session, event)
        await service.append_event(session, said("y"))
        assert texts(await service.get_session(**USER, session_id=session.id)) == ["x", "y"]
