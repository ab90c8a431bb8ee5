"""BEGIN, COMMIT and ROLLBACK that meet the command's timeout, since the network stalls."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.erasure import statements
from adkpg.errors import DatabaseUnavailable
from adkpg.keys import SessionKey
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER
from tests.fakes.proxy import Proxy

pytestmark = [pytest.mark.fault, pytest.mark.usefixtures("impatient")]


@pytest.fixture
async def own(proxy: Proxy) -> AsyncIterator[Database]:
    async with Database(proxy.url, settings=Settings(command_timeout_s=0.3)) as opened:
        yield opened
        proxy.cut()


class Boom(Exception):
    pass


@pytest.mark.parametrize("stalled", ["begin", "commit", "rollback"])
async def test_nobody_is_given_a_connection_inside_its_transaction(
    own: Database, proxy: Proxy, database_url: str, stalled: str
) -> None:
    service = DatabaseSessionService(own)
    ana = await service.create_session(**USER, session_id="ana")
    bob = await service.create_session(**USER, session_id="bob")
    place: SessionKey = {
        "app_name": ana.app_name,
        "user_id": ana.user_id,
        "session_id": ana.id,
    }

    async def delete() -> None:
        if stalled == "begin":
            proxy.forget(silently=True)
        async with own.run.transaction() as transaction:
            await transaction.fetch(statements.delete_session(**place))
            if stalled != "begin":
                proxy.forget(silently=True)
            if stalled == "rollback":
                raise Boom

    if stalled == "begin":  # another connection is begun on
        await delete()
    else:
        with pytest.raises(DatabaseUnavailable) as caught:
            await delete()
        assert caught.value.written is (None if stalled == "commit" else False)
    for text in ("one", "two"):
        await service.append_event(bob, said(text))
    connection = await asyncpg.connect(database_url)
    counted = await connection.fetchval("SELECT count(*) FROM adkpg.events")
    await connection.close()
    assert counted == 2
