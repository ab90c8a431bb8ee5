"""Replay that stands at each record of a write, between its start and its acknowledgement."""

import asyncio
from functools import partial

import asyncpg
import pytest
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER
from tests.fakes.replicated import PAUSE_S, answers_at
from tests.fakes.replication import Node, replicated, until

pytestmark = [pytest.mark.fault, pytest.mark.program]

SETTINGS = Settings(read_lag_s=600)
READS = 2  # a look is between them


async def records_of(primary: Node, start: str) -> list[str]:
    """Returns where each record of the log begins, from a place on."""
    connection = await asyncpg.connect(primary.url)
    try:
        await connection.execute("SELECT pg_switch_wal()")  # which puts all of it on the disk
        rows = await connection.fetch(
            "SELECT start_lsn::text FROM pg_get_wal_records_info("
            "$1::text::pg_lsn, pg_current_wal_flush_lsn()) WHERE resource_manager <> 'XLOG'",
            start,
        )
        return [row["start_lsn"] for row in rows]
    finally:
        await connection.close()


async def stand_after(standby: Node, record: str) -> None:
    """Has a standby replay one record, and nothing after it."""
    await standby.stop()
    await standby.start(recovery_target_lsn=record, recovery_target_action="pause")

    async def stands() -> bool:
        return bool(await standby.value("SELECT pg_get_wal_replay_pause_state() = 'paused'"))

    await until(stands)


@pytest.mark.parametrize("creates", [False, True], ids=["append", "create"])
async def test_at_each_record_an_acknowledged_write_is_read_and_nothing_goes_back(
    creates: bool,
) -> None:
    async with replicated(synchronous=False) as pair:
        async with Database(pair.primary.url) as database:
            await database.upgrade()
        await pair.primary.execute("CREATE EXTENSION pg_walinspect")
        url, read_url = pair.primary.url, pair.standby.url
        async with (
            Database(url, read_url=read_url, settings=SETTINGS) as database,
            Database(url, read_url=read_url, settings=SETTINGS) as theirs,
        ):
            service, others = DatabaseSessionService(database), DatabaseSessionService(theirs)
            live = await service.create_session(**USER, session_id="s")
            place = {**USER, "session_id": "made" if creates else "s"}
            await pair.standby.caught_up(pair.primary)
            for reader in (service, others):
                get = partial(reader.get_session, **USER, session_id="s")
                await answers_at(pair.standby.url, get)
            await pair.standby.stop()
            start = await pair.primary.value("SELECT pg_current_wal_insert_lsn()::text")
            if creates:
                await service.create_session(**place, state={"user:n": 1, "app:n": 1})
            else:
                await service.append_event(live, said("new", state={"user:n": 1, "app:n": 1}))
            records = await records_of(pair.primary, start)
            assert len(records) > 3
            shown = 0
            for record in records:
                await stand_after(pair.standby, record)
                for _ in range(READS):
                    read = await service.get_session(**place)
                    assert read is not None
                    assert _shown(read) == (2 if creates else 3), f"behind at {record}"
                    listed = (await service.list_sessions(**USER)).sessions
                    assert place["session_id"] in {each.id for each in listed}
                    assert await service.get_user_state(**USER) == {"n": 1}
                    # Another process, which knows nothing of it, sees all of it or nothing.
                    read = await others.get_session(**USER, session_id="s")
                    assert read is not None
                    now = _shown(read)
                    assert now in (0, 2 if creates else 3)
                    assert now >= shown, f"went back at {record}"
                    shown = now
                    await asyncio.sleep(PAUSE_S)
            await pair.standby.stop()
            await pair.standby.start()
            await answers_at(pair.standby.url, lambda: service.get_session(**place))


def _shown(read: Session) -> int:
    """How much of a write a session shows: its event, and what it set for the user and the app."""
    return len(read.events) + sum(int(read.state.get(name, 0)) for name in ("user:n", "app:n"))
