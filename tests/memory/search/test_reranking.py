"""Searches whose best hits a reranker orders, or fails to."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import Database, Hit, PgVectorMemoryService, Settings
from adkpg.errors import ConfigurationError, InvalidInput, ModelError
from adkpg.memory.records import text_of
from adkpg.reranking import TEIReranker
from adkpg.tooling.testing import said
from tests.fakes.embedding_server import EmbeddingServer, Reply, Request

USER: Any = {"app_name": "app", "user_id": "ana"}


class Ordering:
    """Prefers passages as a function says, and keeps what it was asked."""

    model = "ordering"

    def __init__(self, score: Callable[[str], float]) -> None:
        self._score = score
        self.asked: list[tuple[str, list[str]]] = []

    async def scores(self, question: str, passages: list[str]) -> list[float]:
        self.asked.append((question, passages))
        return [self._score(passage) for passage in passages]


def note(text: str, **fields: Any) -> MemoryEntry:
    content = types.Content(parts=[types.Part(text=text)])
    return MemoryEntry(content=content, author="ana", **fields)


BIKES = [
    "The bike is in the shed.",
    "My bike is red.",
    "A bike path leads to the lake by the mill.",
]


async def service(database: Database, reranker: Any, **options: Any) -> PgVectorMemoryService:
    memory = PgVectorMemoryService(database, mode="text", reranker=reranker, **options)
    await memory.add_memory(**USER, memories=[note(text) for text in BIKES])
    await memory.add_memory(app_name="app", user_id="bob", memories=[note("Bob's bike is blue.")])
    return memory


async def ask(memory: PgVectorMemoryService, **options: Any) -> list[Hit]:
    return await memory.search(**USER, query="Which bike?", **options)


def texts(hits: Sequence[Hit]) -> list[str]:
    return [text_of(hit.memory.content) for hit in hits]


async def test_a_reranker_orders_the_best_hits(database: Database) -> None:
    reranker = Ordering(lambda passage: float(len(passage)))
    memory = await service(database, reranker)
    hits = await ask(memory)
    assert texts(hits) == sorted(BIKES, key=len, reverse=True)
    assert [hit.reason.rerank for hit in hits] == [len(f"ana: {text}") for text in texts(hits)]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert (hits[0].score, hits[-1].score) == (1, 0)
    assert all(hit.reason.fused_alone is None for hit in hits)
    ((question, passages),) = reranker.asked
    assert question == "Which bike?"
    assert sorted(passages) == sorted(f"ana: {text}" for text in BIKES), "and nobody else's"
    response = await memory.search_memory(**USER, query="Which bike?")
    assert [text_of(entry.content) for entry in response.memories] == texts(hits)


async def test_it_looks_at_more_hits_than_are_asked_for(database: Database) -> None:
    reranker = Ordering(lambda passage: float(len(passage)))
    memory = await service(database, reranker)
    (hit,) = await ask(memory, top_k=1)
    assert texts([hit]) == [max(BIKES, key=len)]
    assert len(reranker.asked[-1][1]) == 3
    few = Settings(rerank_candidates=2)
    async with Database(engine=await database.engine(), settings=few) as narrow:
        memory = PgVectorMemoryService(narrow, mode="text", reranker=reranker)
        await ask(memory, top_k=1)
        assert len(reranker.asked[-1][1]) == 2
        hits = await ask(memory, top_k=3)
        assert len(reranker.asked[-1][1]) == 2
        assert [hit.reason.rerank is None for hit in hits] == [False, False, True]
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True), "what it did not see follows"


async def test_without_one_or_switched_off_nothing_changes(database: Database) -> None:
    reranker = Ordering(lambda passage: float(len(passage)))
    memory = await service(database, reranker)
    plain = await ask(PgVectorMemoryService(database, mode="text"))
    off = await ask(memory, rerank=False)
    assert off == plain
    assert all(hit.reason.rerank is None for hit in off)
    assert reranker.asked == []
    assert await memory.search(**USER, query="zebra") == []
    assert reranker.asked == [], "nothing to order"
    same = Ordering(lambda _: 7.0)
    alike = await ask(PgVectorMemoryService(database, mode="text", reranker=same))
    assert texts(alike) == texts(plain)
    assert [hit.score for hit in alike] == [hit.score for hit in plain]
    with pytest.raises(InvalidInput, match="rerank"):
        await ask(memory, rerank=1)


async def test_factors_and_what_follows_hold(database: Database) -> None:
    reranker = Ordering(lambda passage: -1e308 if "old" in passage else 1e308)
    memory = PgVectorMemoryService(database, mode="text", reranker=reranker)
    await memory.add_memory(
        **USER,
        memories=[
            note("My old bike.", timestamp="2026-01-01T00:00:00Z"),
            note("My bike of yore.", timestamp="2016-01-01T00:00:00Z"),
            note("My bike of today.", timestamp="2126-01-01T00:00:00Z"),
        ],
    )
    hits = await ask(memory, half_life=timedelta(days=365))
    assert texts(hits) == ["My bike of today.", "My bike of yore.", "My old bike."]
    assert hits[1].score == pytest.approx(hits[1].reason.recency)
    assert texts(await ask(memory, max_tokens=6)) == ["My bike of today."]


async def test_neighbours_come_with_their_own_hit(database: Database) -> None:
    reranker = Ordering(lambda passage: float("tea" in passage))
    memory = PgVectorMemoryService(database, mode="text", reranker=reranker)
    for name, lines in (
        ("s1", ["The bike is here.", "It rains."]),
        ("s2", ["A bike and tea.", "Yes."]),
    ):
        await memory.add_events_to_memory(
            **USER, session_id=name, events=[said(line) for line in lines]
        )
    hits = await ask(memory, neighbours=1)
    first = hits[0]
    assert texts([first]) == ["A bike and tea."]
    assert [text_of(each.content) for each in first.neighbours] == ["Yes."]


class Failing:
    model = "failing"

    def __init__(self, fail: Callable[[], Any]) -> None:
        self.fail = fail
        self.calls = 0

    async def scores(self, question: str, passages: list[str]) -> Any:
        self.calls += 1
        answer = self.fail()
        return await answer if asyncio.iscoroutine(answer) else answer


def refuse() -> None:
    raise ConnectionError("http://user:secret@host")


@pytest.mark.fault
@pytest.mark.parametrize(
    ("fail", "said"),
    [
        (refuse, "cannot answer now"),
        (lambda: [1.0], "1 scores for 3"),
        (lambda: [1.0, 2.0, float("nan")], "finite"),
        (lambda: ["1", "2", "3"], "else than numbers"),
        (lambda: "123", "else than numbers"),
        (lambda: None, "else than numbers"),
        (lambda: asyncio.sleep(3600), "gave no answer within 0.05 s"),
    ],
)
async def test_a_failure_or_delay_leaves_the_order(
    database_url: str, fail: Callable[[], Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Database(database_url, settings=Settings(rerank_timeout_s=0.05)) as database:
        reranker = Failing(fail)
        memory = await service(database, reranker)
        plain = await ask(memory, rerank=False)
        with caplog.at_level(logging.WARNING, "adkpg"):
            hits = await ask(memory)
        assert texts(hits) == texts(plain)
        assert [hit.score for hit in hits] == [hit.score for hit in plain]
        assert all(said in (hit.reason.fused_alone or "") for hit in hits)
        assert all(hit.reason.rerank is None for hit in hits)
        assert "secret" not in caplog.text
        assert caplog.text.count("keeps its own order") == 1


@pytest.mark.fault
async def test_one_that_fails_with_anything_is_away_and_not_asked_by_the_next_search(
    database: Database,
) -> None:
    def fail() -> None:
        raise KeyError("results")

    reranker = Failing(fail)
    memory = await service(database, reranker)
    for _ in range(3):
        hits = await ask(memory)
        assert all("KeyError" in (hit.reason.fused_alone or "") for hit in hits)
    assert reranker.calls == 2, "the first search's, and whether it answers anything"


@pytest.mark.fault
async def test_one_that_is_away_is_not_asked_and_comes_back(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    reranker = Failing(refuse)
    memory = await service(database, reranker)
    with caplog.at_level(logging.WARNING, "adkpg"):
        for _ in range(3):
            hits = await ask(memory)
    assert reranker.calls == 1
    assert "away" in (hits[0].reason.fused_alone or "")
    assert caplog.text.count("keeps its own order") == 1
    reranker.fail = lambda: [3.0, 2.0, 1.0]
    database.breakers.of(reranker, "rerank").forgive()
    assert (await ask(memory))[0].reason.rerank == 3


@pytest.mark.fault
async def test_a_cancelled_search_ends_its_reranker(database: Database) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    reranker = Failing(hang)
    memory = await service(database, reranker)
    task = asyncio.create_task(ask(memory))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ended.wait()
    reranker.fail = lambda: [3.0, 2.0, 1.0]
    assert (await ask(memory))[0].reason.rerank == 3, "a cancelled call opens no breaker"


@pytest.mark.fault
async def test_a_service_that_keeps_silent_and_then_answers(database_url: str) -> None:
    silent = True

    def answer(request: Request) -> Reply:
        texts = enumerate(request.body["texts"])
        scores = [{"index": place, "score": len(text) / 100} for place, text in texts]
        return Reply(scores, silent=silent)

    server = EmbeddingServer(answer)
    try:
        async with Database(database_url, settings=Settings(rerank_timeout_s=0.2)) as database:
            reranker = TEIReranker(server.url)
            memory = await service(database, reranker)
            assert (await ask(memory))[0].reason.fused_alone is not None
        silent = False
        async with Database(database_url, settings=Settings(rerank_timeout_s=30)) as database:
            memory = PgVectorMemoryService(database, mode="text", reranker=reranker)
            assert texts(await ask(memory)) == sorted(BIKES, key=len, reverse=True)
    finally:
        server.close()


async def test_warming_loads_it(database: Database) -> None:
    class Loading(Ordering):
        loaded = 0

        async def warm(self) -> None:
            self.loaded += 1

    reranker = Loading(len)
    memory = PgVectorMemoryService(database, mode="text", reranker=reranker)
    await memory.warm()
    assert reranker.loaded == 1

    class Hanging(Ordering):
        async def warm(self) -> None:
            await asyncio.Event().wait()

    with pytest.raises(ModelError, match="no answer within"):
        await PgVectorMemoryService(database, mode="text", reranker=Hanging(len)).warm(
            timeout_s=0.01
        )


@pytest.mark.parametrize("given", [object(), Ordering, "tei"])
def test_what_is_no_reranker_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not a reranker"):
        PgVectorMemoryService("postgresql://localhost/none", mode="text", reranker=given)


async def test_of_a_long_memory_it_sees_the_passage_that_matched(database: Database) -> None:
    reranker = Ordering(len)
    memory = PgVectorMemoryService(database, mode="text", reranker=reranker)
    filler = "Rain fell on the roofs of the town all through that long and quiet week. " * 60
    await memory.add_memory(
        **USER, memories=[note(f"{filler}My bike is locked behind the mill. {filler}")]
    )
    (hit,) = await ask(memory)
    ((_, (passage,)),) = reranker.asked
    assert passage == f"ana: {hit.reason.passage}"
    assert "My bike is locked" in passage
    assert len(passage) < len(filler)
