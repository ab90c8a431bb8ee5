"""The queue: who claims what, for how long, how often, and what becomes of what fails."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import asyncpg
import pytest

from adkpg import Backlog, Database, Jobs, PgVectorMemoryService, Settings, Users
from adkpg.errors import (
    DatabaseUnavailable,
    InvalidInput,
    ModelError,
    ModelUnavailable,
)
from adkpg.memory.queue.claims import Claims
from tests.fakes.conversation import USER, entry, found, said, session_of, wait
from tests.fakes.proxy import Proxy
from tests.fakes.toys import BrokenEmbedder, GatedEmbedder, ToyEmbedder

ANA = ("app", "user")


async def rows(connection: asyncpg.Connection) -> list[dict[str, Any]]:
    found = await connection.fetch("SELECT * FROM memory_jobs ORDER BY user_id, position")
    return [dict(row) for row in found]


async def test_each_text_is_embedded_once_whoever_works(
    words: PgVectorMemoryService, database_url: str, connection: asyncpg.Connection
) -> None:
    for user in ("a", "b", "c"):
        await wait(words, *(f"turn {n} of {user}" for n in range(40)), user=user)
    embedders = [ToyEmbedder() for _ in range(6)]

    async def work(embedder: ToyEmbedder) -> int:
        settings = Settings(embedding_batch_size=4)
        async with Database(database_url, settings=settings) as own:
            return await PgVectorMemoryService(own, embedder=embedder).embed_pending()

    done = await asyncio.gather(*map(work, embedders))
    asked = Counter(text for each in embedders for batch in each.documents for text in batch)
    assert sum(done) == 120
    assert set(asked.values()) == {1}
    assert len(asked) == 120
    assert await rows(connection) == []


async def test_what_somebody_claims_is_passed_over_and_not_waited_for(
    words: PgVectorMemoryService, claims: Claims, connection: asyncpg.Connection
) -> None:
    await wait(words, "one", "two", "three")
    async with connection.transaction():
        await connection.execute(
            "SELECT FROM memory_jobs WHERE user_id = $1"
            " AND position = (SELECT min(position) FROM memory_jobs WHERE user_id = $1) FOR UPDATE",
            ANA[1],
        )
        claimed = await claims.claim(*ANA, 10)
    assert [row["body"] for row in claimed] == ["user: two", "user: three"]
    assert [row["body"] for row in await claims.claim(*ANA, 10)] == ["user: one"]
    assert await claims.claim(*ANA, 10, eager=True) == []
    assert await claims.due_users() == []


async def test_claims_are_of_one_user_the_untried_first_and_in_order(
    words: PgVectorMemoryService, claims: Claims
) -> None:
    await wait(words, "one", "two", "three", "four")
    await wait(words, "not yours", user="other")
    first = await claims.claim(*ANA, 2)
    assert [row["body"] for row in first] == ["user: one", "user: two"]
    await claims.fail(first, ValueError("no"), refused=True)
    rest = await claims.claim(*ANA, 3, eager=True)
    assert [row["body"] for row in rest] == ["user: one", "user: three", "user: four"]
    assert [row["attempts"] for row in rest] == [2, 1, 1]
    assert await claims.claim("app", "nobody", 10) == []


async def test_a_claim_whose_answer_was_lost_is_the_same_when_it_is_asked_for_again(
    words: PgVectorMemoryService, connection: asyncpg.Connection, proxy: Proxy
) -> None:
    await wait(words, "one", "two")
    async with Database(proxy.url) as database:
        claims = Claims(database, work="embed")
        assert await claims.claim("app", "nobody", 10) == []  # what is prepared is run at once
        proxy.lose_answers = 1
        (one,) = await claims.claim(*ANA, 1)
        (two,) = await claims.claim(*ANA, 10)
        assert [one["body"], two["body"]] == ["user: one", "user: two"]
        assert [one["attempts"], two["attempts"]] == [1, 1]
        await claims.complete([one])
        await claims.complete([two])
    assert await rows(connection) == []


async def test_nothing_waits_as_long_as_the_servers_clock_went_back(
    words: PgVectorMemoryService, claims: Claims, connection: asyncpg.Connection
) -> None:
    await wait(words, "one", "two")
    assert await claims.claim(*ANA, 10)
    await connection.execute(
        "UPDATE memory_jobs SET due_at = now() + interval '3 hours', "
        "lease_expires_at = lease_expires_at + interval '1 hour'"
    )
    assert await claims.due_users() == [ANA]
    assert len(await claims.claim(*ANA, 10)) == 2


async def test_a_lease_that_lapsed_is_claimed_by_another(
    words: PgVectorMemoryService, claims: Claims, connection: asyncpg.Connection
) -> None:
    await wait(words, "one", "two")
    lost = await claims.claim(*ANA, 10)
    (job, _) = await rows(connection)
    left = job["lease_expires_at"] - await connection.fetchval("SELECT now()")
    assert 290 < left.total_seconds() <= 300
    assert await claims.claim(*ANA, 10) == []
    await connection.execute("UPDATE memory_jobs SET lease_expires_at = now()")
    assert await claims.due_users() == [ANA]
    taken = await claims.claim(*ANA, 10)
    assert [row["attempts"] for row in taken] == [2, 2]
    before = await rows(connection)
    # Whoever was too late can no longer give back, fail or end what another works on.
    await claims.release(lost)
    await claims.fail(lost, ValueError("late"), refused=True)
    await claims.complete(lost)
    assert await rows(connection) == before
    await claims.complete(taken[:1])
    await claims.release(taken[1:])
    (left_over,) = await rows(connection)
    assert (left_over["lease_expires_at"], left_over["attempts"], left_over["error"]) == (
        None,
        1,
        None,
    )


async def test_a_text_that_changed_is_not_ended_by_who_read_the_old_one(
    words: PgVectorMemoryService, claims: Claims, connection: asyncpg.Connection
) -> None:
    await wait(words, "my kitten sleeps")
    (old,) = claimed = await claims.claim(*ANA, 10)
    await words.update_memory(**USER, memory_id=old["memory_id"], text="my hound sleeps")
    await claims.complete(claimed)
    await claims.fail(claimed, ValueError("of the old text"), refused=True)
    (job,) = await rows(connection)
    assert (job["attempts"], job["error"], job["lease_expires_at"]) == (0, None, None)
    (new,) = await claims.claim(*ANA, 10)
    assert new["body"] == "user: my hound sleeps"


async def test_what_was_moved_while_it_was_claimed_is_given_back_where_it_is(
    words: PgVectorMemoryService, claims: Claims, connection: asyncpg.Connection
) -> None:
    first, last = said("kitten", "a"), said("hound", "c")
    await words.add_session_to_memory(session_of(first, last))
    claimed = await claims.claim(*ANA, 10)
    await words.add_session_to_memory(session_of(said("before", "x"), first, last))
    await claims.release(claimed)
    assert {job["lease_expires_at"] for job in await rows(connection)} == {None}
    assert [row["body"] for row in await claims.claim(*ANA, 10)] == [
        "user: before",
        "user: kitten",
        "user: hound",
    ]


async def test_a_failure_is_due_later_and_later(
    words: PgVectorMemoryService, claims: Claims, connection: asyncpg.Connection
) -> None:
    await wait(words, "one")
    delays = []
    for _ in range(9):
        claimed = await claims.claim(*ANA, 10, eager=True)
        await claims.fail(claimed, ValueError("a\x00b"), refused=True)
        (job,) = await rows(connection)
        now = await connection.fetchval("SELECT now()")
        delays.append((job["due_at"] - now).total_seconds())
        assert (job["error"], job["lease_expires_at"]) == ("ValueError: a b", None)
    assert await claims.claim(*ANA, 10) == []
    assert await claims.due_users() == []
    for attempt, delay in enumerate(delays, 1):
        assert 2**attempt / 2 - 1 < delay <= 2**attempt
    await connection.execute("UPDATE memory_jobs SET attempts = 30")
    await claims.fail(await claims.claim(*ANA, 10, eager=True), ValueError("x"), refused=False)
    (job,) = await rows(connection)
    delay = job["due_at"] - await connection.fetchval("SELECT now()")
    assert 299 < delay.total_seconds() <= 600


async def fails_times(
    claims: Claims, connection: asyncpg.Connection, times: int, *, refused: bool
) -> None:
    """Fails one user's work so often, each time when it is due."""
    for _ in range(times):
        await connection.execute("UPDATE memory_jobs SET due_at = now()")
        await claims.fail(await claims.claim(*ANA, 10), ValueError("no"), refused=refused)


async def test_what_is_refused_too_often_is_dead_with_its_error_until_it_is_revived(
    words: PgVectorMemoryService, jobs: Jobs, claims: Claims, connection: asyncpg.Connection
) -> None:
    await wait(words, "one")
    await wait(words, "two", user="other")
    await fails_times(claims, connection, 9, refused=True)
    assert await jobs.backlog(**USER) == Backlog("embed", 1, 1, 0, "ValueError: no")
    await fails_times(claims, connection, 1, refused=True)
    assert await jobs.backlog(**USER) == Backlog("embed", 0, 0, 1, "ValueError: no")
    assert await jobs.backlog() == Backlog("embed", 1, 0, 1, "ValueError: no")
    await connection.execute("UPDATE memory_jobs SET due_at = now()")
    assert await claims.claim(*ANA, 10, eager=True) == []
    assert [each async for each in claims.users(app_name=None, model_id=1)] == [("app", "other")]
    assert await found(words, "one") == ["one"]
    assert await jobs.revive(app_name="other") == 0
    assert await jobs.revive(app_name="app", user_id="other") == 0
    assert await jobs.revive(app_name="app") == 1
    assert await jobs.backlog(**USER) == Backlog("embed", 1, 1, 0, "ValueError: no")
    assert len(await claims.claim(*ANA, 10)) == 1


async def test_jobs_are_everybodys_an_apps_its_own_or_a_users(
    words: PgVectorMemoryService, jobs: Jobs, connection: asyncpg.Connection
) -> None:
    for number, (app, user) in enumerate([("app", "user"), ("app", None), ("other", None)], 1):
        texts = [entry(f"text {each}") for each in range(number)]
        await words.add_memory(app_name=app, user_id=user, memories=texts)
    asked: list[tuple[dict[str, Any], int]] = [
        (USER, 1),
        ({"app_name": "app", "user_id": Users.APP_WIDE}, 2),
        ({"app_name": "app"}, 3),
        ({"user_id": Users.APP_WIDE}, 5),
        ({"user_id": Users.ALL}, 6),
        ({}, 6),
    ]
    for whose, number in asked:
        assert (await jobs.backlog(**whose)).waiting == number
        await connection.execute("UPDATE memory_jobs SET dead = true")
        assert await jobs.revive(**whose) == number
        await jobs.revive()
    with pytest.raises(InvalidInput, match="user_id"):
        await jobs.backlog(app_name="app", user_id="\x00")


async def test_what_is_down_uses_up_no_attempt(
    words: PgVectorMemoryService, claims: Claims, connection: asyncpg.Connection
) -> None:
    await wait(words, "one")
    await fails_times(claims, connection, 30, refused=False)
    (job,) = await rows(connection)
    assert (job["attempts"], job["dead"], job["error"]) == (0, False, "ValueError: no")


async def test_tries_before_it_is_due_kill_nothing(
    words: PgVectorMemoryService, jobs: Jobs, claims: Claims, connection: asyncpg.Connection
) -> None:
    """Ten ingests within a second of an outage gave up what they had just remembered."""
    await wait(words, "one")
    for _ in range(30):
        await claims.fail(await claims.claim(*ANA, 10, eager=True), ValueError("no"), refused=True)
    (job,) = await rows(connection)
    assert (job["attempts"], job["dead"]) == (30, False)
    await fails_times(claims, connection, 1, refused=True)
    assert (await jobs.backlog()).dead == 1


async def test_ingests_while_a_custom_embedder_is_down_lose_no_vector(database: Database) -> None:
    async def breaks(_texts: list[str]) -> list[list[float]]:
        raise RuntimeError("some socket")

    embedder = BrokenEmbedder(failure=breaks)
    memory = PgVectorMemoryService(database, embedder=embedder)
    for number in range(15):
        await memory.add_memory(**USER, memories=[entry(f"kitten {number}")])
    embedder.failure = None
    assert await memory.embed_pending() == 15
    assert len(await found(memory, "feline")) == 15


async def test_what_is_released_is_due_as_it_was(
    words: PgVectorMemoryService, claims: Claims, connection: asyncpg.Connection
) -> None:
    await wait(words, "one")
    await claims.fail(await claims.claim(*ANA, 10), ValueError("no"), refused=True)
    before = await rows(connection)
    await claims.release(await claims.claim(*ANA, 10, eager=True))
    assert await rows(connection) == before
    await claims.release([])
    await claims.complete([])


async def test_one_refused_text_holds_up_no_other(
    words: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    async def refuses(texts: list[str]) -> list[list[float]]:
        if any("poison" in text for text in texts):
            raise ValueError("too long")
        return await ToyEmbedder().embed_documents(texts)

    await wait(words, *(f"kitten {n}" for n in range(5)), "poison", "kitten 6")
    memory = PgVectorMemoryService(database, embedder=BrokenEmbedder(failure=refuses))
    for _ in range(10):
        with pytest.raises(ModelError):
            await memory.embed_pending()
        await connection.execute("UPDATE memory_jobs SET due_at = now()")
    assert await memory.embed_pending() == 0
    (job,) = await rows(connection)
    assert (job["dead"], job["attempts"]) == (True, 10)
    assert "ValueError" in job["error"]
    assert len(await found(memory, "feline", mode="vector", top_k=20)) == 6


async def test_an_embedder_that_is_down_keeps_everything_waiting(
    words: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    async def down(_texts: list[str]) -> list[list[float]]:
        raise ConnectionRefusedError("somewhere")

    await wait(words, "kitten", "hound")
    embedder = BrokenEmbedder(failure=down)
    memory = PgVectorMemoryService(database, embedder=embedder)
    for _ in range(20):
        with pytest.raises(ModelUnavailable):
            await memory.embed_pending()
    assert [(job["attempts"], job["dead"]) for job in await rows(connection)] == [(0, False)] * 2
    embedder.failure = None
    assert await memory.embed_pending() == 2


async def test_a_claim_cancelled_anywhere_leaves_nothing_claimed(
    words: PgVectorMemoryService, claims: Claims, connection: asyncpg.Connection
) -> None:
    await wait(words, "one", "two")
    for steps in range(40):
        call = asyncio.ensure_future(claims.claim(*ANA, 10))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await claims.release(await call)
        left = [(job["lease_expires_at"], job["attempts"]) for job in await rows(connection)]
        assert left == [(None, 0)] * 2


async def test_work_cancelled_anywhere_is_given_back(
    words: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    await wait(words, "one", "two")
    for steps in range(0, 120, 3):
        memory = PgVectorMemoryService(database, embedder=GatedEmbedder())
        call = asyncio.ensure_future(memory.embed_pending())
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        assert [job["lease_expires_at"] for job in await rows(connection)] == [None, None]
    gated = GatedEmbedder()
    call = asyncio.ensure_future(PgVectorMemoryService(database, embedder=gated).embed_pending())
    await gated.asked.wait()
    assert all(job["lease_expires_at"] for job in await rows(connection))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [(job["lease_expires_at"], job["attempts"]) for job in await rows(connection)] == [
        (None, 0)
    ] * 2


async def test_a_release_without_a_connection_lets_the_lease_lapse(
    words: PgVectorMemoryService, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    await wait(words, "one")
    async with Database(proxy.url, settings=Settings(retry_timeout_s=0.3)) as own:
        claims = Claims(own, work="embed")
        claimed = await claims.claim(*ANA, 10)
        proxy.lose_answers = 1_000
        await claims.release(claimed)
        assert "lease lapses" in caplog.text
        with pytest.raises(DatabaseUnavailable):
            await claims.complete(claimed)


async def test_backlog_of_nothing_is_nothing(jobs: Jobs, claims: Claims) -> None:
    assert await jobs.backlog() == Backlog("embed", 0, 0, 0, None)
    assert await jobs.revive() == 0
    assert await claims.due_users() == []
