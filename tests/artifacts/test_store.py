"""Large files on an object store: consistent whatever fails, and gone with their rows."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from google.genai import types

import adkpg
from adkpg import Database, DatabaseArtifactService, DatabaseSessionService, Settings
from adkpg.artifacts import SweptObjects, sweep_objects
from adkpg.errors import (
    ArtifactGone,
    ArtifactStoreError,
    ConfigurationError,
    DatabaseError,
)
from tests.fakes.objects import LARGE, age_claims, blob, objects, settings_of
from tests.fakes.proxy import Proxy

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
PLACE: dict[str, Any] = {**ANA, "session_id": "s", "filename": "film.mp4"}


@pytest.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(database_url, settings=settings_of(tmp_path)) as opened:
        yield opened


async def test_large_files_go_to_the_store(
    files: DatabaseArtifactService, tmp_path: Path, connection: asyncpg.Connection
) -> None:
    for data in (LARGE, b"small", LARGE[::-1]):
        await files.save_artifact(**PLACE, artifact=blob(data), custom_metadata={"k": 1})
    assert len(objects(tmp_path)) == 2
    assert await connection.fetchval("SELECT count(*) FROM artifact_chunks") == 1
    assert await files.load_artifact(**PLACE, version=0) == blob(LARGE)
    assert await files.load_artifact(**PLACE, version=1) == blob(b"small")
    assert await files.load_artifact(**PLACE) == blob(LARGE[::-1])
    await files.save_artifact(**PLACE, artifact=types.Part(text="é" * 1_000))
    assert await files.load_artifact(**PLACE) == types.Part(text="é" * 1_000)

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield LARGE * 20

    version = await files.save_stream(**PLACE, data=parts(), mime_type="video/mp4")
    opened = await files.open_artifact(**PLACE, version=version)
    assert opened is not None
    assert b"".join([part async for part in opened]) == LARGE * 600
    assert not any("ana" in str(path) or "film" in str(path) for path in objects(tmp_path))


async def test_objects_go_with_their_rows(
    database: Database, files: DatabaseArtifactService, tmp_path: Path
) -> None:
    sessions = DatabaseSessionService(database)
    for session_id in ("s", "t", "u"):
        await sessions.create_session(**ANA, session_id=session_id)
        await files.save_artifact(**{**PLACE, "session_id": session_id}, artifact=blob(LARGE))
    await files.delete_artifact(**PLACE)
    assert len(objects(tmp_path)) == 2
    await sessions.delete_session(**ANA, session_id="t")
    assert len(objects(tmp_path)) == 1
    await adkpg.erasure.forget(database, **ANA)
    assert objects(tmp_path) == []
    assert await sweep_objects(database) == SweptObjects(0, 0)


@pytest.mark.fault
async def test_what_no_row_names_is_swept_when_it_is_old(
    database: Database, files: DatabaseArtifactService, tmp_path: Path
) -> None:
    await files.save_artifact(**PLACE, artifact=blob(LARGE))
    (kept,) = objects(tmp_path)
    (kept.parent / "00000000-0000-0000-0000-000000000000").write_bytes(b"of a save that runs")
    old = tmp_path / "20200101"
    old.mkdir()
    (old / "00000000-0000-0000-0000-000000000001").write_bytes(b"of a save that failed")
    (old / "not ours").write_bytes(b"x")
    (tmp_path / "another").mkdir()
    (tmp_path / "another" / "file").write_bytes(b"somebody's")
    assert await sweep_objects(database) == SweptObjects(0, 2)
    assert [path.parent.name for path in objects(tmp_path)] == [kept.parent.name] * 2 + ["another"]
    assert await files.load_artifact(**PLACE) == blob(LARGE)


@pytest.mark.fault
async def test_old_objects_with_rows_stay(
    database: Database,
    files: DatabaseArtifactService,
    tmp_path: Path,
    connection: asyncpg.Connection,
) -> None:
    await files.save_artifact(**PLACE, artifact=blob(LARGE))
    (path,) = objects(tmp_path)
    path.parent.rename(tmp_path / "20200101")
    location = f"20200101/{path.name}"
    await connection.execute("UPDATE artifacts SET location = $1", location)
    assert await sweep_objects(database) == SweptObjects(0, 0)
    assert await files.load_artifact(**PLACE) == blob(LARGE)


@pytest.mark.fault
async def test_a_store_that_refuses_saves_nothing(
    database_url: str, tmp_path: Path, connection: asyncpg.Connection
) -> None:
    (tmp_path / "file").write_bytes(b"no folder")
    broken = settings_of(tmp_path / "file")
    async with Database(database_url, settings=broken) as database:
        files = DatabaseArtifactService(database)
        with pytest.raises(ArtifactStoreError, match="object store refused"):
            await files.save_artifact(**PLACE, artifact=blob(LARGE))
        assert await files.list_versions(**PLACE) == []
        assert await files.save_artifact(**PLACE, artifact=blob(b"small")) == 0
    assert await connection.fetchval("SELECT count(*) FROM artifacts") == 1


@pytest.mark.fault
@pytest.mark.usefixtures("impatient")
async def test_a_row_that_cannot_be_written_leaves_an_orphan_alone(
    proxy: Proxy, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def and_then_the_server_is_gone(*given: Any) -> None:
        await write(*given)
        await proxy.leave()

    here = settings_of(tmp_path, retry_timeout_s=0)
    async with DatabaseArtifactService(proxy.url, settings=here) as files:
        assert files._store is not None
        write = files._store.write
        monkeypatch.setattr(files._store, "write", and_then_the_server_is_gone)
        with pytest.raises(DatabaseError):
            await files.save_artifact(**PLACE, artifact=blob(LARGE))
    (orphan,) = objects(tmp_path)
    orphan.parent.rename(tmp_path / "20200101")
    async with Database(database_url, settings=settings_of(tmp_path)) as database:
        assert await sweep_objects(database) == SweptObjects(0, 1)


@pytest.mark.fault
@pytest.mark.prepared
@pytest.mark.parametrize("uploaded", [False, True])
async def test_a_lost_answer_saves_one_version(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uploaded: bool
) -> None:
    async def and_then_an_answer_is_lost(*given: Any) -> None:
        await write(*given)
        proxy.lose_answers = 1

    async with DatabaseArtifactService(proxy.url, settings=settings_of(tmp_path)) as files:
        await files.save_artifact(**{**PLACE, "filename": "warm"}, artifact=blob(LARGE))
        if uploaded:
            assert files._store is not None
            write = files._store.write
            monkeypatch.setattr(files._store, "write", and_then_an_answer_is_lost)
        else:
            proxy.lose_answers = 1
        assert await files.save_artifact(**PLACE, artifact=blob(LARGE)) == 0
        assert await files.list_versions(**PLACE) == [0]
        assert await files.load_artifact(**PLACE) == blob(LARGE)
    assert len(objects(tmp_path)) == 2


@pytest.mark.race
async def test_every_save_gets_a_version_of_its_own(
    files: DatabaseArtifactService, tmp_path: Path
) -> None:
    got = await asyncio.gather(
        *(files.save_artifact(**PLACE, artifact=blob(LARGE + bytes([n]))) for n in range(12))
    )
    assert sorted(got) == list(range(12))
    assert len(objects(tmp_path)) == 12
    for n, version in enumerate(got):
        assert await files.load_artifact(**PLACE, version=version) == blob(LARGE + bytes([n]))


@pytest.mark.fault
async def test_what_is_missing_or_cut_is_said(
    files: DatabaseArtifactService, tmp_path: Path, database_url: str
) -> None:
    await files.save_artifact(**PLACE, artifact=blob(LARGE))
    async with DatabaseArtifactService(database_url) as without:
        with pytest.raises(ConfigurationError, match="ADKPG_ARTIFACT_STORE"):
            await without.load_artifact(**PLACE)
    (path,) = objects(tmp_path)
    path.write_bytes(b"cut")
    with pytest.raises(ArtifactGone, match="3 bytes"):
        await files.load_artifact(**PLACE)
    path.unlink()
    with pytest.raises(ArtifactGone, match="object store no longer has"):
        await files.load_artifact(**PLACE)
    await files.delete_artifact(**PLACE)
    assert await files.list_versions(**PLACE) == []


@pytest.mark.fault
async def test_a_claim_that_was_cut_off_stays_the_databases_own(
    database: Database, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    await sweep_objects(database)
    claim = tmp_path / "adkpg-claim"
    first = claim.read_text()
    await age_claims(connection, "2 hours")
    claim.rename(tmp_path / "kept")
    claim.mkdir()  # it can be neither read nor written
    with pytest.raises(ArtifactStoreError, match="refused"):
        await sweep_objects(database)
    claim.rmdir()
    (tmp_path / "kept").rename(claim)
    await sweep_objects(database)
    assert claim.read_text() != first
    claim.write_bytes(b"")  # its writing was cut off
    await sweep_objects(database)
    assert len(claim.read_text()) == 36
    claim.write_bytes(b"\0\xff somebody's")
    with pytest.raises(ArtifactStoreError, match="another database"):
        await sweep_objects(database)


@pytest.mark.race
async def test_sweeps_at_once_claim_the_folder_together(
    database: Database, connection: asyncpg.Connection
) -> None:
    for _ in range(3):
        await asyncio.gather(*(sweep_objects(database) for _ in range(6)))
        await age_claims(connection, "40 days")
    assert await sweep_objects(database) == SweptObjects(0, 0)
    assert await connection.fetchval("SELECT count(*) FROM artifact_claims") == 1


def test_a_wrong_address_is_a_sentence(database_url: str) -> None:
    url = "nosuchstore://key:secret@bucket"
    settings = Settings(artifact_store=url)  # type: ignore[arg-type] # pydantic reads it
    with pytest.raises(ConfigurationError, match="ADKPG_ARTIFACT_STORE") as refused:
        DatabaseArtifactService(database_url, settings=settings)
    assert "secret" not in str(refused.value)
