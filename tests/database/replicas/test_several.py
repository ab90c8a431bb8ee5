"""Several standbys behind one address, and servers there that do not follow the primary."""

import asyncio
import random
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from google.adk.sessions.session import Session
from sqlalchemy import NullPool

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.tooling.operations import examine
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.histories import Load, checked, more, read_at, running
from tests.fakes.proxy import Proxy
from tests.fakes.replicated import PAUSE_S
from tests.fakes.replication import Pair, replicated, until
from tests.fakes.rotation import Rotation
from tests.fakes.telemetry import Watched, keep_in_memory

pytestmark = pytest.mark.fault

PLACE = {**USER, "session_id": "s"}
SETTINGS = Settings(read_lag_s=600, retry_timeout_s=20)


@pytest.fixture
async def trio() -> AsyncIterator[Pair]:
    async with replicated(synchronous=False, standbys=2) as pair:
        async with Database(pair.primary.url) as database:
            await database.upgrade()
        await pair.standby.caught_up(pair.primary)
        await pair.second.caught_up(pair.primary)
        yield pair


def reader(url: str, read_url: str) -> Database:
    """Each read takes a connection of its own, so standbys take turns."""
    return Database(url, read_url=read_url, settings=SETTINGS, poolclass=NullPool)


async def get(service: DatabaseSessionService) -> Session:
    session = await service.get_session(**PLACE)
    assert session is not None
    return session


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_standbys_that_take_turns_never_go_back_while_one_of_them_stops(
    trio: Pair, elsewhere: bool
) -> None:
    """The writers are of this process, or of another one, of which the standbys tell meanwhile."""
    keep_in_memory()
    watched = Watched()
    async with (
        Rotation(trio.standby.url, trio.second.url) as rotation,
        reader(trio.primary.url, rotation.url) as database,
        Database(trio.primary.url) as theirs,
    ):
        # What is new all the time is read on the primary, since no look began after it.
        load = Load(database, theirs if elsewhere else None, longest_pause_s=0.5)
        async with running(load):
            for node in (trio.second, trio.standby):
                await more(load, 4)
                await node.execute("SELECT pg_wal_replay_pause()")
                await more(load, 4)
                if elsewhere:
                    await read_at(rotation.url, watched)
                await node.execute("SELECT pg_wal_replay_resume()")
            await trio.second.kill()
            await more(load, 4)
            await trio.second.start()
            await more(load, 4)
        assert await checked(load, trio.primary.url) == load.acknowledged


async def test_what_one_standby_has_shown_another_one_shows_too_whatever_is_read(
    trio: Pair,
) -> None:
    """Another process writes, and one of two standbys stands still."""
    async with (
        Rotation(trio.standby.url, trio.second.url) as rotation,
        reader(trio.primary.url, rotation.url) as database,
        Database(trio.primary.url) as theirs,
    ):
        service, others = DatabaseSessionService(database), DatabaseSessionService(theirs)
        live = await others.create_session(**PLACE)
        await others.append_event(live, said("0", state={"user:n": 0}))
        for node in (trio.standby, trio.second):
            await node.caught_up(trio.primary)
        await trio.second.execute("SELECT pg_wal_replay_pause()")

        async def by_get() -> int:
            return len((await get(service)).events)

        async def by_state() -> int:
            return int((await get(service)).state["user:n"]) + 1

        async def by_list() -> int:
            (session,) = (await service.list_sessions(**USER)).sessions
            return int(session.state["user:n"]) + 1

        async def by_list_of_app() -> int:
            (session,) = (await service.list_sessions(app_name="app")).sessions
            return int(session.state["user:n"]) + 1

        async def by_page() -> int:
            return len((await service.list_events_page(**PLACE)).items)

        async def by_search() -> int:
            return len((await service.search_events(**USER, query="q")).items) + 1

        async def by_user_state() -> int:
            return int((await service.get_user_state(**USER))["n"]) + 1

        reads = [by_get, by_state, by_list, by_list_of_app, by_page, by_search, by_user_state]
        shown = 1
        for number in range(1, 6):
            await others.append_event(live, said(f"q{number}", state={"user:n": number}))
            await trio.standby.caught_up(trio.primary)
            for read in random.sample(reads, len(reads)):
                await asyncio.sleep(PAUSE_S)
                now = await read()
                assert now >= shown, f"{read.__name__} went back from {shown} to {now}"
                shown = now
        await trio.second.execute("SELECT pg_wal_replay_resume()")


async def test_a_session_of_several_round_trips_is_of_one_moment_or_the_primarys(
    trio: Pair,
) -> None:
    """The standbys take turns within it, and one has less."""
    async with (
        Rotation(trio.standby.url, trio.second.url) as rotation,
        Database(trio.primary.url) as theirs,
    ):
        others = DatabaseSessionService(theirs)
        live = await others.create_session(**PLACE)
        expected: list[str | None] = []
        for number in range(10):
            if number == 7:
                for node in (trio.standby, trio.second):
                    await node.caught_up(trio.primary)
                await trio.second.execute("SELECT pg_wal_replay_pause()")
            expected.append(random.randbytes(800_000).hex())  # which nothing makes small
            await others.append_event(live, said(expected[-1] or ""))
        await trio.standby.caught_up(trio.primary)
        for _ in range(4):
            async with reader(trio.primary.url, rotation.url) as database:
                service = DatabaseSessionService(database)
                read = texts(await get(service))
                assert read == expected[: len(read)]
                assert len(read) >= 7
        await trio.second.execute("SELECT pg_wal_replay_resume()")


async def test_of_several_hosts_a_standby_that_is_there_answers(
    trio: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "read-write")  # meant for the primary
    for hosts in (f"{trio.standby.host},{trio.second.host}", trio.second.host):
        async with Database(
            trio.primary.url, read_url=f"postgresql://postgres@{hosts}/postgres", settings=SETTINGS
        ) as database:
            service = DatabaseSessionService(database)
            await service.create_session(**PLACE)
            assert database.standby is not None
            engine = await database.standby.connections.engine()
            async with engine.connect() as connection:
                answer = await connection.exec_driver_sql("SELECT pg_is_in_recovery()")
                assert answer.scalar_one() is True
            await service.delete_session(**PLACE)


async def test_a_server_of_another_cluster_among_them_is_never_read(trio: Pair) -> None:
    stranger = trio.second
    await stranger.stop()
    stranger.remove()
    await stranger.initialise()
    await stranger.start()
    async with DatabaseSessionService(stranger.url) as theirs:
        await theirs.database.upgrade()
        live = await theirs.create_session(**PLACE)
        await theirs.append_event(live, said("a stranger's"))
    await stranger.execute("CREATE TABLE filled (number integer)")
    for _ in range(8):  # its log is ahead of ours
        await stranger.execute("INSERT INTO filled VALUES (1)")
        await stranger.execute("SELECT pg_switch_wal()")
    await stranger.stop()
    await stranger.follow(None)
    async with (
        Rotation(trio.standby.url, stranger.url) as rotation,
        reader(trio.primary.url, rotation.url) as database,
        Database(trio.primary.url) as ours,
    ):
        service, others = DatabaseSessionService(database), DatabaseSessionService(ours)
        for _ in range(6):
            assert (await service.list_sessions(**USER)).sessions == []
            assert await service.get_session(**PLACE) is None
            await asyncio.sleep(PAUSE_S)
        live = await others.create_session(**PLACE)
        await others.append_event(live, said("ours"))
        for _ in range(6):
            await asyncio.sleep(PAUSE_S)
            session = await service.get_session(**PLACE)
            assert session is None or texts(session) == ["ours"][: len(session.events)]


async def test_an_old_primary_that_was_not_rewound_is_not_read_as_a_standby(
    trio: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """It has what the failover lost, and its log is ahead of the new primary's."""
    old, new = trio.primary, trio.standby
    urls = f"postgresql://postgres@{old.host},{new.host}/postgres"
    async with Database(urls, read_url=old.url, settings=SETTINGS) as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await service.append_event(live, said("kept"))
        await new.caught_up(old)
        await new.stop_receiving()
        await service.append_event(live, said("lost"))
        await old.execute("SELECT pg_switch_wal()")
        await trio.fail_over()
        await old.follow(new)
        assert texts(await get(service)) in (["kept"], ["kept", "lost"])
        async with DatabaseSessionService(new.url) as others:
            session = await get(others)
            assert texts(session) == ["kept"]
            await others.append_event(session, said("after"))
        await asyncio.sleep(PAUSE_S)
        fresh = await service.create_session(**USER, session_id="t")
        await service.append_event(fresh, said("new"))
        for _ in range(5):
            await asyncio.sleep(PAUSE_S)
            assert texts(await get(service)) == ["kept", "after"]
        findings = (await examine(database)).findings
        said_of_it = next(each for each in findings if each.check == "replica")
        assert (said_of_it.status, "on timeline 1" in said_of_it.detail) == ("warning", True)
    assert "on timeline 1, and the primary on 2" in caplog.text


async def test_a_standby_that_follows_the_new_primary_is_read_again(trio: Pair) -> None:
    old, new, other = trio.primary, trio.standby, trio.second
    async with Proxy(new.url) as primary, Proxy(other.url) as standby:
        port = urlsplit(primary.url).port
        urls = f"postgresql://postgres@{old.host},127.0.0.1:{port}/postgres"
        async with Database(urls, read_url=standby.url, settings=SETTINGS) as database:
            service = DatabaseSessionService(database)
            live = await service.create_session(**PLACE)
            await service.append_event(live, said("one"))
            await new.caught_up(old)
            await other.caught_up(old)
            await trio.fail_over()
            await service.append_event(live, said("two"))
            assert texts(await get(service)) == ["one", "two"]
            await other.receive_from(new)
            await other.caught_up(new)

            async def answers() -> bool:
                asked = primary.round_trips, standby.round_trips
                await asyncio.sleep(PAUSE_S)
                assert texts(await get(service)) == ["one", "two"]
                return (primary.round_trips, standby.round_trips - 1) == asked

            await until(answers)
