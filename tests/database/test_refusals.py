"""What the server refuses for a while: each reason has an error that says so and may be retried."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from adkpg import DatabaseSessionService
from adkpg.errors import Busy, DiskFull, ReadOnly, RetryableError
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.locks import locked
from tests.fakes.proxy import Proxy

pytestmark = [pytest.mark.fault, pytest.mark.usefixtures("impatient")]


@pytest.fixture
async def admin(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def _alter(admin: asyncpg.Connection, setting: str) -> None:
    name = await admin.fetchval("SELECT current_database()")
    await admin.execute(f'ALTER DATABASE "{name}" SET {setting}')


@pytest.mark.parametrize("setting", ["statement_timeout = '200ms'", "lock_timeout = '200ms'"])
async def test_a_timeout_of_the_server(
    admin: asyncpg.Connection, database_url: str, setting: str
) -> None:
    await _alter(admin, setting)
    async with DatabaseSessionService(database_url) as service:
        session = await service.create_session(**USER)
        event = said("x")
        async with locked(database_url, "LOCK adkpg.events"):
            with pytest.raises(Busy, match="nothing was written") as caught:
                await service.append_event(session, event)
        assert caught.value.written is False
        await service.append_event(session, event)
        assert texts(session) == ["x"]


@pytest.mark.direct("the pooler's connections began before the setting")
async def test_a_server_that_takes_no_writes(admin: asyncpg.Connection, database_url: str) -> None:
    async with DatabaseSessionService(database_url) as service:
        session = await service.create_session(**USER)
    await _alter(admin, "default_transaction_read_only = on")
    async with DatabaseSessionService(database_url) as service:
        with pytest.raises(ReadOnly, match="standby") as caught:
            await service.append_event(session, said("x"))
        assert caught.value.written is False
        assert await service.get_session(**USER, session_id=session.id) is not None


@pytest.mark.parametrize(
    ("state", "error"),
    [("53100", DiskFull), ("40P01", Busy), ("40001", Busy), ("53200", Busy)],
)
async def test_what_a_server_cannot_do_now(
    admin: asyncpg.Connection,
    sessions: DatabaseSessionService,
    state: str,
    error: type[RetryableError],
) -> None:
    session = await sessions.create_session(**USER)
    await admin.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '{state}'; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON adkpg.events EXECUTE FUNCTION refuse()"
    )
    with pytest.raises(error, match="not now") as caught:
        await sessions.append_event(session, said("x"))
    assert caught.value.written is False
    await admin.execute("DROP TRIGGER refuse ON adkpg.events")
    await sessions.append_event(session, said("x"))


@pytest.mark.prepared
async def test_a_lost_answer_leaves_open_what_was_written(proxy: Proxy) -> None:
    async with DatabaseSessionService(proxy.url) as service:
        await service.create_session(**USER, session_id="a")
        proxy.lose_answers = 2
        with pytest.raises(RetryableError) as caught:
            await service.create_session(**USER, session_id="b")
        assert caught.value.written is None
        assert await service.get_session(**USER, session_id="b") is not None
