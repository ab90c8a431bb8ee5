"""Workers: many at once, stopped, cancelled, killed, without their database or embedder."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.errors import Busy, ConfigurationError, DatabaseUnavailable, SchemaError
from adkpg.memory.queue.claims import Claims
from adkpg.memory.queue.worker import Worker
from adkpg.memory.vectors.vectors import Vectors
from adkpg.memory.vectors.work import Embedding
from tests.fakes.conversation import USER, entry, found, said, session_of
from tests.fakes.locks import locked
from tests.fakes.proxy import Proxy
from tests.fakes.toys import BrokenEmbedder, GatedEmbedder, ToyEmbedder

GIVES_UP = Settings(retry_timeout_s=0)
"""A database that hides no fault that lasts."""


def working(database: Database, embedder: ToyEmbedder, **options: Any) -> Worker:
    embedding = Embedding(Vectors(database, embedder))
    return Worker([embedding], **{"poll_interval_s": 0.01, **options})


async def wait(database: Database, user: str, *texts: str) -> None:
    """Makes a user's texts wait for vectors."""
    words = PgVectorMemoryService(database, mode="text")
    events = [said(text, f"e{number}") for number, text in enumerate(texts)]
    await words.add_session_to_memory(session_of(*events, user_id=user))


async def jobs(connection: asyncpg.Connection) -> list[tuple[bool, int]]:
    """Whether each job is claimed, and how often it was."""
    rows = await connection.fetch(
        "SELECT lease_expires_at IS NOT NULL AS claimed, attempts FROM memory_jobs ORDER BY 1, 2"
    )
    return [(row["claimed"], row["attempts"]) for row in rows]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0)


async def test_many_workers_share_the_work_and_embed_each_text_once(
    database: Database, database_url: str, connection: asyncpg.Connection
) -> None:
    for user in range(6):
        await wait(database, f"u{user}", *(f"turn {n} of {user}" for n in range(20)))
    stop = asyncio.Event()
    embedders = [ToyEmbedder() for _ in range(5)]

    async def work(embedder: ToyEmbedder) -> int:
        settings = Settings(embedding_batch_size=3)
        async with Database(database_url, settings=settings) as own:
            return await working(own, embedder).run(stop)

    async def stop_when_done() -> None:
        async def done() -> bool:
            return await jobs(connection) == []

        await until(done)
        stop.set()

    *done, _ = await asyncio.gather(*map(work, embedders), stop_when_done())
    asked = Counter(text for each in embedders for batch in each.documents for text in batch)
    assert sum(each for each in done if each is not None) == len(asked) == 120
    assert set(asked.values()) == {1}


async def test_a_worker_embeds_what_comes_while_it_runs(
    database: Database, embedder: ToyEmbedder, connection: asyncpg.Connection
) -> None:
    sessions = DatabaseSessionService(database, remember=True)
    session = await sessions.create_session(**USER)
    memory = PgVectorMemoryService(database, embedder=embedder)
    stop = asyncio.Event()
    worker = asyncio.create_task(memory.run_worker(stop, poll_interval_s=0.01))
    for number in range(5):
        await sessions.append_event(session, said(f"kitten {number}"))
        await memory.flush(timeout_s=60)
    stop.set()
    # What flush itself embedded is not the worker's; together they did everything once.
    assert await worker <= 5
    assert sum(map(len, embedder.documents)) == 5
    assert await jobs(connection) == []


async def test_a_user_with_much_does_not_make_the_others_wait(database_url: str) -> None:
    settings = Settings(embedding_batch_size=2)
    async with Database(database_url, settings=settings) as database:
        await wait(database, "much", *(f"much {n}" for n in range(10)))
        await wait(database, "little", "little")
        embedder = ToyEmbedder()
        worker = working(database, embedder, concurrency=1)
        assert await worker.run_once() == 3
        assert sorted(map(len, embedder.documents)) == [1, 2]
        assert [await worker.run_once() for _ in range(5)] == [2, 2, 2, 2, 0]


async def test_a_stopped_worker_finishes_its_batch_and_leaves_nothing_claimed(
    database: Database, connection: asyncpg.Connection
) -> None:
    for user in range(5):
        await wait(database, f"u{user}", "kitten")
    gated = GatedEmbedder()
    stop = asyncio.Event()
    run = asyncio.create_task(working(database, gated, concurrency=2).run(stop))
    await gated.asked.wait()

    async def both_claimed() -> bool:
        return (await jobs(connection)).count((True, 1)) == 2

    await until(both_claimed)
    stop.set()
    gated.gate.set()
    assert await run == 2
    assert await jobs(connection) == [(False, 0)] * 3
    assert await connection.fetchval("SELECT count(*) FROM memory_vectors") == 2


async def test_a_worker_stopped_while_it_waits_ends_at_once(database: Database) -> None:
    stop = asyncio.Event()
    run = asyncio.create_task(working(database, ToyEmbedder(), poll_interval_s=3_600).run(stop))
    for _ in range(100):
        await asyncio.sleep(0)
    stop.set()
    assert await asyncio.wait_for(run, 30) == 0
    assert await working(database, ToyEmbedder()).run(stop) == 0


async def test_a_cancelled_worker_gives_back_what_it_has_claimed(
    database: Database, connection: asyncpg.Connection
) -> None:
    for user in range(5):
        await wait(database, f"u{user}", "kitten", "hound")
    gated = GatedEmbedder()
    run = asyncio.create_task(working(database, gated, concurrency=3).run())
    await gated.asked.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert await jobs(connection) == [(False, 0)] * 10


async def test_one_users_failure_does_not_stop_the_others(
    database: Database, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuses(texts: list[str]) -> list[list[float]]:
        if any("poison" in text for text in texts):
            raise ValueError("too long")
        return await ToyEmbedder().embed_documents(texts)

    for user, text in (("a", "kitten"), ("b", "poison"), ("c", "hound")):
        await wait(database, user, text)
    worker = working(database, BrokenEmbedder(failure=refuses))
    assert await worker.run_once() == 2
    assert "tried again later" in caplog.text
    assert await jobs(connection) == [(False, 1)]
    await connection.execute("UPDATE memory_jobs SET due_at = now() + interval '1 hour'")
    assert await worker.run_once() == 0
    assert await jobs(connection) == [(False, 1)]
    for _ in range(9):
        await connection.execute("UPDATE memory_jobs SET due_at = now()")
        assert await worker.run_once() == 0
    (dead,) = await connection.fetch("SELECT dead, error FROM memory_jobs")
    assert dead["dead"]
    assert "ValueError" in dead["error"]


async def test_an_embedder_that_is_down_is_asked_for_few_users_and_no_attempt_is_used_up(
    database: Database, connection: asyncpg.Connection
) -> None:
    calls = 0

    async def down(_texts: list[str]) -> list[list[float]]:
        nonlocal calls
        calls += 1
        raise ConnectionRefusedError

    for user in range(10):
        await wait(database, f"u{user}", "kitten")
    embedder = BrokenEmbedder(failure=down)
    worker = working(database, embedder, concurrency=2)
    for _ in range(3):
        before = calls
        assert await worker.run_once() == 0
        assert calls - before <= 2
    assert set(await jobs(connection)) == {(False, 0)}
    embedder.failure = None
    await connection.execute("UPDATE memory_jobs SET due_at = now()")
    assert await worker.run_once() == 10


async def test_an_app_with_another_model_is_left_to_its_own_workers(
    database: Database, connection: asyncpg.Connection
) -> None:
    await PgVectorMemoryService(database, embedder=ToyEmbedder()).add_session_to_memory(
        session_of(said("kitten"))
    )
    await wait(database, "late", "hound")
    other = ToyEmbedder("other")
    assert await working(database, other).run_once() == 0
    assert other.documents == []
    assert await jobs(connection) == [(False, 0)]
    assert await working(database, ToyEmbedder()).run_once() == 1


async def test_a_worker_goes_on_when_the_database_is_back(
    database: Database, database_url: str, connection: asyncpg.Connection
) -> None:
    """The way to the database is gone for a while: connections are cut, new ones refused."""
    await wait(database, "a", "kitten")
    stop = asyncio.Event()
    async with Proxy(database_url) as proxy, Database(proxy.url, settings=GIVES_UP) as own:
        worker = working(own, ToyEmbedder())
        assert await worker.run_once() == 1
        proxy.lose_answers = 2
        with pytest.raises(DatabaseUnavailable):
            await worker.run_once()
        await wait(database, "b", "hound")
        proxy.lose_answers = 1
        run = asyncio.create_task(worker.run(stop))

        async def embedded() -> bool:
            return bool(await connection.fetchval("SELECT count(*) = 2 FROM memory_vectors"))

        await until(embedded)
        stop.set()
        assert await run == 1
        assert not proxy.lose_answers
    assert await jobs(connection) == []


async def test_a_worker_without_a_database_waits_and_can_be_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop = asyncio.Event()
    url = "postgresql://nobody@127.0.0.1:1/nowhere"
    async with Database(url, settings=GIVES_UP) as nowhere:
        run = asyncio.create_task(working(nowhere, ToyEmbedder()).run(stop))

        async def warned() -> bool:
            return caplog.text.count("waits for the database") >= 3

        await until(warned)
        stop.set()
        assert await asyncio.wait_for(run, 30) == 0


@pytest.mark.direct("the pooler refuses settings of the server in startup parameters")
async def test_a_worker_outlives_errors_that_pass(
    database: Database, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A lock that was held for too long, like a slow second or a failover, ended the process."""
    await wait(database, "a", "kitten")
    impatient = {"server_settings": {"lock_timeout": "20ms"}}
    stop = asyncio.Event()
    async with (
        Database(database_url, connect_args=impatient, settings=GIVES_UP) as own,
        locked(database_url, "LOCK TABLE adkpg.memory_jobs") as lock,
    ):
        run = asyncio.create_task(working(own, ToyEmbedder()).run(stop))

        async def warned() -> bool:
            return caplog.text.count("waits for the database") >= 2

        await until(warned)
        await lock.release()

        async def done() -> bool:
            return not await Claims(database, work="embed").due_users()

        await until(done)
        stop.set()
        assert await run == 1


async def test_a_chore_that_fails_is_logged_and_done_again(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    async def held_up() -> None:
        asked.append("held up")
        raise Busy("Another transaction holds what is to be erased; try again.")

    async def wrong() -> None:
        asked.append("wrong")
        raise ZeroDivisionError("a defect")

    async def fine() -> None:
        asked.append("fine")

    worker = working(database, ToyEmbedder(), chores=[held_up, wrong, fine], chore_interval_s=0)
    await wait(database, "a", "kitten")
    assert [await worker.run_once(), await worker.run_once()] == [1, 0]
    assert asked == ["held up", "wrong", "fine"] * 2
    assert "Another transaction holds" in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_a_chore_that_takes_long_keeps_no_work_waiting(database: Database) -> None:
    began, stop = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        began.set()
        await asyncio.Event().wait()

    await wait(database, "a", "kitten")
    run = asyncio.create_task(working(database, ToyEmbedder(), chores=[endless]).run(stop))
    await began.wait()

    async def done() -> bool:
        return not await Claims(database, work="embed").due_users()

    await until(done)
    stop.set()
    assert await run == 1


async def test_a_worker_tidies(
    database: Database, connection: asyncpg.Connection, embedder: ToyEmbedder
) -> None:
    """Also one within an application."""
    memory = PgVectorMemoryService(database, embedder=embedder)
    await memory.add_memory(app_name="app", user_id="user", memories=[entry("oolong")])
    await connection.execute("UPDATE memories SET expires_at = now()")
    stop = asyncio.Event()
    run = asyncio.create_task(memory.run_worker(stop))

    async def gone() -> bool:
        return not await connection.fetchval("SELECT count(*) FROM memories")

    await until(gone)
    stop.set()
    assert await run == 0


async def test_a_schema_that_is_missing_ends_the_worker(empty_database_url: str) -> None:
    async with Database(empty_database_url) as database:
        with pytest.raises(SchemaError):
            await working(database, ToyEmbedder()).run()


async def test_chores_are_done_now_and_then(database: Database) -> None:
    done: list[int] = []

    async def chore() -> None:
        done.append(1)

    often = working(database, ToyEmbedder(), chores=[chore], chore_interval_s=0)
    assert [await often.run_once() for _ in range(3)] == [0, 0, 0]
    seldom = working(database, ToyEmbedder(), chores=[chore], chore_interval_s=3_600)
    assert [await seldom.run_once() for _ in range(3)] == [0, 0, 0]
    assert len(done) == 4


async def test_a_worker_needs_an_embedder(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    with pytest.raises(ConfigurationError, match="embedder"):
        await memory.run_worker()


KILLED = """
import asyncio, sys
from adkpg import PgVectorMemoryService
from tests.fakes.toys import ToyEmbedder

class Halting(ToyEmbedder):
    async def embed_documents(self, texts):
        print("claimed", flush=True)
        await asyncio.Event().wait()

async def main():
    async with PgVectorMemoryService(sys.argv[1], embedder=Halting()) as memory:
        await memory.run_worker()

asyncio.run(main())
"""


async def process(url: str) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, url, stdout=PIPE)


@pytest.mark.program
async def test_what_a_killed_worker_had_claimed_is_done_once_its_lease_lapses(
    database: Database, database_url: str, connection: asyncpg.Connection
) -> None:
    await wait(database, "user", "kitten", "hound")
    killed = await process(database_url)
    assert killed.stdout is not None
    assert await killed.stdout.readline() == b"claimed\n"
    killed.send_signal(signal.SIGKILL)
    await killed.wait()
    assert await jobs(connection) == [(True, 1)] * 2
    worker = working(database, ToyEmbedder())
    assert await worker.run_once() == 0
    await connection.execute("UPDATE memory_jobs SET lease_expires_at = now()")
    assert await worker.run_once() == 2
    memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
    assert await found(memory, "feline", mode="vector") == ["kitten"]
