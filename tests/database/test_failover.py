"""Failover of real servers: what is acknowledged, who goes on, and who is told what."""

import asyncio

import pytest
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.errors import ReadOnly, StaleSession
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.replication import Node, replicated, until

pytestmark = [pytest.mark.fault, pytest.mark.program]

_WRITERS = 6


async def _get(service: DatabaseSessionService, session_id: str = "s") -> Session:
    session = await service.get_session(**USER, session_id=session_id)
    assert session is not None
    return session


async def _migrated(node: Node) -> None:
    async with Database(node.url) as database:
        await database.upgrade()


async def test_a_synchronous_failover_loses_nothing_and_nobody_hears_of_it() -> None:
    """One service goes on, with the same live Session objects and the same connections' pool."""
    ended = asyncio.Event()
    written = [0] * _WRITERS

    async def write(service: DatabaseSessionService, session: Session, number: int) -> None:
        while not ended.is_set():
            text = f"{number}.{written[number]}"
            await service.append_event(session, said(text, state={"n": written[number]}))
            written[number] += 1

    async def have_written(count: int) -> None:
        goal = [before + count for before in written]

        async def reached() -> bool:
            for writer in writers:
                if writer.done():
                    writer.result()  # an error ends the test here
            return all(now >= wanted for now, wanted in zip(written, goal, strict=True))

        await until(reached)

    async with replicated(synchronous=True) as pair:
        await _migrated(pair.primary)
        async with DatabaseSessionService(pair.url) as service:
            live = [
                await service.create_session(**USER, session_id=f"s{number}")
                for number in range(_WRITERS)
            ]
            writers = [
                asyncio.create_task(write(service, session, number))
                for number, session in enumerate(live)
            ]
            await have_written(10)
            await pair.fail_over()
            await have_written(10)
            ended.set()
            await asyncio.gather(*writers)
        async with DatabaseSessionService(pair.standby.url) as other:
            for number, session in enumerate(live):
                stored = await _get(other, session.id)
                assert texts(stored) == [f"{number}.{n}" for n in range(written[number])]
                assert stored == session


async def test_an_asynchronous_failover_tells_who_holds_what_was_lost() -> None:
    """And the old primary, which has the lost event, is rewound and follows."""
    async with replicated(synchronous=False) as pair:
        await _migrated(pair.primary)
        async with Database(pair.url) as database:
            service = DatabaseSessionService(database, shared_events_mb=10)
            merging = DatabaseSessionService(database, on_conflict="merge")
            live = await service.create_session(**USER, session_id="s")
            for number in range(4):
                await service.append_event(live, said(str(number)))
            other = await _get(merging)
            await pair.standby.caught_up(pair.primary)
            await pair.standby.stop_receiving()
            await service.append_event(live, said("lost"))
            read_before = await _get(service)
            assert texts(read_before)[-1] == "lost"
            rebuilt = Session.model_validate_json(live.model_dump_json())
            await pair.fail_over()

            await service.append_event(other, said("other"))  # the number of revisions is the same
            for holder in (live, read_before):
                for telling in (service, merging):
                    with pytest.raises(StaleSession, match="went back in storage: a failover"):
                        await telling.append_event(holder, said("on top"))
            with pytest.raises(StaleSession):
                await service.append_event(rebuilt, said("on top"))
            read = await _get(service)
            assert texts(read) == ["0", "1", "2", "3", "other"]
            assert read == other
            await service.append_event(read, said("goes on"))

            await pair.primary.rewind(pair.standby)
            await pair.primary.start()
            await pair.primary.caught_up(pair.standby)
            async with DatabaseSessionService(pair.primary.url) as rejoined:
                followed = await _get(rejoined)
                assert followed == read
                with pytest.raises(ReadOnly, match="is a standby") as caught:
                    await rejoined.append_event(followed, said("to a standby"))
            assert caught.value.written is False
            hosts = f"{pair.primary.host},{pair.primary.host}"  # several, and none takes writes
            impatient = Settings(retry_timeout_s=0.5)
            async with Database(
                f"postgresql://postgres@{hosts}/postgres", settings=impatient
            ) as nobody:
                with pytest.raises(ReadOnly, match=hosts):
                    await DatabaseSessionService(nobody).append_event(followed, said("to nobody"))
            # Of both, the first of which is the standby now, a new connection finds the primary.
            async with DatabaseSessionService(pair.url) as late:
                await late.append_event(followed, said("to the primary"))
            assert texts(await _get(service))[-1] == "to the primary"
