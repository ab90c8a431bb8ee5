"""A server that went away comes back for those who use it."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.embedded.postmaster import Postmaster
from adkpg.errors import EmbeddedServerError
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER

pytestmark = [pytest.mark.fault, pytest.mark.program]


def database_at(place: Path) -> Database:
    return Database("embedded", settings=Settings(embedded_dir=place))


def postmaster(place: Path) -> Postmaster:
    running = Postmaster.of(place / "pgdata")
    assert running is not None
    return running


async def gone(place: Path) -> None:
    async with asyncio.timeout(30):
        while Postmaster.of(place / "pgdata") is not None:
            await asyncio.sleep(0.01)


def starts(place: Path) -> int:
    return (place / "server.log").read_text().count("starting PostgreSQL")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGQUIT])
async def test_calls_of_all_who_use_it_go_on_after_its_death(
    place: Path, how: signal.Signals
) -> None:
    async with database_at(place) as one, database_at(place) as other:
        services = [DatabaseSessionService(database) for database in (one, other)]
        sessions = [await services[n % 2].create_session(**USER) for n in range(8)]
        for round_ in ("before", "after"):
            before = starts(place)
            await asyncio.gather(
                *(
                    services[n % 2].append_event(session, said(f"{round_} {n}"))
                    for n, session in enumerate(sessions)
                )
            )
            # What is left of a killed server may serve a moment longer.
            assert starts(place) - before <= 1, "one start serves them all"
            os.kill(postmaster(place).pid, how)
            await gone(place)
        for n, session in enumerate(sessions):
            found = await services[n % 2].get_session(**USER, session_id=session.id)
            assert texts(found) == [f"before {n}", f"after {n}"]
        assert starts(place) > 1
    assert Postmaster.of(place / "pgdata") is None, "it leaves with the last of them"


async def test_a_server_that_waits_for_its_clients_to_leave_is_started_anew(place: Path) -> None:
    async with database_at(place) as database, database_at(place) as other:
        sessions = DatabaseSessionService(database)
        session = await sessions.create_session(**USER)
        os.kill(postmaster(place).pid, signal.SIGTERM)  # it takes no new client
        async with asyncio.timeout(30):
            while postmaster(place).status != "stopping":
                await asyncio.sleep(0.01)
        await DatabaseSessionService(other).create_session(**USER)
        await sessions.append_event(session, said("goes on"))


async def test_a_server_whose_socket_is_gone_is_started_anew(place: Path) -> None:
    async with database_at(place) as database:
        session = await DatabaseSessionService(database).create_session(**USER)
        (place / "run" / ".s.PGSQL.5432").unlink()
        async with database_at(place) as other:
            found = await DatabaseSessionService(other).get_session(**USER, session_id=session.id)
            assert found is not None


async def test_a_server_whose_data_are_gone_is_not_begun_anew(place: Path) -> None:
    async with database_at(place) as database:
        sessions = DatabaseSessionService(database)
        session = await sessions.create_session(**USER)
        os.kill(postmaster(place).pid, signal.SIGKILL)
        shutil.rmtree(place / "pgdata")
        with pytest.raises(EmbeddedServerError, match="are gone"):
            await sessions.append_event(session, said("lost"))


async def test_a_closed_database_leaves_its_server_away(place: Path) -> None:
    database = database_at(place)
    await DatabaseSessionService(database).create_session(**USER)
    await database.close()
    assert Postmaster.of(place / "pgdata") is None
