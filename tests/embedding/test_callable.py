import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from adkpg.embedding import CallableEmbedder, Embedder
from adkpg.embedding.embedder import embed_checked, weight_of
from adkpg.errors import (
    ConfigurationError,
    ModelError,
    ModelUnavailable,
)
from tests.fakes.embedding_functions import DIMENSIONS, embedder_of, vectors_of
from tests.fakes.embedding_server import vector_of


async def vectors_of_async(texts: list[str]) -> list[list[float]]:
    return vectors_of(texts)


class Model:
    """Keeps what it was asked; fails as it is told."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.failures: list[Exception] = []

    async def __call__(self, texts: list[str]) -> list[list[float]]:
        self.asked.append(texts)
        if self.failures:
            raise self.failures.pop(0)
        return vectors_of(texts)


@pytest.mark.parametrize(
    "function",
    [
        vectors_of,
        vectors_of_async,
        Model(),
        functools.partial(vectors_of_async),
        lambda texts: vectors_of_async(texts),
        lambda texts: np.array(vectors_of(texts), np.float32),
        lambda texts: (vector for vector in vectors_of(texts)),
    ],
    ids=["sync", "async", "object", "partial", "lambda", "numpy", "generator"],
)
async def test_any_function_embeds(function: Callable[[list[str]], Any]) -> None:
    embedder = embedder_of(function, weight=0.3)
    assert isinstance(embedder, Embedder)
    assert weight_of(embedder) == 0.3
    texts = ["a", "user: hello", "three"]
    vectors = await embed_checked(embedder, texts)
    assert vectors == vectors_of(texts)
    assert all(type(number) is float for vector in vectors for number in vector)
    assert await embedder.embed_query("why?") == vector_of("why?", DIMENSIONS)


async def question(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.0, 0.0]


@pytest.mark.parametrize("query", [question, lambda text: np.array([len(text), 1, 0, 0])])
async def test_questions_may_have_a_function_of_their_own(query: Callable[[str], Any]) -> None:
    embedder = embedder_of(vectors_of, query=query)
    assert await embedder.embed_query("why?") == [4.0, 1.0, 0.0, 0.0]
    assert await embedder.embed_documents(["why?"]) == vectors_of(["why?"])


async def test_no_texts_cost_no_call() -> None:
    model = Model()
    assert await embedder_of(model).embed_documents([]) == []
    assert model.asked == []


async def test_a_repeated_text_is_asked_for_once() -> None:
    model = Model()
    embedder = embedder_of(model)
    assert await embedder.embed_documents(["a", "b", "a"]) == vectors_of(["a", "b", "a"])
    assert await embedder.embed_documents(["c", "b"]) == vectors_of(["c", "b"])
    assert model.asked == [["a", "b"], ["c"]]


async def test_the_text_unused_for_longest_is_forgotten_first() -> None:
    model = Model()
    embedder = embedder_of(model, cache_size=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        assert await embedder.embed_documents([text]) == vectors_of([text])
    assert model.asked == [["a"], ["b"], ["c"], ["b"]]


async def test_a_call_larger_than_the_cache_is_answered_in_full() -> None:
    model = Model()
    embedder = embedder_of(model, cache_size=0, batch_size=2)
    texts = ["a", "b", "c", "a"]
    for _ in range(2):
        assert await embedder.embed_documents(texts) == vectors_of(texts)
    assert sorted(text for batch in model.asked for text in batch) == ["a", "a", "b", "b", "c", "c"]


async def test_callers_cannot_change_what_is_kept_or_share_rows() -> None:
    embedder = embedder_of(vectors_of)
    one, two = await embedder.embed_documents(["a", "a"])
    one.clear()
    assert two == vector_of("a", DIMENSIONS)
    assert await embedder.embed_documents(["a"]) == vectors_of(["a"])


async def test_the_cache_keeps_no_words() -> None:
    embedder = embedder_of(vectors_of)
    await embedder.embed_documents(["my secret"])
    kept = embedder._calls._cache._vectors
    assert len(kept) == 1
    assert "secret" not in repr(kept)


async def test_lone_surrogates_never_reach_the_function() -> None:
    model = Model()
    await embedder_of(model).embed_documents(["a\ud800"])
    assert model.asked == [["a?"]]


async def test_texts_go_in_batches_and_come_back_in_order() -> None:
    model = Model()
    texts = [f"text {'x' * n}" for n in range(7)]
    vectors = await embedder_of(model, batch_size=3, concurrency=1).embed_documents(texts)
    assert vectors == vectors_of(texts)
    assert [len(batch) for batch in model.asked] == [3, 3, 1]


async def test_as_many_calls_run_at_once_as_allowed_and_no_more() -> None:
    pair = asyncio.Barrier(2)
    running: set[str] = set()
    most = 0

    async def in_pairs(texts: list[str]) -> list[list[float]]:
        nonlocal most
        running.add(texts[0])
        most = max(most, len(running))
        await pair.wait()
        running.discard(texts[0])
        return vectors_of(texts)

    embedder = embedder_of(in_pairs, batch_size=1, concurrency=2)
    calls = (embedder.embed_documents([f"{n}a", f"{n}b"]) for n in range(4))
    await asyncio.gather(*calls)
    assert most == 2


async def test_a_question_never_waits_behind_batches() -> None:
    gate = asyncio.Event()

    async def gated(texts: list[str]) -> list[list[float]]:
        await gate.wait()
        return vectors_of(texts)

    embedder = embedder_of(gated, query=question, batch_size=1, concurrency=1)
    batches = asyncio.create_task(embedder.embed_documents(["a", "b", "c"]))
    await asyncio.wait_for(embedder.embed_query("why?"), timeout=10)
    assert not batches.done()
    gate.set()
    assert await batches == vectors_of(["a", "b", "c"])


def test_one_embedder_serves_loops_in_turn() -> None:
    embedder = embedder_of(vectors_of_async, batch_size=1, concurrency=1, cache_size=0)
    texts = ["a", "b", "c"]  # more batches than may run, so that some wait
    for _ in range(2):
        assert asyncio.run(embedder.embed_documents(texts)) == vectors_of(texts)


async def test_a_failed_batch_stops_the_others_and_keeps_what_is_done() -> None:
    stopped = asyncio.Event()

    async def one_fails(texts: list[str]) -> list[list[float]]:
        if texts == ["bad"]:
            raise ValueError("too long")
        if texts == ["slow"]:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
        asked.extend(texts)
        return vectors_of(texts)

    asked: list[str] = []
    embedder = embedder_of(one_fails, batch_size=1, concurrency=3)
    with pytest.raises(ModelError, match="ValueError"):
        await embedder.embed_documents(["good", "slow", "bad"])
    assert stopped.is_set()
    await embedder.embed_documents(["good"])
    assert asked == ["good"]


async def test_a_cancelled_call_cancels_the_function() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def forever(_texts: list[str]) -> list[list[float]]:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return []

    task = asyncio.create_task(embedder_of(forever).embed_documents(["a"]))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped.is_set()


async def test_an_async_function_that_keeps_silent_is_asked_again_then_unavailable() -> None:
    calls = 0

    async def silent(_texts: list[str]) -> list[list[float]]:
        nonlocal calls
        calls += 1
        await asyncio.Event().wait()
        return []

    embedder = embedder_of(silent, timeout_s=0.01, max_retries=1)
    with pytest.raises(ModelUnavailable, match=r"within 0\.01 s.*timeout_s") as caught:
        await embedder.embed_documents(["a"])
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert calls == 2


async def test_a_sync_function_that_keeps_silent_is_left_alone_in_its_thread() -> None:
    calls, release = 0, threading.Event()

    def silent(texts: list[str]) -> list[list[float]]:
        nonlocal calls
        calls += 1
        release.wait()
        return vectors_of(texts)

    try:
        with pytest.raises(ModelUnavailable, match="timeout_s"):
            await embedder_of(silent, timeout_s=0.01).embed_documents(["a"])
    finally:
        release.set()
    assert calls == 1


async def test_a_foreign_error_becomes_ours_with_its_cause() -> None:
    model, error = Model(), RuntimeError("no quota")
    model.failures.append(error)
    with pytest.raises(ModelError, match="RuntimeError") as caught:
        await embedder_of(model).embed_query("a")
    assert caught.value.__cause__ is error
    assert not isinstance(caught.value, ModelUnavailable)
    assert len(model.asked) == 1


async def test_a_failure_is_not_remembered() -> None:
    model = Model()
    model.failures.append(RuntimeError())
    embedder = embedder_of(model)
    with pytest.raises(ModelError):
        await embedder.embed_documents(["a"])
    assert await embedder.embed_documents(["a"]) == vectors_of(["a"])


async def test_an_error_of_ours_passes_unchanged_and_is_not_retried() -> None:
    model, error = Model(), ModelUnavailable("closed until Monday")
    model.failures.append(error)
    with pytest.raises(ModelUnavailable) as caught:
        await embedder_of(model).embed_documents(["a"])
    assert caught.value is error
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([], "0 vectors for 1 texts"),
        ([[1.0] * DIMENSIONS] * 2, "2 vectors for 1 texts"),
        ([[1.0] * 3], "set dimensions=3"),
        ([[float("nan")] * DIMENSIONS], "no cosine"),
        ([[0.0] * DIMENSIONS], "no cosine"),
        ([1.0], "lists of numbers"),
        (None, "lists of numbers"),
    ],
)
async def test_vectors_that_cannot_be_stored_are_a_mismatch(answer: Any, message: str) -> None:
    embedder = embedder_of(lambda texts: answer)
    with pytest.raises(ModelError, match=message):
        await embedder.embed_documents(["a"])
    with pytest.raises(ModelError, match=message):
        await embedder.embed_query("a")


async def test_another_embedder_gets_all_of_it_through_its_methods() -> None:
    inner = embedder_of(vectors_of, query=question)
    outer = embedder_of(inner.embed_documents, query=inner.embed_query, batch_size=1)
    assert await outer.embed_documents(["a", "b"]) == vectors_of(["a", "b"])
    assert await outer.embed_query("why?") == await question("why?")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"model": ""}, "model name"),
        ({"dimensions": 0}, "dimensions"),
        ({"batch_size": 0}, "batch_size"),
        ({"concurrency": 0}, "concurrency"),
        ({"cache_size": -1}, "cache_size"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"max_retries": -1}, "max_retries"),
    ],
)
def test_an_option_that_cannot_work_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        embedder_of(vectors_of, **options)


def test_what_is_not_sent_whole_does_not_fit() -> None:
    limited = CallableEmbedder(vectors_of, model="m", dimensions=2, max_text_bytes=4)
    assert limited.fits("\u00e9\u00e9")
    assert not limited.fits("\u00e9\u00e9.")
    assert CallableEmbedder(vectors_of, model="m", dimensions=2).fits("x" * 1_000_000)
