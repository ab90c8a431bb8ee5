"""What a process says of itself at start, and how the server names its connections."""

import logging

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from adkpg import (
    Database,
    DatabaseArtifactService,
    DatabaseSessionService,
    InMemoryVectorMemoryService,
    PgVectorMemoryService,
    Settings,
)
from adkpg.documents import Documents
from adkpg.facts import Facts
from adkpg.tooling.models import Models
from tests.fakes.conversation import USER
from tests.fakes.toys import ToyEmbedder


async def test_one_line_says_where_and_with_what(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "adkpg")
    async with Database(database_url, pool_size=3, max_overflow=1) as database:
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        for _ in range(3):
            await sessions.create_session(**USER)
            await memory.search_memory(**USER, query="tea")
        found = await database.installation.found()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert said[0].startswith("adkpg ")
    for part in (
        database.url,
        f"schema adkpg at revision {found.revision}",
        "Postgres {}.{}".format(*divmod(found.postgres, 10_000)),
        f"pgvector {found.pgvector}",
        f"embedder {ToyEmbedder().model} ({ToyEmbedder().dimensions})",
        "remembering off, at most 4 connections per event loop",
    ):
        assert part in said[0]


async def test_a_migration_says_which_revision_it_reached(
    empty_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "adkpg")
    async with Database(empty_database_url) as database:
        await database.upgrade()
    said = [each.message for each in caplog.records if each.name.startswith("adkpg.")]
    assert any("Schema adkpg was migrated to revision" in line for line in said)


async def _application_name(database: Database) -> str:
    async with (await database.engine()).connect() as connection:
        return str(await connection.scalar(text("SHOW application_name")))


async def test_connections_have_a_name(database_url: str) -> None:
    async with Database(database_url) as database:
        assert await _application_name(database) == "adkpg"
    async with Database(database_url, settings=Settings(application_name="bot")) as database:
        assert await _application_name(database) == "bot"


@pytest.mark.direct("a pooler refuses most settings at the start of a connection")
async def test_a_name_of_the_callers_own_wins(database_url: str) -> None:
    sign = "&" if "?" in database_url else "?"
    async with Database(f"{database_url}{sign}application_name=mine") as database:
        assert await _application_name(database) == "mine"
    told = {"server_settings": {"application_name": "told", "jit": "off"}}
    async with Database(database_url, connect_args=told) as database:
        assert await _application_name(database) == "told"
    other = {"server_settings": {"jit": "off"}}
    async with Database(database_url, connect_args=other) as database:
        assert await _application_name(database) == "adkpg"


def test_services_show_what_they_are() -> None:
    database = Database("postgresql://u:s3cret@h/d")
    shown = "Database('postgresql://u:***@h/d')"
    memory = PgVectorMemoryService(database, embedder=ToyEmbedder(), mode="vector")
    embedder = f"'{ToyEmbedder().model} ({ToyEmbedder().dimensions})'"
    told = f"PgVectorMemoryService({shown}, embedder={embedder}, mode='vector')"
    assert repr(memory) == told
    assert repr(PgVectorMemoryService(database, mode="text")).endswith(
        "embedder=None, mode='text')"
    )
    assert repr(DatabaseSessionService(database, on_conflict="merge", remember=True)) == (
        f"DatabaseSessionService({shown}, on_conflict='merge', remember=True)"
    )
    assert repr(DatabaseArtifactService(database)) == f"DatabaseArtifactService({shown})"
    assert repr(Facts(memory)) == f"Facts({told}, extractor=None)"
    assert repr(Documents(memory)).startswith(f"Documents({told}, chunk_tokens=")
    assert repr(Models(database)) == f"Models({shown})"
    in_memory = InMemoryVectorMemoryService(embedder=ToyEmbedder())
    assert repr(in_memory) == "InMemoryVectorMemoryService(embedder='toy', top_k=5)"
    engine = create_async_engine("postgresql+asyncpg://u:s3cret@h/d")
    assert "s3cret" not in repr(DatabaseSessionService(db_engine=engine))
