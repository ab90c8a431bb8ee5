"""Faults that pass: callers hear nothing of them, within the time that calls are repeated for."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.embedded import EmbeddedServer
from adkpg.errors import Busy, DatabaseUnavailable, ReadOnly
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.locks import locked
from tests.fakes.proxy import Proxy

pytestmark = pytest.mark.fault

WRITERS = 8
KILLS = 4


@pytest.fixture
def durable_server(own_directory: Path) -> Iterator[EmbeddedServer]:
    """A server that keeps what it acknowledged, unlike the quick ones of most tests."""
    with EmbeddedServer(own_directory) as server:
        yield server


async def test_a_server_that_is_killed_again_and_again(
    durable_server: EmbeddedServer, own_directory: Path
) -> None:
    """Nobody hears an error, nothing is lost or stored twice, live objects equal storage."""
    url, ended = durable_server.url, asyncio.Event()
    told: dict[str, list[str]] = {}

    async def write(service: DatabaseSessionService, session: Session) -> None:
        while not ended.is_set():
            number = len(told[session.id])
            await service.append_event(session, said(f"{number}", state={"n": number}))
            told[session.id].append(f"{number}")

    async def until_each_has(more: int) -> None:
        wanted = {name: len(texts) + more for name, texts in told.items()}
        while any(len(told[name]) < count for name, count in wanted.items()):
            await asyncio.sleep(0.01)

    async with DatabaseSessionService(url, auto_upgrade=True, remember=True) as service:
        live = [await service.create_session(**USER) for _ in range(WRITERS)]
        told.update((session.id, []) for session in live)
        async with asyncio.timeout(240), asyncio.TaskGroup() as group:
            for session in live:
                group.create_task(write(service, session))
            for _ in range(KILLS):
                await until_each_has(5)
                pid = int((own_directory / "pgdata" / "postmaster.pid").read_text().split()[0])
                os.kill(pid, signal.SIGKILL)
                await asyncio.to_thread(durable_server.start)
            await until_each_has(5)
            ended.set()
        for session in live:
            stored = await service.get_session(**USER, session_id=session.id)
            assert stored == session
            assert texts(stored) == told[session.id]
        memory = PgVectorMemoryService(service.database, mode="text")
        assert await memory.count_memories(**USER) == sum(map(len, told.values()))


async def test_a_server_that_is_away_for_too_long(own_server: EmbeddedServer) -> None:
    settings = Settings(retry_timeout_s=0.3)
    async with Database(own_server.url, auto_upgrade=True, settings=settings) as database:
        service = DatabaseSessionService(database)
        session = await service.create_session(**USER)
        await asyncio.to_thread(own_server.stop)
        with pytest.raises(DatabaseUnavailable, match="cannot be reached") as caught:
            await service.append_event(session, said("x"))
        assert caught.value.written is False
        assert session.events == []


async def test_a_role_without_a_free_connection(database_url: str) -> None:
    """The server refuses a connection (53300) until another one ends."""
    admin = await asyncpg.connect(database_url)
    name = await admin.fetchval("SELECT current_database()")
    role = f"narrow_{name[-12:]}"
    await admin.execute(
        f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1; GRANT USAGE ON SCHEMA adkpg TO {role};"
        f" GRANT ALL ON ALL TABLES IN SCHEMA adkpg TO {role}"
    )
    url = database_url.replace("postgres@", f"{role}@")
    asked = 0

    async def password() -> str:
        nonlocal asked
        asked += 1
        if asked == 3:
            await only.close()
        return ""

    try:
        only = await asyncpg.connect(url)
        async with Database(url, password=password) as database:
            service = DatabaseSessionService(database)
            assert await service.create_session(**USER) is not None
        assert asked >= 3
    finally:
        await admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
        await admin.close()


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03", "57P01", "08006"])
async def test_what_passes_after_some_tries(
    connection: asyncpg.Connection, sessions: DatabaseSessionService, state: str
) -> None:
    session = await sessions.create_session(**USER)
    await connection.execute(
        "CREATE SEQUENCE public.tries; CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF nextval('public.tries') < 4 THEN"
        f" RAISE EXCEPTION 'not now' USING ERRCODE = '{state}'; END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON adkpg.events"
        " FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    await sessions.append_event(session, said("x"))
    assert texts(await sessions.get_session(**USER, session_id=session.id)) == ["x"]
    assert await connection.fetchval("SELECT nextval('public.tries')") == 5


async def test_a_lock_that_the_server_waits_for_too_shortly(
    connection: asyncpg.Connection, database_url: str
) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE \"{name}\" SET lock_timeout = '10ms'")
    async with DatabaseSessionService(database_url) as service:
        session = await service.create_session(**USER)
        async with locked(database_url) as lock:
            call = asyncio.ensure_future(service.append_event(session, said("x")))
            await lock.until_blocked(1)
            await lock.until_unblocked()
            await lock.until_blocked(1)  # it is repeated
        await call
    assert texts(session) == ["x"]


async def test_a_race_for_which_there_is_no_time(
    connection: asyncpg.Connection, database_url: str
) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE \"{name}\" SET lock_timeout = '10ms'")
    async with Database(database_url, settings=Settings(retry_timeout_s=0.3)) as database:
        service = DatabaseSessionService(database)
        session = await service.create_session(**USER)
        async with locked(database_url):
            with pytest.raises(Busy, match="held a lock for too long") as caught:
                await service.append_event(session, said("x"))
        assert caught.value.written is False


async def test_a_new_session_whose_answer_was_lost_is_there_once(proxy: Proxy) -> None:
    async with DatabaseSessionService(proxy.url) as service:
        await service.create_session(**USER, session_id="a")
        proxy.lose_answers = 1
        made = await service.create_session(**USER, session_id="b", state={"user:n": 1, "k": 2})
        assert made == await service.get_session(**USER, session_id="b")
        assert made.state == {"user:n": 1, "k": 2}
        await service.append_event(made, said("x"))


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
async def test_stricter_defaults_of_the_server(
    connection: asyncpg.Connection, database_url: str, level: str
) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(
        f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = '{level}'"
    )
    async with DatabaseSessionService(database_url) as service:
        creates = (service.create_session(**USER, state={"app:n": n}) for n in range(16))
        assert len(await asyncio.gather(*creates)) == 16


@pytest.mark.prepared
async def test_a_standby_that_is_the_only_host_is_told_of_immediately(
    connection: asyncpg.Connection, database_url: str
) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    asked = 0

    def password() -> str:
        nonlocal asked
        asked += 1
        return ""

    async with Database(database_url, password=password) as database:
        with pytest.raises(ReadOnly, match="standby"):
            await DatabaseSessionService(database).create_session(**USER)
    assert asked == 1
