"""Evaluations against a real server: apart from everybody's rows, and of what is stored."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg
import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.database.row_security import quoted
from adkpg.errors import ConfigurationError, DatabaseUnavailable, InvalidInput, PermissionDenied
from adkpg.tooling.evaluation import DataSet, evaluate_apart, evaluate_stored, parsed
from tests.fakes.data_sets import locomo, longmemeval, own
from tests.fakes.roles import Roles
from tests.fakes.toys import ToyEmbedder

PETS = own(
    id="pets",
    sessions=[
        {"id": "s1", "turns": [{"id": "t1", "text": "My kitten sleeps all day."}]},
        {"id": "s2", "turns": [{"id": "t2", "text": "A puppy barked in the night."}]},
    ],
    questions=[
        {"q": "What about the feline?", "evidence": ["t1"], "category": "meaning"},
        {"q": "Who barked?", "evidence": ["t2"], "category": "words"},
        {"q": "Which vehicle?", "evidence": []},
    ],
)


@dataclass
class Maker:
    """A role that makes databases, so that a test can tell its own from others'."""

    url: str
    name: str

    async def left(self) -> int:
        connection = await asyncpg.connect(self.url)
        try:
            return int(
                await connection.fetchval(
                    "SELECT count(*) FROM pg_database WHERE pg_get_userbyid(datdba) = $1",
                    self.name,
                )
            )
        finally:
            await connection.close()


@pytest.fixture
async def maker(database_url: str) -> AsyncIterator[Maker]:
    roles = Roles(database_url)
    await roles.create("serve")
    await roles.execute([f"ALTER ROLE {quoted(roles.name('serve'))} SUPERUSER"])
    yield Maker(roles.url("serve"), roles.name("serve"))
    await roles.drop()


async def test_a_data_set_is_measured_in_a_database_of_its_own(
    database_url: str, maker: Maker
) -> None:
    told: dict[str, tuple[int, int]] = {}
    found = await evaluate_apart(
        parsed([PETS, own()]),
        server_url=maker.url,
        embedder=ToyEmbedder(),
        told=lambda what, done, total: told.update({what: (done, total)}),
    )
    assert list(found.reports) == ["text", "vector", "hybrid"]
    recall = {way: report.per_question["recall@5"] for way, report in found.reports.items()}
    assert recall["text"] == [0, 1, 0], "one shares no word"
    assert recall["vector"] == [1, 0, 0], "the toy knows no other"
    assert recall["hybrid"][:2] == [1, 1]
    hybrid = found.reports["hybrid"]
    assert hybrid.unanswerable is not None
    assert hybrid.unanswerable.asked == 2
    assert hybrid.foreign is not None
    assert hybrid.foreign.asked == 3
    assert hybrid.per_question["session any@5"] == hybrid.per_question["any@5"]
    assert set(found.paired) == {"hybrid minus text", "hybrid minus vector"}
    assert told["turns remembered"] == (5, 5)
    assert told["texts embedded"] == (5, 5)
    assert told["hybrid: questions asked"] == (5, 5)
    assert await maker.left() == 0
    async with Database(database_url) as database:
        assert (
            await PgVectorMemoryService(database, mode="text").count_memories(
                app_name="evaluation", user_id="pets"
            )
            == 0
        )


@pytest.mark.parametrize("value", [[longmemeval()], locomo(), [PETS]])
async def test_words_need_no_embedder(maker: Maker, value: object) -> None:
    data = parsed(value)
    if not data.questions:  # LoCoMo's has none
        with pytest.raises(InvalidInput, match="nothing to measure"):
            await evaluate_apart(data, server_url=maker.url, modes=["text"])
        return
    found = await evaluate_apart(data, server_url=maker.url, modes=["text"])
    assert max(found.reports["text"].per_question["recall@10"]) == 1
    with pytest.raises(ConfigurationError, match="need an embedder"):
        await evaluate_apart(
            data, server_url=maker.url, modes=["vector"], settings=Settings(embedder="none")
        )
    assert await maker.left() == 0


async def test_questions_are_asked_at_their_time(maker: Maker) -> None:
    turns = [
        {
            "id": day,
            "text": f"We met at the {place}.",
            "ts": datetime.fromisoformat(f"2024-05-{day}T10:00:00+00:00").timestamp(),
        }
        for day, place in (("02", "mill"), ("10", "lake"), ("20", "fair"))
    ]
    asked = [
        {"q": "Where did we meet yesterday?", "evidence": ["10"], "asked": "2024-05-11T10:00:00Z"},
        {"q": "Where did we meet today?", "evidence": ["20"]},
    ]
    store = {"id": "ann", "sessions": [{"id": "s", "turns": turns}], "questions": asked}
    found = await evaluate_apart(parsed([store]), server_url=maker.url, modes=["text"])
    assert found.reports["text"].per_question["MRR"] == [1, 1], "today is the conversation's last"


@pytest.mark.fault
async def test_a_cancelled_evaluation_leaves_no_database(maker: Maker) -> None:
    asked = asyncio.Event()

    class Hanging(ToyEmbedder):
        async def embed_documents(self, texts: list[str]) -> list[list[float]]:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    run = asyncio.create_task(
        evaluate_apart(parsed([PETS]), server_url=maker.url, embedder=Hanging(), modes=["vector"])
    )
    await asked.wait()
    assert await maker.left() == 1
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert await maker.left() == 0


async def test_a_server_that_cannot_be_used_is_a_sentence(database_url: str) -> None:
    data = parsed([PETS])
    roles = Roles(database_url)
    await roles.create("serve")
    try:
        with pytest.raises(PermissionDenied):
            await evaluate_apart(data, server_url=roles.url("serve"), modes=["text"])
    finally:
        await roles.drop()
    settings = Settings(retry_timeout_s=0)
    with pytest.raises(DatabaseUnavailable):
        await evaluate_apart(
            data,
            server_url="postgresql://nobody@127.0.0.1:1/none",
            modes=["text"],
            settings=settings,
        )


def note(text: str) -> MemoryEntry:
    return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), author="ann")


async def remember(memory: PgVectorMemoryService, user_id: str, texts: Sequence[str]) -> None:
    await memory.add_memory(
        app_name="app", user_id=user_id, memories=[note(text) for text in texts]
    )


def ask(*questions: dict[str, object]) -> DataSet:
    return parsed(list(questions))


async def test_questions_are_asked_of_what_is_stored(memory: PgVectorMemoryService) -> None:
    await remember(memory, "ann", ["My kitten sleeps.", "The rent is due in May."])
    await remember(memory, "bob", ["My puppy barks."])
    page = await memory.list_memories(app_name="app", user_id="ann")
    rent = next(each for each in page.items if "rent" in str(each.content))
    data = ask(
        {"q": "When is the rent due?", "evidence": [rent.id]},
        {"q": "What about the feline?", "contains": "KITTEN  sleeps"},
        {"q": "Who barks?", "contains": ["puppy"], "user": "bob"},
        {"q": "Who barks?", "contains": ["puppy"]},
        {"q": "Which car?", "evidence": []},
    )
    found = await evaluate_stored(
        data, memory=memory, app_name="app", user_id="ann", modes=["text", "hybrid"]
    )
    assert found.reports["text"].per_question["recall@10"] == [1, 0, 1, 0]
    assert found.reports["hybrid"].per_question["recall@10"] == [1, 1, 1, 0]
    unanswerable = found.reports["hybrid"].unanswerable
    assert unanswerable is not None
    assert (unanswerable.asked, unanswerable.none) == (1, 1)
    assert found.reports["hybrid"].foreign is None
    assert await memory.count_memories(app_name="app", user_id="ann") == 2
    with pytest.raises(InvalidInput, match="conversations of its own"):
        await evaluate_stored(parsed([PETS]), memory=memory, app_name="app")
    with pytest.raises(InvalidInput, match="nothing to measure"):
        await evaluate_stored(ask({"q": "Who?"}), memory=memory, app_name="app")


async def test_searches_that_words_alone_answered_are_counted(database: Database) -> None:
    class Away(ToyEmbedder):
        async def embed_query(self, text: str) -> list[float]:
            raise ConnectionError

    memory = PgVectorMemoryService(database, embedder=Away())
    await remember(memory, "ann", ["My kitten sleeps."])
    data = ask({"q": "My kitten?", "contains": "kitten"})
    found = await evaluate_stored(data, memory=memory, app_name="app", user_id="ann")
    assert found.reports["hybrid"].words_alone == 1
