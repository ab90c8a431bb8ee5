"""The active model: a service with another says so in one sentence, and compares nothing."""

import asyncio
import logging

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, Settings, set_text_search_config
from adkpg.errors import ModelNotActive
from adkpg.tooling.models.service import Models
from tests.fakes.conversation import USER, found
from tests.fakes.locks import locked
from tests.fakes.model_apps import TEXTS, active, covered, jobs, remember, vectors
from tests.fakes.toys import GatedEmbedder, ToyEmbedder

SENTENCE = (
    "App 'app' is searched with model 'old' (8 dimensions), not with this service's 'new' (8): "
    "use an embedder of the first, or change the app over to the second by adkpg reembed."
)


@pytest.fixture
def new(database: Database) -> PgVectorMemoryService:
    return PgVectorMemoryService(database, embedder=ToyEmbedder("new"))


@pytest.mark.parametrize(
    "embedder",
    [ToyEmbedder("new"), ToyEmbedder("old", dimensions=9), ToyEmbedder("new", dimensions=1_400)],
    ids=["another model", "the model at another size", "a large one"],
)
async def test_the_first_embedding_of_an_app_sets_its_model(
    old: PgVectorMemoryService,
    database: Database,
    connection: asyncpg.Connection,
    embedder: ToyEmbedder,
) -> None:
    assert await active(connection) is None
    await remember(old, *TEXTS)
    other = PgVectorMemoryService(database, embedder=embedder)
    await remember(other, "the hound barks")
    assert await active(connection) == "old"
    await remember(other, "the hound barks", app="another")
    assert await active(connection, "another") == embedder.model
    assert await found(other, "puppy", app_name="another") == ["the hound barks"]


async def test_an_ingest_with_another_model_says_so_and_leaves_its_memories_pending(
    old: PgVectorMemoryService,
    new: PgVectorMemoryService,
    connection: asyncpg.Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await remember(old, *TEXTS)
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        await remember(new, "the late kitten")
    (record,) = caplog.records
    assert record.getMessage() == (
        f"The memories are stored and found by their words, but wait for vectors: {SENTENCE}"
    )
    assert (await jobs(connection), await vectors(connection, "new")) == (1, 0)
    assert await new.embed_pending() == 0
    with pytest.raises(ModelNotActive, match="is searched with model 'old'"):
        await new.embed_pending(app_name="app")
    assert "the late kitten" in await found(new, "late")
    assert await old.embed_pending() == 1


@pytest.mark.parametrize("user", ["user", None], ids=["a user's", "app-wide"])
async def test_a_search_with_another_model_compares_nothing_and_says_so_once(
    old: PgVectorMemoryService,
    new: PgVectorMemoryService,
    caplog: pytest.LogCaptureFixture,
    user: str | None,
) -> None:
    await remember(old, *TEXTS, user=user)
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        for _ in range(3):
            assert await found(new, "feline", user_id=user) == []
        hits = await new.search(app_name="app", user_id=user, query="kitten")
    assert len(hits) == 4
    assert {hit.reason.cosine for hit in hits} == {None}
    (record,) = caplog.records
    assert record.getMessage() == f"Searches answer by words alone: {SENTENCE}"
    with pytest.raises(ModelNotActive) as caught:
        await new.search(app_name="app", user_id=user, query="feline", mode="vector")
    assert str(caught.value) == SENTENCE


async def test_vectors_of_a_model_that_is_not_active_are_not_compared_though_they_are_there(
    models: Models, old: PgVectorMemoryService, new: PgVectorMemoryService
) -> None:
    await remember(old, *TEXTS)
    await models.reembed(ToyEmbedder("new"), app_name="app")
    await models.activate("old", app_name="app")
    assert await found(new, "feline") == []
    with pytest.raises(ModelNotActive):
        await found(new, "feline", mode="vector")
    assert len(await found(old, "feline")) == 4


@pytest.mark.parametrize("user", ["user", None], ids=["a user's", "app-wide"])
@pytest.mark.parametrize("indexed", [False, True], ids=["exact", "HNSW"])
async def test_the_next_search_of_a_running_service_notices_a_change(
    database_url: str, user: str | None, indexed: bool
) -> None:
    async with Database(database_url, settings=Settings(exact_limit=5)) as database:
        old, new = (
            PgVectorMemoryService(database, embedder=ToyEmbedder(name)) for name in ("old", "new")
        )
        models = Models(database)
        question = {"user_id": user, "mode": "vector"}
        await remember(old, *TEXTS, user=user)
        await models.reembed(ToyEmbedder("new"), app_name="app")
        if indexed:
            assert await models.index("old") + await models.index("new") == 16
        for active_one, other in ((new, old), (old, new), (new, old)):
            assert active_one.embedder is not None
            await models.activate(active_one.embedder.model, app_name="app")
            # Twice: the first answer tells whether the next is read from the index.
            for _ in range(2):
                assert len(await found(active_one, "feline", **question)) == 4
                assert await found(other, "feline", user_id=user) == []
                with pytest.raises(ModelNotActive):
                    await found(other, "feline", **question)


async def test_a_running_service_ingests_again_once_its_model_is_active(
    models: Models,
    old: PgVectorMemoryService,
    new: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    await remember(old, *TEXTS)
    await models.reembed(ToyEmbedder("new"), app_name="app")
    await remember(old, "the late kitten")
    assert await jobs(connection) == 1
    await remember(new, "the later kitten")
    assert (await jobs(connection), await vectors(connection, "new")) == (0, 10)
    assert len(await found(new, "feline", mode="vector")) == 6


async def test_services_that_race_with_different_models_for_a_new_app_end_with_one(
    database: Database, connection: asyncpg.Connection
) -> None:
    embedders = [GatedEmbedder(name) for name in ("one", "two")]
    services = [PgVectorMemoryService(database, embedder=embedder) for embedder in embedders]
    running = [
        asyncio.create_task(remember(service, f"the kitten of {number}", user=str(number)))
        for number, service in enumerate(services)
    ]
    for embedder in embedders:
        await embedder.asked.wait()
    for embedder in embedders:
        embedder.gate.set()
    await asyncio.gather(*running)
    name = await active(connection)
    assert name in {"one", "two"}
    loser = {"one": "two", "two": "one"}[name]
    assert (await vectors(connection, name), await vectors(connection, loser)) == (1, 0)
    assert await jobs(connection) == 1
    assert await covered(connection)
    winner, other = services if name == "one" else services[::-1]
    for user in ("0", "1"):
        assert await found(other, "feline", user_id=user) == []
    assert await winner.embed_pending() == 1
    assert await found(winner, "feline", user_id="0") == ["the kitten of 0"]
    assert await found(winner, "feline", user_id="1") == ["the kitten of 1"]


async def test_the_loser_of_that_race_says_so(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    slow = GatedEmbedder("slow")
    late = asyncio.create_task(
        remember(PgVectorMemoryService(database, embedder=slow), "the kitten sleeps")
    )
    await slow.asked.wait()
    await remember(PgVectorMemoryService(database, embedder=ToyEmbedder("fast")), "x", user="b")
    slow.gate.set()
    await late
    (record,) = caplog.records
    assert "is searched with model 'fast'" in record.getMessage()


async def test_many_first_ingests_at_once_agree(
    database: Database, connection: asyncpg.Connection
) -> None:
    names = [f"model {number}" for number in range(4)]
    services = [PgVectorMemoryService(database, embedder=ToyEmbedder(name)) for name in names]
    await asyncio.gather(
        *(
            remember(service, f"the kitten of {number}", user=f"{number}")
            for number in range(3)
            for service in services
        )
    )
    name = await active(connection)
    others = [await vectors(connection, other) for other in names if other != name]
    assert others == [0, 0, 0]
    assert await covered(connection)
    winner = services[names.index(str(name))]
    await winner.embed_pending()
    assert (await vectors(connection, str(name)), await jobs(connection)) == (3, 0)


async def test_a_search_registers_no_model(
    models: Models, old: PgVectorMemoryService, new: PgVectorMemoryService
) -> None:
    await remember(old, "the kitten sleeps")
    await new.search(**USER, query="feline")
    await remember(new, "the hound sleeps")
    assert [model.name for model in await models.list_models()] == ["old"]


async def test_changing_an_apps_model_and_its_words_never_deadlocks(
    models: Models, old: PgVectorMemoryService, database: Database, database_url: str
) -> None:
    """One had the app's settings and wanted its memories, the other had them the other way."""
    await remember(old, *TEXTS)
    await models.add("new", dimensions=8)
    settings = "SELECT FROM adkpg.app_settings FOR UPDATE"
    async with locked(database_url, settings) as lock:
        activating = asyncio.create_task(models.activate("new", app_name="app", force=True))
        await lock.until_blocked(1)
        deriving = asyncio.create_task(
            set_text_search_config(database, app_name="app", config="simple")
        )
        await lock.until_blocked(2)
        await lock.release()
        assert (await activating, await deriving) == (len(TEXTS), len(TEXTS))
