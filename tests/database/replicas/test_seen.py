"""What this process has seen, by whatever call, no later read is older than: replay is paused."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.erasure import forget, prune_sessions
from adkpg.errors import SessionExists, StaleSession
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER, found
from tests.fakes.public_calls import APP, CALLS, Person, Services, furnish
from tests.fakes.replicated import PAUSE_S, Replicated, documented
from tests.fakes.replication import until
from tests.fakes.telemetry import Watched, keep_in_memory

pytestmark = pytest.mark.fault

PLACE = {**USER, "session_id": "s"}
ADA, BOB = Person("ada"), Person("bob")


class Stage:
    """This process, and another one that reads and writes on the primary."""

    def __init__(self, both: Replicated, database: Database, theirs: Database) -> None:
        self.both = both
        self.database = database
        self.service = DatabaseSessionService(database)
        self.others = DatabaseSessionService(theirs)

    async def get(self, session_id: str = "s") -> Session:
        """Reads when one's own write is long ago, so that the standby may be asked."""
        await asyncio.sleep(PAUSE_S)
        session = await self.service.get_session(**USER, session_id=session_id)
        assert session is not None
        return session

    async def stand_still(self) -> None:
        """Stops replay when the standby has all, and answers."""
        await until(self.answers)
        await self.both.pause()
        await until(self.answers)

    async def answers(self) -> bool:
        """Whether the standby alone answers."""
        before = self.both.primary.round_trips, self.both.standby.round_trips
        await self.get()
        after = self.both.primary.round_trips, self.both.standby.round_trips
        return after[1] > before[1] and after[0] == before[0]

    async def another_writes(self, text: str = "theirs") -> None:
        live = await self.others.get_session(**PLACE)
        assert live is not None
        await self.others.append_event(live, said(text, state={"user:x": text, "app:y": text}))


@asynccontextmanager
async def standing_still(both: Replicated) -> AsyncIterator[Stage]:
    """A session that was read on the standby, which replays nothing from then on."""
    async with both.database() as database, Database(both.primary_url) as theirs:
        stage = Stage(both, database, theirs)
        await stage.service.create_session(**PLACE)
        await stage.stand_still()
        yield stage


async def by_a_watched_event(stage: Stage) -> None:
    await stage.both.resume()
    watching = stage.service.watch_session(**PLACE, poll_interval_s=0.02)
    first = asyncio.ensure_future(anext(watching))
    watched = "SELECT count(*) FROM adkpg.sessions WHERE watched_until IS NOT NULL"

    async def is_watched() -> bool:
        return bool(await stage.both.value(watched))

    await until(is_watched)
    await stage.stand_still()
    await stage.another_writes()
    seen = (await first).event
    await watching.aclose()
    assert seen.id in [event.id for event in (await stage.get()).events]


async def by_a_refused_append(stage: Stage) -> None:
    live = await stage.get()
    await stage.another_writes()
    with pytest.raises(StaleSession):
        await stage.service.append_event(live, said("mine"))
    assert texts(await stage.get()) == ["theirs"]


async def by_a_refused_append_of_an_object_from_json(stage: Stage) -> None:
    live = Session.model_validate_json((await stage.get()).model_dump_json())
    await stage.another_writes()
    with pytest.raises(StaleSession):
        await stage.service.append_event(live, said("mine"))
    assert texts(await stage.get()) == ["theirs"]


async def by_a_refused_creation(stage: Stage) -> None:
    await stage.others.create_session(**USER, session_id="t", state={"z": 1})
    with pytest.raises(SessionExists):
        await stage.service.create_session(**USER, session_id="t")
    assert (await stage.get("t")).state["z"] == 1


async def by_a_turn_of_another_task(stage: Stage) -> None:
    ended, seen = asyncio.Event(), asyncio.Event()
    await stage.both.resume()

    async def run() -> None:
        async with stage.service.invocation(**PLACE, timeout_s=10):
            begun.set()
            await goes_on.wait()
            live = await stage.others.update_state(**USER, state_delta={"user:x": "theirs"})
            assert live == {"user:x": "theirs"}
            assert (await stage.get()).state["user:x"] == "theirs"
            seen.set()
            await ended.wait()

    begun, goes_on = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(run())
    await begun.wait()
    await stage.stand_still()
    goes_on.set()
    await seen.wait()
    assert (await stage.get()).state["user:x"] == "theirs"
    ended.set()
    await task


async def by_a_state_that_was_set_without_a_session(stage: Stage) -> None:
    await stage.service.update_state(app_name="app", state_delta={"app:y": 1})
    assert (await stage.get()).state["app:y"] == 1


async def by_another_users_append_whose_answer_was_lost(stage: Stage) -> None:
    place: dict[str, Any] = {"app_name": "app", "user_id": "other", "session_id": "t"}
    live = await stage.service.create_session(**place)
    await stage.service.append_event(live, said("prepared", state={"app:y": 1}))
    await stage.both.resume()
    await stage.stand_still()
    stage.both.primary.lose_answers = 1
    await stage.service.append_event(live, said("mine", state={"app:y": 2}))
    assert stage.both.primary.lose_answers == 0
    assert (await stage.get()).state["app:y"] == 2


async def by_a_session_of_the_same_id(stage: Stage) -> None:
    live = await stage.get()
    await stage.service.append_event(live, said("first"))
    for number in range(2):
        await stage.service.delete_session(**PLACE)
        await asyncio.sleep(PAUSE_S)
        assert await stage.service.get_session(**PLACE) is None
        listed = await stage.service.list_sessions(**USER)
        assert listed.sessions == []
        await stage.service.create_session(**PLACE, state={"n": number})
        again = await stage.get()
        assert (texts(again), again.state["n"]) == ([], number)
        assert [each.state["n"] for each in (await stage.service.list_sessions(**USER)).sessions]


async def by_another_id_made_anew(stage: Stage) -> None:
    """Another process deleted it and made it anew, and this one saw that."""
    live = await stage.get()
    await stage.others.delete_session(**PLACE)
    await stage.others.create_session(**PLACE, state={"n": 1})
    with pytest.raises(StaleSession):
        await stage.service.append_event(live, said("mine"))
    assert (await stage.get()).state["n"] == 1


async def by_tables_made_anew(stage: Stage) -> None:
    memory = PgVectorMemoryService(stage.database)
    await stage.database.downgrade("base")
    await stage.database.upgrade()
    await asyncio.sleep(PAUSE_S)
    assert await stage.service.get_session(**PLACE) is None
    assert (await stage.service.list_sessions(**USER)).sessions == []
    assert await found(memory, "plums") == []


WAYS: list[Callable[[Stage], Awaitable[None]]] = [
    by_a_watched_event,
    by_a_refused_append,
    by_a_refused_append_of_an_object_from_json,
    by_a_refused_creation,
    by_a_turn_of_another_task,
    by_a_state_that_was_set_without_a_session,
    by_another_users_append_whose_answer_was_lost,
    by_a_session_of_the_same_id,
    by_another_id_made_anew,
    by_tables_made_anew,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_what_was_seen_is_in_what_is_read_next(
    both: Replicated, way: Callable[[Stage], Awaitable[None]]
) -> None:
    async with standing_still(both) as stage:
        await way(stage)
        stands_still = await both.pair.standby.value("SELECT pg_is_wal_replay_paused()")
        assert stands_still, "else it might have caught up"


@pytest.mark.parametrize(
    ("change", "asks_primary"),
    [("revision_token = revision_token", False), ("revision_token = gen_random_uuid()", True)],
    ids=["the same", "another"],
)
async def test_the_same_revision_with_another_token_is_not_read(
    both: Replicated, change: str, asks_primary: bool
) -> None:
    """A server of another history has the revision that was seen, and another event there."""
    async with standing_still(both) as stage:
        changes = [f"UPDATE adkpg.{table} SET {change}" for table in ("events", "sessions")]
        assert await asked_primary_after(stage, *changes) == asks_primary


async def test_the_same_revision_and_token_of_another_session_is_not_read(both: Replicated) -> None:
    async with standing_still(both) as stage:
        change = "UPDATE adkpg.sessions SET incarnation = gen_random_uuid()"
        assert await asked_primary_after(stage, change)


async def asked_primary_after(stage: Stage, *changes: str) -> bool:
    """Whether the next read asks it, after changes of which this process knows nothing."""
    both = stage.both
    await both.resume()
    await stage.service.append_event(await stage.get(), said("mine"))
    await stage.stand_still()
    await both.resume()
    for change in changes:
        await both.pair.primary.execute_in(both.name, change)
    await both.caught_up()
    before = both.primary.round_trips
    assert texts(await stage.get()) == ["mine"]
    return both.primary.round_trips > before


async def test_a_forgotten_person_is_read_nowhere_by_who_forgot_them(both: Replicated) -> None:
    """By no public call, while the standby has all of theirs; and others' is still there."""
    async with both.database() as database:
        services = Services.on(database)
        connection = await asyncpg.connect(both.primary_url)
        await connection.execute("SET search_path = adkpg, public")
        await furnish(services, connection, ADA, BOB)
        await connection.close()
        await both.caught_up()
        who: dict[str, Any] = {"app_name": APP, "user_id": ADA.user_id}
        await asyncio.sleep(PAUSE_S)
        assert ADA.secret in repr(await CALLS["PgVectorMemoryService.search"](services, who, ADA))

        async def has_them() -> bool:
            before = both.standby.round_trips
            for name in READS:
                await CALLS[name](services, who, ADA)
            return both.standby.round_trips - before >= len(READS)

        await until(has_them)
        await both.pause()
        assert await has_them(), "the standby has them"

        await forget(database, **who)
        for pause_s in (0.0, PAUSE_S):
            await asyncio.sleep(pause_s)
            for name in READS:
                told = repr(await CALLS[name](services, who, ADA))
                assert ADA.secret not in told, name
        listed = await services.sessions.list_sessions(app_name=APP)
        assert {session.user_id for session in listed.sessions} == {BOB.user_id}
        await both.resume()


READS = [
    f"{service}.{name}"
    for service in ("DatabaseSessionService", "PgVectorMemoryService")
    for name in sorted(documented())
    if f"{service}.{name}" in CALLS
]


@pytest.mark.parametrize("shared_events_mb", [0, 10])
async def test_events_that_were_seen_to_be_gone_do_not_come_back(
    both: Replicated, shared_events_mb: int
) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    async with (
        both.database() as database,
        Database(both.primary_url) as theirs,
    ):
        stage = Stage(both, database, theirs)
        stage.service = DatabaseSessionService(database, shared_events_mb=shared_events_mb)
        other = {**USER, "user_id": "another", "session_id": "s"}
        for place in (PLACE, other):
            live = await stage.others.create_session(**place)
            await stage.others.append_event(live, said("one", timestamp=long_ago.timestamp()))
            await stage.others.append_event(live, said("two"))
        await both.caught_up()
        assert texts(await stage.get()) == ["one", "two"]
        await stage.stand_still()
        await both.standby.leave()
        older_than = timedelta(minutes=30)
        await prune_sessions(theirs, **USER, older_than=older_than, events_only=True)
        assert texts(await stage.get()) == ["two"]
        await both.standby.come_back()

        async def answers() -> bool:
            assert texts(await stage.get()) == ["two"]
            before = both.standby.round_trips
            assert texts(await stage.service.get_session(**other)) == ["one", "two"]
            return both.standby.round_trips > before

        await until(answers)  # of another user, of whom nothing was seen since
        assert texts(await stage.get()) == ["two"]
        page = await stage.service.list_events_page(**PLACE)
        assert texts(live.model_copy(update={"events": page.items})) == ["two"]


async def test_events_that_a_read_after_a_time_was_without_do_not_come_back(
    both: Replicated,
) -> None:
    """Such a read does not tell how many of all events are gone."""
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    first = said("first", timestamp=(long_ago - timedelta(hours=1)).timestamp())
    later = GetSessionConfig(after_timestamp=(long_ago - timedelta(minutes=1)).timestamp())
    async with both.database() as database, Database(both.primary_url) as theirs:
        stage = Stage(both, database, theirs)
        live = await stage.others.create_session(**PLACE)
        await stage.others.append_event(live, first)
        await stage.others.append_event(live, said("old", timestamp=long_ago.timestamp()))
        await stage.others.append_event(live, said("new"))
        await both.caught_up()
        assert texts(await stage.service.get_session(**PLACE, config=later)) == ["old", "new"]
        await stage.stand_still()
        await both.standby.leave()
        older_than = timedelta(minutes=30)
        await prune_sessions(theirs, **USER, older_than=older_than, events_only=True)
        assert texts(await stage.service.get_session(**PLACE, config=later)) == ["new"]
        await both.standby.come_back()

        async def answers() -> bool:
            before = both.standby.round_trips
            assert texts(await stage.service.get_session(**PLACE, config=later)) == ["new"]
            return both.standby.round_trips > before

        await until(answers)
        assert texts(await stage.get()) == ["new"]


async def test_who_lists_all_the_time_what_others_change_is_answered_by_the_standby(
    both: Replicated,
) -> None:
    """Though the primary answered a moment ago, and so may be ahead: nobody wrote here."""
    keep_in_memory()
    watched = Watched()
    async with both.database() as database, Database(both.primary_url) as theirs:
        stage = Stage(both, database, theirs)
        live = await stage.others.create_session(**PLACE)
        await both.caught_up()
        await stage.service.update_state(app_name="app", state_delta={"app:mine": 1})
        watched.clear()

        for _ in range(100):
            await stage.others.append_event(live, said("theirs"))
            await stage.service.list_sessions(app_name="app")
            if watched.answered_at(both.standby.url):
                break
            await asyncio.sleep(PAUSE_S / 5)
        assert watched.answered_at(both.standby.url)


async def test_readers_of_one_user_come_to_be_answered_by_the_standby(both: Replicated) -> None:
    """They read all the time and at once, and each answer of the primary is of a later moment."""
    keep_in_memory()
    watched = Watched()
    async with both.database() as database, Database(both.primary_url) as theirs:
        stage = Stage(both, database, theirs)
        await stage.others.create_session(**PLACE)
        await both.caught_up()
        ended = asyncio.Event()

        async def read_on() -> None:
            while not ended.is_set():
                assert await stage.service.get_session(**PLACE) is not None

        async def answered() -> bool:
            return bool(watched.answered_at(both.standby.url))

        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(read_on())
            await until(answered)
            before = both.primary.round_trips
            await asyncio.sleep(2 * PAUSE_S)  # those that were under way there have ended
            assert both.primary.round_trips <= before + 25
            ended.set()


async def test_all_events_that_are_gone_are_no_failover(both: Replicated) -> None:
    async with both.database() as database, Database(both.primary_url) as theirs:
        stage = Stage(both, database, theirs)
        live = await stage.service.create_session(**PLACE)
        await stage.service.append_event(live, said("one"))
        await both.caught_up()
        assert texts(await stage.get()) == ["one"]
        await both.standby.leave()
        await prune_sessions(theirs, **USER, older_than=timedelta(), events_only=True)
        assert texts(await stage.get()) == []
        assert database.run.replica is not None
        assert database.run.replica.seen.lost_at == -math.inf
        await both.standby.come_back()
