"""Exports of files whose bytes are in an object store: they come along, or are named alone."""

from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from pydantic import SecretStr

from adkpg import Database, DatabaseArtifactService, Settings
from adkpg.errors import ArtifactGone, ConfigurationError
from adkpg.tooling.transfer import export
from tests.fakes.moves import exported, imported, stored
from tests.fakes.objects import objects

PLACE: dict[str, Any] = {"app_name": "app", "user_id": "ana", "session_id": "s", "filename": "f"}
LARGE = bytes(range(256)) * 5_000  # of five chunks
PARTS = [
    types.Part(inline_data=types.Blob(data=LARGE, mime_type="video/mp4")),
    types.Part(text="é" * 300_000),
    types.Part(inline_data=types.Blob(data=b"small", mime_type="image/png")),
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        artifact_store=SecretStr(f"file://{tmp_path}/objects"), artifact_store_above_kb=1
    )


@pytest.fixture
async def kept(database_url: str, settings: Settings) -> Any:
    """A database with files, two of which are in the store."""
    async with Database(database_url, settings=settings) as database:
        files = DatabaseArtifactService(database)
        for part in PARTS:
            await files.save_artifact(**PLACE, artifact=part)
        yield database


async def _require_files(database: Database) -> None:
    files = DatabaseArtifactService(database)
    for version, part in enumerate(PARTS):
        assert await files.load_artifact(**PLACE, version=version) == part


async def test_the_bytes_come_along(
    kept: Database, target: Database, target_url: str, database_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "app.jsonl"
    lines = await exported(kept, path, app_name="app")
    chunks = [line for line in lines if line["type"] == "artifact_chunk"]
    assert [line["chunk"] for line in chunks] == [*range(5), *range(3), 0]
    await imported(target, path)
    await _require_files(target)
    before = await stored(target_url)
    await imported(target, path)
    assert await stored(target_url) == before
    there = await stored(database_url)
    await imported(kept, path)  # where they are in the store already
    assert await stored(database_url) == there
    again = await exported(target, tmp_path / "again.jsonl", app_name="app")
    assert again[1:-1] == lines[1:-1]


async def test_they_may_be_named_alone(
    kept: Database, target_url: str, settings: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "app.jsonl"
    path.write_text("\n".join([line async for line in export(kept, app_name="app", objects=False)]))
    assert len(path.read_text()) < 10_000
    async with Database(target_url, settings=settings) as target:
        await imported(target, path)
        await _require_files(target)


async def test_without_the_store_nothing_is_left_out_silently(
    kept: Database, database_url: str
) -> None:
    async with Database(database_url) as plain:
        with pytest.raises(ConfigurationError, match="ADKPG_ARTIFACT_STORE"):
            _ = [line async for line in export(plain, app_name="app")]
        named = [line async for line in export(plain, app_name="app", objects=False)]
    assert len([line for line in named if '"location":"' in line]) == 2


async def test_a_lost_object_is_said(kept: Database, tmp_path: Path) -> None:
    objects(tmp_path / "objects")[0].unlink()
    with pytest.raises(ArtifactGone, match="restore them"):
        _ = [line async for line in export(kept, app_name="app")]
