"""Models are listed, added, activated and dropped."""

import asyncio
import secrets
from collections.abc import AsyncIterator

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.errors import ConfigurationError
from adkpg.tooling.models.service import Coverage, Model, Models
from tests.fakes.conversation import found
from tests.fakes.locks import locked
from tests.fakes.model_apps import TEXTS, active, covered, jobs, remember, vectors
from tests.fakes.toys import ToyEmbedder

INDEX = "SELECT count(*) FROM pg_indexes WHERE indexname = 'memory_vectors_hnsw_1'"


@pytest.fixture
async def plain_url(database_url: str, connection: asyncpg.Connection) -> AsyncIterator[str]:
    """The same database as a role that may use the tables and owns nothing."""
    role, password = f"adkpg_test_{secrets.token_hex(4)}", secrets.token_hex(8)
    await connection.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD '{password}';"
        f"GRANT USAGE ON SCHEMA adkpg TO {role};"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA adkpg TO {role}"
    )
    mark = "&" if "?" in database_url else "?"
    # Logged in as the tests' own role, which the server knows how to let in.
    yield f"{database_url}{mark}role={role}"
    await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_models_are_listed_with_what_they_have_of_each_app(
    models: Models, old: PgVectorMemoryService, database: Database
) -> None:
    assert await models.list_models() == ()
    await remember(old, *TEXTS)
    await remember(PgVectorMemoryService(database, embedder=ToyEmbedder("new")), "x", app="other")
    await models.add("third", dimensions=4_000)
    await models.add("third", dimensions=4_000)
    new = ToyEmbedder("new")
    await models.reembed(new, app_name="app")
    await remember(old, "late")
    assert await models.list_models() == (
        Model("new", 8, False, (Coverage("app", True, 8, 9), Coverage("other", True, 1, 1))),
        Model("old", 8, False, (Coverage("app", False, 8, 9),)),
        Model("third", 4_000, False, ()),
    )


@pytest.mark.parametrize("dimensions", [0, -1, 4_001])
async def test_what_cannot_be_indexed_is_not_registered(models: Models, dimensions: int) -> None:
    with pytest.raises(ConfigurationError, match="indexes 1 to 4000: ask the model for fewer"):
        await models.add("new", dimensions=dimensions)
    with pytest.raises(ConfigurationError, match="indexes 1 to 4000"):
        await models.reembed(ToyEmbedder("new", dimensions))
    assert await models.list_models() == ()


async def test_a_model_is_activated_for_an_app_before_its_first_memory(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await models.add("new", dimensions=8)
    assert await models.activate("new", app_name="app") == 0
    await remember(old, "the kitten sleeps")
    assert await active(connection) == "new"
    assert await vectors(connection, "old") == 0
    assert await jobs(connection) == 1


async def test_activating_says_how_many_memories_lack_a_vector(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    await models.add("new", dimensions=8)
    with pytest.raises(ConfigurationError, match=r"8 memories of app 'app' have no vector .*'new'"):
        await models.activate("new", app_name="app")
    assert (await active(connection), await jobs(connection)) == ("old", 0)


async def test_forced_activation_queues_what_lacks_a_vector(
    models: Models, old: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    await models.add("new", dimensions=8)
    assert await models.activate("new", app_name="app", force=True) == 8
    assert (await active(connection), await jobs(connection)) == ("new", 8)
    assert await covered(connection)
    new = PgVectorMemoryService(database, embedder=ToyEmbedder("new"))
    assert len(await found(new, "kitten")) == 4
    assert await found(new, "feline") == []
    assert await new.embed_pending() == 8
    assert len(await found(new, "feline")) == 4
    # Back again at once: the vectors of the first were kept.
    assert await models.activate("old", app_name="app") == 0
    assert len(await found(old, "feline")) == 4


async def test_activation_revives_what_another_model_had_given_up_or_claimed(
    models: Models, old: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    await connection.execute(
        "INSERT INTO memory_jobs (app_name, user_id, position, work, attempts, dead, error,"
        " lease_expires_at, due_at)"
        " SELECT app_name, user_id, position, 'embed', 9, position % 2 = 0,"
        " 'refused', now() + interval '1 hour', now() + interval '1 hour' FROM memories"
    )
    await models.add("new", dimensions=8)
    await models.activate("new", app_name="app", force=True)
    new = PgVectorMemoryService(database, embedder=ToyEmbedder("new"))
    assert await new.embed_pending(app_name="app") == 8


async def test_a_name_with_two_sizes_must_be_told_apart(models: Models) -> None:
    await models.add("new", dimensions=8)
    await models.add("new", dimensions=16)
    for call in (models.activate("new", app_name="app"), models.drop("new"), models.index("new")):
        with pytest.raises(ConfigurationError, match="dimensions 8, 16; say which"):
            await call
    await models.drop("new", dimensions=8)
    await models.activate("new", app_name="app")
    with pytest.raises(ConfigurationError, match="no model 'new' with 8 dimensions"):
        await models.activate("new", app_name="app", dimensions=8)
    with pytest.raises(ConfigurationError, match="no model 'none'; adkpg models list"):
        await models.drop("none")


async def test_a_model_that_is_active_anywhere_is_not_dropped(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await remember(old, "x")
    await remember(old, "x", app="other")
    await models.reembed(ToyEmbedder("new"), app_name="app")
    with pytest.raises(ConfigurationError, match="'old' is active in 'other'; change over"):
        await models.drop("old")
    assert await vectors(connection, "old") == 1
    assert await active(connection, "other") == "old"


async def test_dropping_takes_the_vectors_of_that_model_alone(
    models: Models,
    old: PgVectorMemoryService,
    database: Database,
    connection: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("adkpg.tooling.models.service._DROPPED_TOGETHER", 3)
    for user in ("a", "b", None):
        await remember(old, *TEXTS, user=user)
    await models.reembed(ToyEmbedder("new"), app_name="app")
    assert await models.drop("old") == 24
    assert [model.name for model in await models.list_models()] == ["new"]
    assert await vectors(connection, "new") == 24
    new = PgVectorMemoryService(database, embedder=ToyEmbedder("new"))
    assert len(await found(new, "feline", user_id="a", top_k=20)) == 4


async def test_a_service_goes_on_when_its_model_was_dropped_and_registered_anew(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await remember(old, "the kitten sleeps")
    await models.reembed(ToyEmbedder("new"), app_name="app")
    await models.drop("old")
    await remember(old, "the hound sleeps", app="fresh")
    assert await active(connection, "fresh") == "old"
    assert await found(old, "puppy", app_name="fresh") == ["the hound sleeps"]
    await models.reembed(ToyEmbedder("old"), app_name="app")
    await remember(old, "the car sleeps")
    assert await jobs(connection) == 0
    assert await found(old, "feline", mode="vector") == ["the kitten sleeps"]


async def test_an_activation_waits_for_a_drop_and_is_then_refused(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    await remember(old, "x")
    await models.reembed(ToyEmbedder("new"), app_name="app")
    async with locked(database_url, "LOCK TABLE adkpg.memory_vectors IN SHARE MODE") as lock:
        dropping = asyncio.create_task(models.drop("old"))
        await lock.until_blocked(1)  # its vectors are about to go
        activating = asyncio.create_task(models.activate("old", app_name="app"))
        await lock.until_blocked(2)
        await lock.release()
        assert await dropping == 1
    with pytest.raises(ConfigurationError, match=r"1 memories .* no vector|dropped meanwhile"):
        await activating
    assert await active(connection) == "new"


async def test_a_drop_waits_for_an_activation_and_is_then_refused(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    await remember(old, "x")
    await models.reembed(ToyEmbedder("new"), app_name="app")
    async with locked(database_url, "LOCK TABLE adkpg.memory_jobs IN SHARE MODE") as lock:
        activating = asyncio.create_task(models.activate("old", app_name="app"))
        await lock.until_blocked(1)
        dropping = asyncio.create_task(models.drop("old"))
        await lock.until_blocked(2)
        await lock.release()
        assert await activating == 0
    with pytest.raises(ConfigurationError, match="active in 'app'"):
        await dropping
    assert await vectors(connection, "old") == 1


async def test_the_index_is_there_before_the_vectors(
    database_url: str, connection: asyncpg.Connection
) -> None:
    async with Database(database_url, settings=Settings(exact_limit=5)) as database:
        old = PgVectorMemoryService(database, embedder=ToyEmbedder("old"))
        models = Models(database)
        await remember(old, *TEXTS)
        await remember(old, *TEXTS[:5], user="small")
        await models.add("new", dimensions=8)
        assert await models.index("new") == 0
        await models.reembed(ToyEmbedder("new"), app_name="app")
        assert [model.indexed for model in await models.list_models()] == [True, False]
        marked = await connection.fetch(
            "SELECT user_id, count(*) FROM memory_vectors WHERE approximate GROUP BY 1"
        )
        assert [tuple(row) for row in marked] == [("user", 8)]
        assert await models.index("old") == 8
        new = PgVectorMemoryService(database, embedder=ToyEmbedder("new"))
        for _ in range(2):
            assert len(await found(new, "feline", mode="vector")) == 4
        await models.drop("old")
        assert await connection.fetchval(INDEX) == 0
        assert await connection.fetchval("SELECT count(*) FROM approximate_scopes") == 1


@pytest.mark.direct("the pooler refuses settings of the server in startup parameters")
async def test_the_index_is_a_matter_of_the_role_that_migrates(
    plain_url: str, old: PgVectorMemoryService, models: Models, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    owner = await connection.fetchval("SELECT current_user")
    async with Database(plain_url) as plain:
        own = Models(plain)
        await own.add("new", dimensions=8)
        refusal = f"may not change the indexes .* belong to '{owner}'; run this as '{owner}'"
        with pytest.raises(ConfigurationError, match=refusal):
            await own.index("new")
        with pytest.raises(ConfigurationError, match=refusal):
            await PgVectorMemoryService(plain, embedder=ToyEmbedder("old")).index_large_scopes()
        assert await connection.fetchval("SELECT count(*) FROM approximate_scopes") == 0
        await own.reembed(ToyEmbedder("new"), app_name="app")
        await models.index("old")
        with pytest.raises(ConfigurationError, match=refusal):
            await own.drop("old")
        assert await vectors(connection, "old") == 8
        # Without an index there is nothing that only the owner may drop.
        await models.activate("old", app_name="app")
        assert await own.drop("new") == 8


async def test_dropping_and_activating_take_as_long_as_a_migration_may(
    database_url: str, connection: asyncpg.Connection
) -> None:
    """An app's memories are more than one command's time is enough for."""
    for made in (
        "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(1.2); RETURN NULL; END $$",
        "SET citus.enable_unsafe_triggers = on",
        "CREATE TRIGGER slowly BEFORE DELETE ON memory_vectors EXECUTE FUNCTION slowly()",
        "CREATE TRIGGER slowly BEFORE INSERT ON memory_jobs EXECUTE FUNCTION slowly()",
    ):
        await connection.execute(made)
    async with Database(database_url) as patient:
        await remember(PgVectorMemoryService(patient, embedder=ToyEmbedder("old")), *TEXTS)
    async with Database(database_url, settings=Settings(command_timeout_s=1)) as hasty:
        models = Models(hasty)
        await models.add("new", dimensions=8)
        assert await models.activate("new", app_name="app", force=True) == 8
        assert await models.drop("old") == 8
