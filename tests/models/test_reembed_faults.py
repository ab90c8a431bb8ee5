"""Changing over while embedders fail, connections are cut, and others change the models."""

import asyncio
from collections import Counter

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.errors import (
    ConfigurationError,
    DatabaseUnavailable,
    ModelError,
    ModelUnavailable,
)
from adkpg.tooling.models.reembedding import Reembedded
from adkpg.tooling.models.service import Models
from tests.fakes.conversation import found
from tests.fakes.locks import locked
from tests.fakes.model_apps import (
    TEXTS,
    CrookedEmbedder,
    FailingEmbedder,
    PickyEmbedder,
    active,
    asked_of,
    covered,
    jobs,
    remember,
    vectors,
)
from tests.fakes.toys import GatedEmbedder, ToyEmbedder

pytestmark = pytest.mark.fault

NAN = float("nan")


@pytest.mark.usefixtures("by_threes")
async def test_an_embedder_that_fails_in_the_middle_is_continued(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    failing = FailingEmbedder("new", batches=2)
    with pytest.raises(ModelUnavailable):
        await models.reembed(failing, app_name="app")
    assert (await active(connection), await vectors(connection, "new")) == ("old", 6)
    assert len(await found(old, "feline")) == 4
    mended = ToyEmbedder("new")
    assert await models.reembed(mended, app_name="app") == [Reembedded("app", 2, 0)]
    assert sorted(asked_of(failing, mended)) == sorted(TEXTS)


@pytest.mark.usefixtures("by_threes")
async def test_connections_cut_while_texts_are_embedded_cost_nothing(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    embedder = GatedEmbedder("new")
    running = asyncio.create_task(models.reembed(embedder, app_name="app"))
    await embedder.asked.wait()
    await connection.execute(
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    embedder.gate.set()
    assert await running == [Reembedded("app", 8, 0)]
    assert sorted(asked_of(embedder)) == sorted(TEXTS)


@pytest.mark.usefixtures("by_threes")
@pytest.mark.usefixtures("impatient")
async def test_a_connection_cut_in_a_statement_is_continued(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    await remember(old, *TEXTS)
    gated, after = GatedEmbedder("new"), ToyEmbedder("new")
    running = asyncio.create_task(models.reembed(gated, app_name="app"))
    await gated.asked.wait()
    lock_table = "LOCK TABLE adkpg.memory_vectors IN EXCLUSIVE MODE"
    async with locked(database_url, lock_table) as lock:
        gated.gate.set()
        for _ in range(2):  # the first time it is sent again
            (pid,) = await lock.until_blocked(1)
            await lock.cut(pid)
        with pytest.raises(DatabaseUnavailable):
            await running
    # Only the batch whose vectors were on their way is asked for again.
    assert await models.reembed(after, app_name="app") == [Reembedded("app", 8, 0)]
    assert sorted(asked_of(gated, after)) == sorted([*TEXTS, *gated.documents[0]])


@pytest.mark.usefixtures("impatient")
async def test_a_switch_cut_in_the_middle_changes_nothing(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    await remember(old, *TEXTS)
    embedder = ToyEmbedder("new")
    async with locked(database_url, "LOCK TABLE adkpg.memory_jobs IN SHARE MODE") as lock:
        running = asyncio.create_task(models.reembed(embedder, app_name="app"))
        for _ in range(2):  # the first time it is sent again
            (pid,) = await lock.until_blocked(1)
            await lock.cut(pid)
        with pytest.raises(DatabaseUnavailable):
            await running
    assert await active(connection) == "old"
    assert await models.reembed(embedder, app_name="app") == [Reembedded("app", 0, 0)]
    assert (await active(connection), len(asked_of(embedder))) == ("new", 8)


@pytest.mark.usefixtures("by_threes")
async def test_two_at_once_do_no_harm(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    embedders = [GatedEmbedder("new"), GatedEmbedder("new")]
    running = [
        asyncio.create_task(models.reembed(embedder, app_name="app")) for embedder in embedders
    ]
    for embedder in embedders:
        await embedder.asked.wait()
    for embedder in embedders:
        embedder.gate.set()
    await asyncio.gather(*running)
    assert (await active(connection), await jobs(connection)) == ("new", 0)
    assert await vectors(connection, "new") == 8


async def test_two_models_at_once_end_with_one_of_them_and_all_its_vectors(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    names = ("one", "two")
    await asyncio.gather(
        *(models.reembed(ToyEmbedder(name), app_name="app") for name in names),
        *(remember(old, f"late {number}") for number in range(5)),
    )
    assert await active(connection) in names
    assert await covered(connection)
    last = ToyEmbedder(str(await active(connection)))
    await models.reembed(last, app_name="app")
    assert (await jobs(connection), await vectors(connection, last.model)) == (0, 13)


async def test_a_model_dropped_while_it_is_made_is_a_sentence(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    await models.add("new", dimensions=8)
    embedder = GatedEmbedder("new")
    running = asyncio.create_task(models.reembed(embedder, app_name="app"))
    await embedder.asked.wait()
    await models.drop("new")
    embedder.gate.set()
    with pytest.raises(ConfigurationError, match="dropped while its vectors were being made"):
        await running
    assert await active(connection) == "old"
    assert await models.reembed(ToyEmbedder("new"), app_name="app") == [Reembedded("app", 8, 0)]


@pytest.mark.usefixtures("by_threes")
async def test_texts_that_the_new_model_refuses_stop_the_switch_alone(
    models: Models, old: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS[::2], "the hound")
    picky = PickyEmbedder("new")
    with pytest.raises(ModelError, match="1 of its memories got no vector of model 'new'"):
        await models.reembed(picky, app_name="app")
    assert (await active(connection), await vectors(connection, "new")) == ("old", 4)
    asked = {text for text in asked_of(picky) if "train" not in text}
    with pytest.raises(ModelError, match="adkpg models activate --force"):
        await models.reembed(picky, app_name="app")
    embedded = Counter(text for text in asked_of(picky) if "train" not in text)
    assert embedded == Counter(asked), "each once; but for the text that proves that it answers"
    assert await models.activate("new", app_name="app", force=True) == 1
    assert await found(PgVectorMemoryService(database, embedder=picky), "hound") == ["the hound"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([], "returned 0 vectors for 1 texts"),
        ([[1.0] * 8, [1.0] * 8], "returned 2 vectors for 1 texts"),
        ([[1.0] * 7], "returned a vector of 7 numbers where 8 were expected"),
        ([[NAN] * 8], "no cosine"),
        ([[1.0] * 7 + [float("inf")]], "no cosine"),
        ([[0.0] * 8], "no cosine"),
    ],
)
async def test_wrong_vectors_are_said_before_anything_is_written(
    models: Models,
    old: PgVectorMemoryService,
    database: Database,
    connection: asyncpg.Connection,
    caplog: pytest.LogCaptureFixture,
    answer: list[list[float]],
    said: str,
) -> None:
    await remember(old, *TEXTS)
    embedder = CrookedEmbedder("new", answer=answer)
    with pytest.raises(ModelError, match=said):
        await models.reembed(embedder, app_name="app")
    assert [model.name for model in await models.list_models()] == ["old"]
    assert (await active(connection), await jobs(connection)) == ("old", 0)

    # Through ingest and query, in an app of its own.
    service = PgVectorMemoryService(database, embedder=embedder)
    await remember(service, "the kitten sleeps", app="fresh")
    assert said in caplog.text
    assert await active(connection, "fresh") is None
    assert await vectors(connection, "new", "fresh") == 0
    with pytest.raises(ModelError, match=said):
        await service.embed_pending(app_name="fresh")
    if len(answer) == 1:
        with pytest.raises(ModelError, match=said):
            await found(service, "feline", app_name="fresh", mode="vector")
        assert await found(service, "kitten", app_name="fresh") == ["the kitten sleeps"]
