"""An embedder behind deadlines: what it may do, and what a search pays for it."""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest
import tenacity

from adkpg import Settings
from adkpg.embedding import CallableEmbedder
from adkpg.embedding.guarded import GuardedEmbedder
from adkpg.errors import ModelError, ModelUnavailable
from adkpg.outages.breaker import Breakers
from tests.fakes.clock import Clock

pytestmark = pytest.mark.fault

SHORT_S, LONG_S = 0.05, 60.0


PROBE = 1  # a harmless text, which tells a refusal from an outage


async def answered(text: str) -> list[float]:
    return [0.1, float(len(text))]


async def hangs(_text: str) -> list[float]:
    await asyncio.Event().wait()
    raise AssertionError


async def refused(_text: str) -> list[float]:
    raise ConnectionRefusedError


class Model:
    """Keeps what it was asked, and answers as `answer` does."""

    dimensions = 2

    def __init__(self, model: str = "model") -> None:
        self.model = model
        self.asked: list[str] = []
        self.answer: Callable[[str], Awaitable[list[float]]] = answered

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        self.asked.append(text)
        return await self.answer(text)


def guarded(embedder: Any, clock: Clock | None = None, **settings: Any) -> GuardedEmbedder:
    given = {"search_timeout_s": LONG_S, "embedding_timeout_s": LONG_S} | settings
    return GuardedEmbedder(embedder, Breakers(clock or Clock()), Settings(**given))


async def test_a_repeated_question_costs_no_call() -> None:
    model = Model()
    asking = guarded(model)
    first = await asking.question("why?")
    assert await asking.question("why?") == first == [0.1, 4.0]
    assert model.asked == ["why?"]


async def test_a_question_that_is_refused_is_asked_by_its_ends_once() -> None:
    """A short one is not: it is refused for something else."""

    async def up_to_300(text: str) -> list[float]:
        if len(text) > 300:
            raise ValueError("too long")
        return await answered(text)

    model = Model()
    model.answer = up_to_300
    asking = guarded(model)
    question = f"First this. {'word ' * 200}Last that."
    first = await asking.question(question)
    assert await asking.question(question) == first
    *refused_ones, last = map(len, model.asked)
    assert refused_ones == [len(question), pytest.approx(len(question) / 2, abs=20)]
    assert 200 < last <= 300
    assert model.asked[-1].startswith("First this. word")
    assert model.asked[-1].endswith("word Last that.")

    async def nothing(_text: str) -> list[float]:
        raise ValueError("no")

    model.answer = nothing
    for text, calls in (("x" * 1_000, 5 + PROBE), ("why?", 1 + PROBE)):
        model.asked.clear()
        asking.forgive()
        with pytest.raises(ModelError, match="ValueError"):
            await asking.question(text)
        assert len(model.asked) == calls


async def test_the_question_unused_for_longest_goes_first() -> None:
    model = Model()
    asking = guarded(model, query_cache_size=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await asking.question(text)
    assert model.asked == ["a", "b", "c", "b"]


async def test_a_cache_of_none_asks_each_time() -> None:
    model = Model()
    asking = guarded(model, query_cache_size=0)
    await asking.question("a")
    await asking.question("a")
    assert model.asked == ["a", "a"]


async def test_callers_cannot_change_what_is_kept() -> None:
    asking = guarded(Model())
    together = await asyncio.gather(asking.question("a"), asking.question("a"))
    together[0].clear()
    assert together[1] == [0.1, 1.0]
    (await asking.question("a")).clear()
    assert await asking.question("a") == [0.1, 1.0]


async def test_a_failure_is_not_remembered() -> None:
    async def raises(_text: str) -> list[float]:
        raise RuntimeError("down")

    model = Model()
    asking = guarded(model)
    model.answer = raises
    with pytest.raises(ModelError):
        await asking.question("a")
    model.answer = answered
    asking.forgive()
    assert await asking.question("a") == [0.1, 1.0]


def test_it_serves_loops_in_turn() -> None:
    model = Model()
    asking = guarded(model)
    assert [asyncio.run(asking.question("a")) for _ in range(2)] == [[0.1, 1.0]] * 2
    assert model.asked == ["a"]


async def test_who_asks_the_same_at_once_makes_one_call() -> None:
    gate = asyncio.Event()

    async def waits(text: str) -> list[float]:
        await gate.wait()
        return await answered(text)

    model = Model()
    model.answer = waits
    asking = guarded(model)
    callers = [asyncio.create_task(asking.question("why?")) for _ in range(5)]
    while not model.asked:
        await asyncio.sleep(0)
    callers[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await callers[0]
    gate.set()
    assert await asyncio.gather(*callers[1:]) == [[0.1, 4.0]] * 4
    assert model.asked == ["why?"]


async def test_the_last_caller_that_is_cancelled_ends_the_call() -> None:
    ended = asyncio.Event()

    async def waits(_text: str) -> list[float]:
        try:
            return await hangs("")
        finally:
            ended.set()

    model = Model()
    model.answer = waits
    asking = guarded(model)
    caller = asyncio.create_task(asking.question("why?"))
    while not model.asked:
        await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await asyncio.wait_for(ended.wait(), 30)
    model.answer = answered
    assert await asking.question("why?") == [0.1, 4.0], "no one's cancellation is remembered"


async def test_a_search_gives_up_a_hanging_embedder_and_the_next_asks_nobody() -> None:
    model = Model()
    model.answer = hangs
    asking = guarded(model, search_timeout_s=SHORT_S)
    with pytest.raises(ModelUnavailable, match=r"within 0\.05 s.*ADKPG_SEARCH_TIMEOUT_S"):
        await asking.question("one")
    with pytest.raises(ModelUnavailable, match="not asked for another") as caught:
        await asking.question("two")
    assert not caught.value.asked
    assert model.asked == ["one"]
    assert await asking.documents([]) == [], "batches have more time, and are asked for"


async def test_an_answer_that_came_too_late_is_kept_and_ends_the_pause() -> None:
    gate = asyncio.Event()

    async def waits(text: str) -> list[float]:
        await gate.wait()
        return await answered(text)

    model = Model()
    model.answer = waits
    asking = guarded(model, search_timeout_s=SHORT_S)
    with pytest.raises(ModelUnavailable):
        await asking.question("one")
    gate.set()
    async with asyncio.timeout(30):
        while "kept" not in model.asked:
            try:
                await asking.question("kept")
            except ModelUnavailable:
                await asyncio.sleep(0)
    assert await asking.question("one") == [0.1, 3.0]
    assert model.asked == ["one", "kept"]


async def test_a_batch_that_hangs_ends_at_its_deadline_and_costs_the_others_nothing() -> None:
    model = Model()
    model.answer = hangs
    asking = guarded(model, embedding_timeout_s=SHORT_S)
    with pytest.raises(ModelUnavailable, match=r"within 0\.05 s.*ADKPG_EMBEDDING_TIMEOUT_S"):
        await asking.documents(["one"])
    for call in (asking.documents(["two"]), asking.question("three")):
        with pytest.raises(ModelUnavailable, match="not asked for another"):
            await call
    assert model.asked == ["one"]


async def test_a_service_that_is_away_is_asked_once_a_pause_by_all() -> None:
    clock, model = Clock(), Model()
    model.answer = refused
    asking = guarded(model, clock)
    for _ in range(4):
        before = len(model.asked)
        for ask in (asking.question("q"), asking.documents(["d"]), asking.question("again")):
            with pytest.raises(ModelUnavailable):
                await ask
        assert len(model.asked) == before + 1
        assert asking.pause_s() > 0
        clock.now += 10
    model.answer = answered
    assert await asking.question("q") == [0.1, 1.0]
    assert asking.pause_s() == 0.0


async def test_two_who_share_an_embedder_share_its_outage() -> None:
    breakers, model = Breakers(Clock()), Model()
    model.answer = refused
    one, two = (GuardedEmbedder(model, breakers, Settings()) for _ in range(2))
    with pytest.raises(ModelUnavailable):
        await one.documents(["d"])
    with pytest.raises(ModelUnavailable):
        await two.question("q")
    assert len(model.asked) == 1


def test_threads_with_a_loop_each_share_its_outage() -> None:
    model = Model()
    model.answer = refused
    asking = guarded(model)
    failures: list[bool] = []

    async def ask() -> None:
        try:
            await asking.question("q")
        except ModelUnavailable as exc:
            failures.append(exc.asked)

    for _ in range(3):
        thread = threading.Thread(target=lambda: asyncio.run(ask()))
        thread.start()
        thread.join()
    assert failures == [True, False, False]


async def test_a_refused_text_sends_no_one_away() -> None:
    async def short(text: str) -> list[float]:
        return [1.0] if text in "qr" else await answered(text)

    model = Model()
    model.answer = short
    asking = guarded(model)
    for _ in range(3):
        with pytest.raises(ModelError) as caught:
            await asking.question("q")
        assert not isinstance(caught.value, ModelUnavailable)
    assert len(model.asked) == 3 * (1 + PROBE)
    model.asked.clear()
    with pytest.raises(ModelError) as caught:
        await asking.documents(["q"])
    assert not isinstance(caught.value, ModelUnavailable)
    assert len(model.asked) == 2 + PROBE, "alone, it is asked again after the proof"
    model.asked.clear()
    with pytest.raises(ModelError):
        await asking.documents(["q", "r"])
    assert model.asked[0] == "q"
    assert asking.pause_s() == 0.0


async def test_what_ends_between_a_text_and_the_proof_was_an_outage() -> None:
    async def once(text: str) -> list[float]:
        if len(model.asked) == 1:
            raise RuntimeError("away")
        return await answered(text)

    model = Model()
    model.answer = once
    assert await guarded(model).documents(["d"]) == [[0.1, 1.0]]


def chained() -> Exception:
    try:
        try:
            raise ConnectionResetError
        except ConnectionResetError:
            raise RuntimeError("pool")  # noqa: B904 - as libraries do
    except RuntimeError as exc:
        return exc


@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("away"),
        KeyError("data"),
        ValueError(),
        OSError(113, "No route to host"),
        ssl.SSLError(1, "certificate verify failed"),
        chained(),
        tenacity.RetryError(tenacity.Future(1)),
        [],
        [[float("nan"), 1.0]],
        [[1.0]],
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("use", ["question", "documents", "warm"])
async def test_what_fails_whatever_it_is_asked_is_away(failure: Any, use: str) -> None:
    class Failing(Model):
        async def embed_documents(self, texts: list[str]) -> Any:
            self.asked += texts
            if isinstance(failure, Exception):
                raise failure
            return failure * len(texts)

        async def embed_query(self, text: str) -> Any:
            [vector] = await self.embed_documents([text])
            return vector

        async def warm(self) -> None:
            if use == "warm":
                self.asked.append("")
                raise failure if isinstance(failure, Exception) else RuntimeError

    model = Failing()
    asking = guarded(model)
    for _ in range(3):
        with pytest.raises(ModelUnavailable):
            await (asking.question("q") if use == "question" else asking.documents(["d"]))
    assert len(model.asked) == (1 if use == "warm" else 1 + PROBE), "nobody asks while it is away"
    assert asking.pause_s() > 0.0


@pytest.mark.parametrize(
    "answer",
    ["12", b"12", ["0.5", "1"], [b"12", b"2"], [float("nan"), 1.0], [1.0], None, [None, 1.0]],
)
async def test_what_is_no_vector_is_a_mismatch(answer: Any) -> None:
    async def lies(_text: str) -> list[float]:
        return answer  # type: ignore[no-any-return] # it lies

    model = Model()
    model.answer = lies
    with pytest.raises(ModelError):
        await guarded(model).question("q")


async def test_an_embedder_that_cancels_itself_cancels_no_search() -> None:
    async def cancels(_text: str) -> list[float]:
        raise asyncio.CancelledError

    model = Model()
    model.answer = cancels
    with pytest.raises(ModelUnavailable, match="ConnectionAbortedError"):
        await guarded(model).question("q")


async def test_an_answer_that_fails_while_it_is_read_is_an_error_of_ours() -> None:
    class Lazy(Model):
        known: ClassVar[dict[str, list[float]]] = {}

        async def embed_documents(self, texts: list[str]) -> Any:
            return (self.known[text] for text in texts)

    with pytest.raises(ModelError, match="KeyError"):
        await guarded(Lazy()).documents(["d"])


class Loading(Model):
    """Loads for as long as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.loads = 0

    async def warm(self) -> None:
        self.loads += 1
        await self.gate.wait()


async def test_the_first_search_waits_for_the_loading_however_long_it_takes() -> None:
    model = Loading()
    asking = guarded(model, search_timeout_s=SHORT_S)
    search = asyncio.create_task(asking.question("why?"))
    done, _ = await asyncio.wait({search}, timeout=4 * SHORT_S)
    assert not done
    model.gate.set()
    assert await search == [0.1, 4.0]
    await asking.question("again")
    assert model.loads == 1


async def test_a_warmed_embedder_is_loaded_before_the_first_search() -> None:
    model = Loading()
    model.gate.set()
    asking = guarded(model)
    await asking.warm(None)
    assert (model.loads, model.asked) == (1, ["warm"])
    await asking.question("why?")
    assert (model.loads, model.asked) == (1, ["warm", "why?"])


async def test_warming_has_a_deadline_and_asks_one_that_is_away() -> None:
    model = Model()
    model.answer = hangs
    asking = guarded(model)
    with pytest.raises(ModelUnavailable, match=r"within 0\.05 s"):
        await asking.warm(SHORT_S)
    model.answer = answered
    await asking.warm(None)
    assert await asking.question("why?") == [0.1, 4.0]


async def test_a_function_that_blocks_is_given_up_in_its_thread_and_not_called_for_ever() -> None:
    release, calls = threading.Event(), 0

    def blocks(texts: list[str]) -> list[list[float]]:
        nonlocal calls
        calls += 1
        release.wait()
        return [[1.0, 2.0] for _ in texts]

    clock = Clock()
    embedder = CallableEmbedder(blocks, model="blocks", dimensions=2, concurrency=1, max_retries=0)
    asking = guarded(embedder, clock, search_timeout_s=SHORT_S, embedding_timeout_s=SHORT_S)
    try:
        for number in range(6):
            with pytest.raises(ModelUnavailable):
                await asking.question(str(number))
            while asking.pause_s() == 0.0:  # until the call is given up too
                await asyncio.sleep(0.001)
            clock.now += 1_000
        assert calls == 2
    finally:
        release.set()
