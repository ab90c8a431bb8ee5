"""Memory in this process: what is its own; threads, loops, failing models, bad input."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.platform import time as platform_time
from google.adk.sessions.session import Session

from adkpg import InMemoryVectorMemoryService, Settings
from adkpg.errors import (
    ConfigurationError,
    EmbedderUnavailable,
    EmbeddingError,
    InvalidInput,
)
from adkpg.remember.policy import RememberPolicy
from adkpg.tools.recall import takes_options
from tests.fakes.conversation import USER, conversation, entry, said, session_of, text_of
from tests.fakes.toys import BrokenEmbedder, GatedEmbedder, ToyEmbedder

MAY = datetime(2026, 5, 7, 12, tzinfo=UTC)


async def test_five_memories_are_found_unless_more_are_asked_for() -> None:
    memory = InMemoryVectorMemoryService(embedder=ToyEmbedder())
    await memory.add_memory(**USER, memories=[entry(f"kitten {n} {'x' * n}") for n in range(9)])
    assert len((await memory.search_memory(**USER, query="kitten")).memories) == 5
    assert len(await memory.search(**USER, query="kitten")) == 5
    assert len(await memory.search(**USER, query="kitten", top_k=7)) == 7
    given: list[dict[str, Any]] = [{"top_k": 2}, {"similarity_top_k": 2}]
    for options in given:
        few = InMemoryVectorMemoryService(embedder=ToyEmbedder(), **options)
        await few.add_memory(**USER, memories=[entry(f"kitten {n}") for n in range(3)])
        assert len((await few.search_memory(**USER, query="kitten")).memories) == 2


async def test_a_deleted_turn_stays_away_and_takes_its_words_along() -> None:
    memory = InMemoryVectorMemoryService(mode="text")
    session = conversation("Hi", "My password is swordfish", "Thanks")
    await memory.add_session_to_memory(session)
    (secret, *_) = found = await memory.search(**USER, query="swordfish")
    assert len(found) == 3
    await memory.delete_memory(**USER, memory_id=secret.memory.id)
    await memory.add_session_to_memory(session)
    await memory.add_events_to_memory(**USER, events=session.events, session_id="s")
    assert await memory.search(**USER, query="swordfish password") == []
    assert await memory.count_memories(**USER) == 2


async def test_what_expires_is_gone_with_its_words() -> None:
    memory = InMemoryVectorMemoryService(mode="text")
    now = MAY.timestamp()
    platform_time.set_time_provider(lambda: now)
    await memory.add_events_to_memory(
        **USER, events=[said("swordfish")], session_id="s", custom_metadata={"ttl": 60}
    )
    await memory.add_events_to_memory(**USER, events=[said("Thanks")], session_id="s")
    assert len(await memory.search(**USER, query="swordfish")) == 2
    now += 60
    assert await memory.search(**USER, query="swordfish") == []
    assert await memory.count_memories(**USER) == 1


async def test_a_policy_says_what_is_remembered() -> None:
    policy = RememberPolicy(redact=lambda text: text.replace("swordfish", "***"))
    memory = InMemoryVectorMemoryService(mode="text", policy=policy)
    await memory.add_session_to_memory(conversation("My password is swordfish"))
    (hit,) = await memory.search(**USER, query="password")
    assert text_of(hit.memory) == "My password is ***"


async def test_what_is_returned_is_the_callers_own() -> None:
    memory = InMemoryVectorMemoryService(embedder=ToyEmbedder())
    given = entry("kitten", "m", custom_metadata={"tags": ["a"]})
    await memory.add_memory(**USER, memories=[given])
    given.custom_metadata["tags"].append("given")
    (hit,) = await memory.search(**USER, query="kitten")
    before = hit.memory.model_copy(deep=True)
    hit.memory.custom_metadata["tags"].append("b")
    hit.memory.content.parts = []
    hit.memory.topics.append("c")
    read = await memory.get_memory(**USER, memory_id="m")
    assert read == before
    assert read is not None
    read.topics.append("d")
    assert (await memory.list_memories(**USER)).memories == [before]


async def test_the_agent_tools_find_its_options() -> None:
    assert takes_options(InMemoryVectorMemoryService(mode="text"))


async def refused(texts: list[str]) -> list[list[float]]:
    if any("poison" in text for text in texts):
        raise ValueError("cannot read this")
    return [ToyEmbedder().vector(text, nothing=7) for text in texts]


async def unavailable(_texts: list[str]) -> list[list[float]]:
    raise EmbedderUnavailable("The model is down; ask again later.")


async def test_memories_outlive_a_failing_embedder(caplog: pytest.LogCaptureFixture) -> None:
    embedder = BrokenEmbedder(failure=unavailable)
    memory = InMemoryVectorMemoryService(embedder=embedder)
    await memory.add_session_to_memory(conversation("the kitten sleeps"))
    assert "wait for vectors" in caplog.text
    assert len(await memory.search(**USER, query="kitten")) == 1
    assert await memory.search(**USER, query="feline") == []
    with pytest.raises(EmbeddingError, match="down"):
        await memory.embed_pending()
    with pytest.raises(TimeoutError):
        await memory.flush(timeout_s=0.01)
    embedder.failure = None
    assert await memory.embed_pending(app_name="other") == 0
    assert await memory.embed_pending(app_name="app", user_id="user") == 1
    assert await memory.embed_pending() == 0
    await memory.flush()
    assert len(await memory.search(**USER, query="feline")) == 1


async def test_one_text_that_is_refused_is_given_up_alone() -> None:
    embedder = BrokenEmbedder(failure=refused)
    memory = InMemoryVectorMemoryService(
        embedder=embedder, settings=Settings(job_max_attempts=4, embedding_batch_size=8)
    )
    await memory.add_memory(**USER, memories=[entry(t, t) for t in ("kitten", "poison", "hound")])
    await memory.flush()
    assert [text_of(hit.memory) for hit in await memory.search(**USER, query="feline")] == [
        "kitten"
    ]
    assert await memory.embed_pending() == 0
    await memory.update_memory(**USER, memory_id="poison", text="a puppy")
    assert len(await memory.search(**USER, query="dog")) == 2


async def test_a_failing_question_is_answered_by_words(caplog: pytest.LogCaptureFixture) -> None:
    class Speechless(ToyEmbedder):
        async def embed_query(self, text: str) -> list[float]:
            raise EmbedderUnavailable("no questions today")

    memory = InMemoryVectorMemoryService(embedder=Speechless())
    await memory.add_memory(**USER, memories=[entry("kitten")])
    assert len(await memory.search(**USER, query="kitten")) == 1
    assert "words alone" in caplog.text
    with pytest.raises(EmbedderUnavailable):
        await memory.search(**USER, query="kitten", mode="vector")


async def test_nobody_waits_for_an_embedder_and_nothing_old_is_stored() -> None:
    embedder = GatedEmbedder()
    memory = InMemoryVectorMemoryService(embedder=embedder)
    adding = asyncio.create_task(memory.add_memory(**USER, memories=[entry("kitten", "m")]))
    await embedder.asked.wait()
    assert len(await memory.search(**USER, query="kitten", mode="text")) == 1
    assert await memory.embed_pending() == 0  # the other task has it
    changing = asyncio.create_task(
        memory.update_memory(**USER, memory_id="m", text="an automobile")
    )
    flushing = asyncio.create_task(memory.flush())
    embedder.gate.set()
    await asyncio.gather(adding, changing, flushing)
    assert await memory.search(**USER, query="feline") == []
    assert len(await memory.search(**USER, query="vehicle")) == 1


async def test_a_cancelled_ingest_leaves_its_memories_to_others() -> None:
    embedder = GatedEmbedder()
    memory = InMemoryVectorMemoryService(embedder=embedder)
    adding = asyncio.create_task(memory.add_memory(**USER, memories=[entry("kitten")]))
    await embedder.asked.wait()
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    embedder.gate.set()
    assert await memory.embed_pending() == 1


def test_threads_share_it() -> None:
    memory = InMemoryVectorMemoryService(embedder=ToyEmbedder())
    failures: list[BaseException] = []
    start = threading.Barrier(6)

    async def work(number: int) -> None:
        session = Session(id=f"s{number}", app_name="app", user_id="user")
        for turn in range(15):
            session.events.append(said(f"kitten {number} {turn}", f"e{turn}"))
            await memory.add_session_to_memory(session)
            found = await memory.search(**USER, query=f"kitten {number}", top_k=100)
            assert len(found) > turn
        (last,) = await memory.search(**USER, query=f"{number} 14", top_k=1)
        await memory.delete_memory(**USER, memory_id=last.memory.id)

    def run(number: int) -> None:
        try:
            start.wait()
            asyncio.run(work(100 + number))
        except BaseException as exc:  # noqa: BLE001 - a thread's failure is the test's
            failures.append(exc)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert asyncio.run(memory.count_memories(**USER)) == 6 * 15 - 6
    assert asyncio.run(memory.embed_pending()) == 0


def test_event_loops_share_it_in_turn() -> None:
    memory = InMemoryVectorMemoryService(embedder=ToyEmbedder())
    asyncio.run(memory.add_session_to_memory(conversation("the kitten sleeps")))
    assert len(asyncio.run(memory.search(**USER, query="feline"))) == 1


@pytest.mark.parametrize("name", ["numpy", "snowballstemmer"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=rf"{name}.*adkpg\[local\]"):
        InMemoryVectorMemoryService(mode="text")


def test_importing_adkpg_needs_none_of_it() -> None:
    program = "import sys; sys.modules.update(numpy=None, snowballstemmer=None); import adkpg"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: InMemoryVectorMemoryService(mode="text", top_k=0), "top_k=0"),
        (
            lambda: InMemoryVectorMemoryService(mode="vector", settings=Settings(embedder="none")),
            "needs an embedder",
        ),
        (
            lambda: InMemoryVectorMemoryService(
                mode="text", settings=Settings(text_search_config="klingon")
            ),
            "klingon",
        ),
    ],
)
def test_what_cannot_work_is_refused(
    make: Callable[[], InMemoryVectorMemoryService], sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        make()


async def test_without_an_embedder_words_answer() -> None:
    async with InMemoryVectorMemoryService(settings=Settings(embedder="none")) as memory:
        assert memory.embedder is None
        await memory.add_memory(**USER, memories=[entry("kitten")])
        assert len(await memory.search(**USER, query="kittens")) == 1
        await memory.flush()
        for asked in (memory.embed_pending(), memory.search(**USER, query="x", mode="vector")):
            with pytest.raises(ConfigurationError, match="embedder"):
                await asked


async def test_the_language_of_words_is_a_setting() -> None:
    memory = InMemoryVectorMemoryService(
        mode="text", settings=Settings(text_search_config="german")
    )
    await memory.add_memory(**USER, memories=[entry("Die Häuser stehen am See")])
    assert len(await memory.search(**USER, query="Haus")) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda memory: memory.add_memory(**USER, memories=[entry(" ")]),
        lambda memory: memory.add_memory(app_name="\x00", user_id="u", memories=[entry("x")]),
        lambda memory: memory.list_memories(**USER, limit=0),
        lambda memory: memory.list_memories(**USER, after="nonsense"),
        lambda memory: memory.search(**USER, query="x", top_k=0),
        lambda memory: memory.add_session_to_memory(session_of(said("x", "\x00"))),
    ],
)
async def test_bad_input_is_refused(
    call: Callable[[InMemoryVectorMemoryService], Awaitable[object]],
) -> None:
    memory = InMemoryVectorMemoryService(mode="text")
    with pytest.raises(InvalidInput):
        await call(memory)
    assert await memory.count_memories(**USER) == 0
