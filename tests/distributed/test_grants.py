"""The rights that `adkpg db grants` prints, given on the coordinator, hold on every node."""

from collections.abc import AsyncIterator

import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.database.grants import Purpose, script
from tests.fakes.citus import CitusServer
from tests.fakes.conversation import USER
from tests.fakes.roles import Roles

pytestmark = pytest.mark.cluster

PURPOSES: tuple[Purpose, ...] = ("serve", "read", "work")


@pytest.fixture
async def roles(database_url: str) -> AsyncIterator[Roles]:
    made = Roles(database_url)
    await made.create(*PURPOSES)
    yield made
    await made.drop()


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "in a transaction"])
async def test_a_script_runs_as_often_as_one_likes_and_its_role_serves_from_every_node(
    cluster: CitusServer, database_url: str, roles: Roles, at_once: bool
) -> None:
    for purpose in (*PURPOSES, *PURPOSES):
        sql = script("adkpg", purpose, roles.name(purpose))
        await roles.execute([sql] if at_once else sql.splitlines())
    for purpose in PURPOSES:
        place = roles.url(purpose)
        for url in await cluster.nodes_of(place.rpartition("/")[2]):
            own = url.replace(database_url.partition("@")[0], place.partition("@")[0])
            async with Database(own) as database:
                sessions = DatabaseSessionService(database)
                if purpose != "read":
                    await sessions.create_session(**USER)
                assert (await sessions.list_sessions(app_name="app")).sessions
