"""Memory in this process: words, cosines, filters, pages, threads, failing models, bad input.

The conformance suite has what it shares with the other memory services.
"""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.adk.platform import time as platform_time
from google.adk.sessions.session import Session

from adkpg import InMemoryVectorMemoryService
from adkpg.errors import ConfigurationError, InvalidInput, ModelUnavailable
from adkpg.memory.filters import SearchFilters
from adkpg.remember.policy import RememberPolicy
from adkpg.tools.recall import takes_options
from tests.fakes.conversation import USER, conversation, entry, said, session_of, text_of
from tests.fakes.toys import BrokenEmbedder, ToyEmbedder

MAY = datetime(2026, 5, 7, 12, tzinfo=UTC)


async def found(memory: InMemoryVectorMemoryService, query: str, **options: Any) -> list[str]:
    hits = await memory.search(**{**USER, **options}, query=query)
    return [text_of(hit.memory) for hit in hits]


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


async def test_a_rare_word_counts_more_than_a_common_one() -> None:
    memory = InMemoryVectorMemoryService(mode="text")
    texts = ["the garden", "the house", "the street", "a zebra"]
    await memory.add_memory(**USER, memories=[entry(text) for text in texts])
    first, *others = await memory.search(**USER, query="the zebra")
    assert (text_of(first.memory), first.reason.lexemes) == ("a zebra", ("zebra",))
    assert first.score > max(hit.score for hit in others)
    assert first.reason.cosine is None


async def test_words_have_no_case_and_an_id_is_found_by_its_number() -> None:
    memory = InMemoryVectorMemoryService(mode="text")
    await memory.add_memory(**USER, memories=[entry("ORDER-9981 für Straße")])
    for asked in ("order 9981", "9981", "STRASSE"):
        assert await found(memory, asked) == ["ORDER-9981 für Straße"]


async def test_a_meaning_is_found_from_the_least_score_on() -> None:
    memory = InMemoryVectorMemoryService(embedder=ToyEmbedder())
    await memory.add_memory(**USER, memories=[entry("kitten"), entry("kitten and hound")])
    assert await found(memory, "feline") == ["kitten", "kitten and hound"]
    assert await found(memory, "feline", min_score=0.8) == ["kitten"]
    assert await found(memory, "feline", vector_distance_threshold=0.2) == ["kitten"]
    assert await found(memory, "kitten", mode="text") == ["kitten", "kitten and hound"]
    assert await found(memory, "and", mode="vector") == []
    (hit, _) = await memory.search(**USER, query="feline")
    assert hit.reason.cosine == pytest.approx(1)
    assert (hit.reason.lexical, hit.reason.lexemes) == (0, ())


async def test_a_budget_leaves_out_what_does_not_fit() -> None:
    memory = InMemoryVectorMemoryService(mode="text")
    await memory.add_memory(**USER, memories=[entry("kitten one"), entry("kitten two")])
    assert await found(memory, "kitten") == ["kitten one", "kitten two"]
    assert await found(memory, "kitten", max_tokens=6) == ["kitten one"]


async def test_what_says_the_same_is_one_hit() -> None:
    memory = InMemoryVectorMemoryService(mode="text")
    await memory.add_memory(**USER, memories=[entry("a kitten!", "1"), entry("A kitten", "2")])
    (hit,) = await memory.search(**USER, query="kitten")
    assert len(hit.folded) == 1


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"authors": ["ana"]}, ["1"]),
        ({"session_ids": ["s"]}, ["turn"]),
        ({"kinds": ["note"]}, ["1", "2"]),
        ({"topics": ["cats", "none"]}, ["2"]),
        ({"after": MAY}, ["2", "turn"]),
        ({"before": MAY}, ["1"]),
        ({"metadata": {"order": {"items": [{"sku": 7}]}}}, ["1"]),
        ({"metadata": {"order": {"items": [8]}}}, []),
        ({"metadata": {"paid": True}}, ["2"]),
        ({"metadata": {"paid": 1}}, []),
    ],
)
async def test_filters_say_what_is_searched_and_listed(
    filters: dict[str, Any], expected: list[str]
) -> None:
    memory = InMemoryVectorMemoryService(mode="text")
    order = {"items": [{"sku": 6}, {"sku": 7, "n": 1}], "id": 1}
    earlier = (MAY - timedelta(days=1)).isoformat()
    notes = [
        entry("kitten 1", "1", author="ana", timestamp=earlier, custom_metadata={"order": order}),
        entry("kitten 2", "2", custom_metadata={"topics": ["cats"], "paid": True}),
    ]
    await memory.add_memory(**USER, memories=notes)
    await memory.add_session_to_memory(session_of(said("kitten turn", "e")))
    asked = SearchFilters(**filters)
    hits = await memory.search(**USER, query="kitten", filters=asked)
    assert sorted(text_of(hit.memory).removeprefix("kitten ") for hit in hits) == expected
    listed = (await memory.list_memories(**USER, filters=asked)).items
    assert sorted(text_of(each).removeprefix("kitten ") for each in listed) == expected


async def test_pages_are_newest_first_and_lose_nothing() -> None:
    memory = InMemoryVectorMemoryService(mode="text")
    noon = MAY.isoformat()
    await memory.add_memory(
        **USER, memories=[entry(f"note {n}", n, timestamp=noon) for n in "20413"]
    )
    read: list[str | None] = []
    cursor = None
    while True:
        page = await memory.list_memories(**USER, limit=2, cursor=cursor)
        read += [each.id for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert read == list("31402"), "the last written comes first, whatever its id"


async def test_what_an_app_knows_is_found_by_all_its_users() -> None:
    memory = InMemoryVectorMemoryService(mode="text")
    await memory.add_memory(app_name="app", user_id=None, memories=[entry("kitten of all")])
    await memory.add_memory(app_name="app", user_id="other", memories=[entry("kitten of other")])
    assert await found(memory, "kitten") == ["kitten of all"]
    assert await found(memory, "kitten", app_wide=False) == []
    assert await found(memory, "kitten", user_id=None) == ["kitten of all"]


async def test_a_deleted_turn_stays_away() -> None:
    memory = InMemoryVectorMemoryService(mode="text")
    session = conversation("Hi", "My password is swordfish", "Thanks")
    await memory.add_session_to_memory(session)
    (secret,) = await memory.search(**USER, query="swordfish")
    await memory.delete_memory(**USER, memory_id=secret.memory.id)
    await memory.add_session_to_memory(session)
    await memory.add_events_to_memory(**USER, events=session.events, session_id="s")
    assert await memory.search(**USER, query="swordfish password") == []
    assert len((await memory.list_memories(**USER)).items) == 2


async def test_what_expires_is_not_found() -> None:
    memory = InMemoryVectorMemoryService(mode="text")
    now = MAY.timestamp()
    platform_time.set_time_provider(lambda: now)
    await memory.add_events_to_memory(
        **USER, events=[said("swordfish")], session_id="s", custom_metadata={"ttl": 60}
    )
    assert await found(memory, "swordfish") == ["swordfish"]
    now += 60
    assert await found(memory, "swordfish") == []
    assert (await memory.list_memories(**USER)).items == []
    assert len((await memory.list_memories(**USER, live=False)).items) == 1


async def test_a_policy_says_what_is_remembered() -> None:
    policy = RememberPolicy(redact=lambda text: text.replace("swordfish", "***"))
    memory = InMemoryVectorMemoryService(mode="text", remember=policy)
    text = "My password is swordfish"
    await memory.add_session_to_memory(conversation(text))
    await memory.add_events_to_memory(**USER, events=[said(text, "other")], session_id="s")
    await memory.add_memory(**USER, memories=[entry(text, author="tool")])
    listed = (await memory.list_memories(**USER)).items
    assert [text_of(each) for each in listed] == ["My password is ***"] * 3
    assert await found(memory, "swordfish") == []


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
    assert (await memory.list_memories(**USER)).items == [before]


async def test_the_agent_tools_find_its_options() -> None:
    assert takes_options(InMemoryVectorMemoryService(mode="text"))


async def unavailable(_texts: list[str]) -> list[list[float]]:
    raise ModelUnavailable("The model is down; ask again later.")


async def test_memories_outlive_a_failing_embedder(caplog: pytest.LogCaptureFixture) -> None:
    embedder = BrokenEmbedder(failure=unavailable)
    memory = InMemoryVectorMemoryService(embedder=embedder)
    await memory.add_session_to_memory(conversation("the kitten sleeps"))
    assert "have no vectors" in caplog.text
    assert await found(memory, "kitten") == ["the kitten sleeps"]
    assert await found(memory, "feline") == []
    embedder.failure = None
    await memory.add_memory(**USER, memories=[entry("an automobile")])
    assert await found(memory, "feline") == ["the kitten sleeps"]
    assert [len(texts) for texts in embedder.documents] == [2]


async def test_a_failing_question_is_answered_by_words(caplog: pytest.LogCaptureFixture) -> None:
    class Speechless(ToyEmbedder):
        async def embed_query(self, text: str) -> list[float]:
            raise ModelUnavailable("no questions today")

    memory = InMemoryVectorMemoryService(embedder=Speechless())
    await memory.add_memory(**USER, memories=[entry("kitten")])
    assert await found(memory, "kitten") == ["kitten"]
    assert "words alone" in caplog.text
    with pytest.raises(ModelUnavailable):
        await memory.search(**USER, query="kitten", mode="vector")


async def test_a_memory_is_embedded_once() -> None:
    embedder = ToyEmbedder()
    memory = InMemoryVectorMemoryService(embedder=embedder)
    session = conversation("the kitten", "an automobile")
    for _ in range(3):
        await memory.add_session_to_memory(session)
    assert [len(texts) for texts in embedder.documents] == [2]


@pytest.fixture
def threads_take_turns_often() -> Iterator[None]:
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual_s)


@pytest.mark.usefixtures("threads_take_turns_often")
@pytest.mark.parametrize("_", range(3))
def test_threads_share_it(_: int) -> None:
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
        own = SearchFilters(session_ids=[f"s{number}"])
        (last,) = await memory.search(**USER, query=f"{number} 14", top_k=1, filters=own)
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
    assert len(asyncio.run(memory.list_memories(**USER, limit=1000)).items) == 6 * 15 - 6


def test_event_loops_share_it_in_turn() -> None:
    memory = InMemoryVectorMemoryService(embedder=ToyEmbedder())
    asyncio.run(memory.add_session_to_memory(conversation("the kitten sleeps")))
    assert asyncio.run(found(memory, "feline")) == ["the kitten sleeps"]


@pytest.mark.program
def test_words_and_an_own_embedder_need_no_extra() -> None:
    program = (
        "import sys; sys.modules.update(numpy=None, onnxruntime=None)\n"
        "import adkpg; adkpg.InMemoryVectorMemoryService(mode='text')"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_without_an_embedder_words_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")
    with pytest.raises(ConfigurationError, match="needs an embedder"):
        InMemoryVectorMemoryService(mode="vector")
    async with InMemoryVectorMemoryService() as memory:
        await memory.add_memory(**USER, memories=[entry("kitten")])
        assert await found(memory, "kitten") == ["kitten"]
        with pytest.raises(ConfigurationError, match="embedder"):
            await memory.search(**USER, query="x", mode="vector")


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="top_k=0"):
        InMemoryVectorMemoryService(mode="text", top_k=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda memory: memory.add_memory(**USER, memories=[entry(" ")]),
        lambda memory: memory.add_memory(app_name="\x00", user_id="u", memories=[entry("x")]),
        lambda memory: memory.list_memories(**USER, limit=0),
        lambda memory: memory.list_memories(**USER, cursor="nonsense"),
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
    assert (await memory.list_memories(**USER)).items == []
