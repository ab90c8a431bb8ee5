"""Bytes in an object store go with the person whose files they were."""

from pathlib import Path
from typing import Any

import pytest

from adkpg import Database, DatabaseArtifactService, DatabaseSessionService
from adkpg.artifacts import SweptObjects, statements, sweep_objects
from adkpg.erasure import forget
from tests.fakes.citus import Own
from tests.fakes.citus import said as asked
from tests.fakes.citus_writers import user_on
from tests.fakes.objects import LARGE, blob, objects, settings_of

pytestmark = pytest.mark.cluster

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
BOB: dict[str, Any] = {"app_name": "app", "user_id": "bob"}


async def save(database: Database) -> None:
    sessions, files = DatabaseSessionService(database), DatabaseArtifactService(database)
    for person in (ANA, BOB):
        await sessions.create_session(**person, session_id="s")
        for name in ("film", "user:film"):
            saved = {**person, "session_id": "s", "filename": name}
            assert await files.save_artifact(**saved, artifact=blob(LARGE)) == 0


async def test_they_are_removed(database_url: str, tmp_path: Path) -> None:
    async with Database(database_url, settings=settings_of(tmp_path)) as database:
        await save(database)
        assert len(objects(tmp_path)) == 4
        erased = await forget(database, **ANA)
        assert (erased.objects, erased.objects_left) == (2, 0)
        assert len(objects(tmp_path)) == 2
        saved = {**BOB, "session_id": "s", "filename": "film"}
        assert await DatabaseArtifactService(database).load_artifact(**saved) == blob(LARGE)


@pytest.mark.parametrize("forgotten", [True, False])
async def test_those_of_a_session_are_removed(
    database_url: str, tmp_path: Path, forgotten: bool
) -> None:
    async with Database(database_url, settings=settings_of(tmp_path)) as database:
        await save(database)
        service = DatabaseSessionService(database)
        await service.delete_session(**ANA, session_id="s", forget=forgotten)
        files = DatabaseArtifactService(database)
        assert await files.list_artifact_keys(**ANA, session_id="s") == ["user:film"]
        assert len(objects(tmp_path)) == 3


async def test_a_file_of_a_session_that_is_not_stored_here_keeps_its_bytes(
    database_url: str, tmp_path: Path
) -> None:
    async with Database(database_url, settings=settings_of(tmp_path)) as database:
        files = DatabaseArtifactService(database)
        saved = {**ANA, "session_id": "elsewhere", "filename": "film"}
        await files.save_artifact(**saved, artifact=blob(LARGE))
        service = DatabaseSessionService(database)
        await service.delete_session(**ANA, session_id="elsewhere", forget=True)
        assert await sweep_objects(database) == SweptObjects(0, 0)
        assert await files.load_artifact(**saved) == blob(LARGE)


async def test_a_note_of_what_a_file_still_names_removes_nothing(
    database_url: str, tmp_path: Path
) -> None:
    async with Database(database_url, settings=settings_of(tmp_path)) as database:
        await save(database)
        rows = await asked(database_url, "SELECT location FROM adkpg.artifacts")
        locations = [row["location"] for row in rows]
        await database.run.fetch(statements.note_removals(locations=locations))
        assert await sweep_objects(database) == SweptObjects(0, 0)
        assert len(objects(tmp_path)) == 4
        assert await sweep_objects(database) == SweptObjects(0, 0)


@pytest.mark.fault
async def test_rows_are_erased_though_a_node_that_must_note_them_is_away(
    own: Own, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost, kept = own.cluster.nodes[1:]
    settings = settings_of(tmp_path, retry_timeout_s=0.0)
    person: dict[str, Any] = {"app_name": "app", "user_id": await user_on(own.url, kept.port)}
    saved = {**person, "session_id": "s", "filename": "film"}
    async with Database(own.url, settings=settings) as database:
        files = DatabaseArtifactService(database)
        await files.save_artifact(**saved, artifact=blob(LARGE))
        lost.kill()
        erased = await forget(database, **person)
        assert erased.rows == {"artifacts": 1}
        assert "until they are two days old" in caplog.text
        await lost.start()
        assert await files.list_versions(**saved) == []
