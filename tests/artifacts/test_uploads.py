"""What is uploaded while its person or session is erased is not saved, whatever comes first."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from google.genai import types

from adkpg import Database, DatabaseArtifactService, DatabaseSessionService
from adkpg.artifacts import SweptObjects, sweep_objects
from adkpg.artifacts.store import ObjectStore
from adkpg.erasure import forget, prune_sessions, statements, tidy
from adkpg.errors import ArtifactGone, SessionNotFound
from adkpg.keys import ScopeKey
from adkpg.memory.write.statements import lock_person
from adkpg.rules import PERSONAL
from tests.fakes.locks import waits_for_a_lock
from tests.fakes.objects import LARGE, blob, objects, settings_of
from tests.fakes.proxy import Proxy

pytestmark = pytest.mark.race

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
ANA_KEY: ScopeKey = {"app_name": "app", "user_id": "ana"}
SESSION: dict[str, Any] = {**ANA, "session_id": "s"}
NAMES = {"film": SessionNotFound, "user:film": ArtifactGone}


async def _delete(database: Database, **more: Any) -> None:
    await DatabaseSessionService(database).delete_session(**SESSION, **more)


DOORS: dict[str, Callable[[Database], Awaitable[Any]]] = {
    "forget": lambda database: forget(database, **ANA),
    "delete_session": _delete,
    "delete_session, memories too": lambda database: _delete(database, forget=True),
    "prune_sessions": lambda database: prune_sessions(database, **ANA, older_than=timedelta()),
}


@pytest.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(database_url, settings=settings_of(tmp_path)) as opened:
        await DatabaseSessionService(opened).create_session(**SESSION)
        yield opened


class Upload:
    """A save that stands still in its upload until the test lets it go on."""

    def __init__(self, database: Database, name: str, *, written: bool, streamed: bool) -> None:
        self.files = DatabaseArtifactService(database)
        self.began, self.go_on = asyncio.Event(), asyncio.Event()
        self._written = written
        self._streamed = streamed
        self._place = {**SESSION, "filename": name}

    async def save(self) -> int:
        if self._streamed:
            return await self.files.save_stream(
                **self._place, data=self._parts(), mime_type="video/mp4"
            )
        assert self.files._store is not None
        self.files._store.write = self._write  # type: ignore[method-assign] # it stands still
        return await self.files.save_artifact(**self._place, artifact=blob(LARGE))

    async def _parts(self) -> AsyncIterator[bytes]:
        yield LARGE
        self.began.set()
        await self.go_on.wait()

    async def _write(self, location: str, file: Any) -> None:
        assert self.files._store is not None
        if self._written:
            await ObjectStore.write(self.files._store, location, file)
        self.began.set()
        await self.go_on.wait()
        if not self._written:
            await ObjectStore.write(self.files._store, location, file)


async def require_nothing_saved(
    database: Database, connection: asyncpg.Connection, folder: Path, name: str
) -> None:
    files = DatabaseArtifactService(database)
    assert await files.load_artifact(**SESSION, filename=name) is None
    assert objects(folder) == []
    for table in ("artifacts", "artifact_uploads", "artifact_chunks"):
        assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 0
    assert await sweep_objects(database) == SweptObjects(0, 0)


@pytest.mark.parametrize("how", ["before its bytes", "after its bytes", "stream"])
@pytest.mark.parametrize("door", DOORS)
async def test_what_is_uploaded_while_its_session_is_erased_is_not_saved(
    database: Database, connection: asyncpg.Connection, tmp_path: Path, door: str, how: str
) -> None:
    upload = Upload(database, "film", written=how.startswith("after"), streamed=how == "stream")
    save = asyncio.create_task(upload.save())
    await upload.began.wait()
    await DOORS[door](database)
    upload.go_on.set()
    with pytest.raises(SessionNotFound, match="while a file of it was uploaded"):
        await save
    await require_nothing_saved(database, connection, tmp_path, "film")


@pytest.mark.parametrize("how", ["before its bytes", "after its bytes", "stream"])
async def test_what_is_uploaded_while_its_user_is_forgotten_is_not_saved(
    database: Database, connection: asyncpg.Connection, tmp_path: Path, how: str
) -> None:
    upload = Upload(
        database, "user:film", written=how.startswith("after"), streamed=how == "stream"
    )
    save = asyncio.create_task(upload.save())
    await upload.began.wait()
    erased = await forget(database, **ANA)
    assert (erased.rows["artifact_uploads"], erased.objects_left) == (1, 0)
    upload.go_on.set()
    with pytest.raises(ArtifactGone, match="forgotten while"):
        await save
    await require_nothing_saved(database, connection, tmp_path, "user:film")
    # What begins afterwards is new.
    assert (
        await upload.files.save_artifact(**SESSION, filename="user:film", artifact=blob(b"")) == 0
    )


async def test_what_is_erased_is_the_uploads_own_person_and_session_alone(
    database: Database,
) -> None:
    upload = Upload(database, "film", written=False, streamed=False)
    save = asyncio.create_task(upload.save())
    await upload.began.wait()
    sessions = DatabaseSessionService(database)
    await sessions.create_session(**ANA, session_id="other")
    await sessions.delete_session(**ANA, session_id="other")
    await forget(database, app_name="app", user_id="bob")
    await forget(database, app_name="other", user_id="ana")
    upload.go_on.set()
    assert await save == 0
    assert await upload.files.load_artifact(**SESSION, filename="film") == blob(LARGE)


@asynccontextmanager
async def _forgetting(database: Database) -> AsyncIterator[None]:
    """Forgets ana, and has not committed it until the context ends."""
    async with database.run.transaction() as transaction:
        await transaction.fetch(lock_person(**ANA))
        for rule in PERSONAL:
            await transaction.fetch(statements.delete_rows(rule, ANA_KEY))
        yield


@asynccontextmanager
async def _deleting(database: Database) -> AsyncIterator[None]:
    async with database.run.transaction() as transaction:
        await transaction.fetch(statements.delete_session(**SESSION))
        yield


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("written", [False, True])
async def test_a_row_that_waits_for_the_erasure_is_not_written(
    database: Database,
    connection: asyncpg.Connection,
    tmp_path: Path,
    name: str,
    written: bool,
) -> None:
    upload = Upload(database, name, written=written, streamed=False)
    save = asyncio.create_task(upload.save())
    await upload.began.wait()
    async with _forgetting(database):
        upload.go_on.set()
        await waits_for_a_lock(connection)
    with pytest.raises(NAMES[name]):
        await save
    await require_nothing_saved(database, connection, tmp_path, name)


@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("erasing", [_forgetting, _deleting])
async def test_a_save_that_waits_for_the_erasure_of_its_session_finds_none(
    database: Database,
    connection: asyncpg.Connection,
    tmp_path: Path,
    large: bool,
    erasing: Callable[[Database], Any],
) -> None:
    files = DatabaseArtifactService(database)
    part = blob(LARGE) if large else types.Part(text="small")
    async with erasing(database):
        save = asyncio.create_task(files.save_artifact(**SESSION, filename="film", artifact=part))
        await waits_for_a_lock(connection)
    with pytest.raises(SessionNotFound):
        await save
    await require_nothing_saved(database, connection, tmp_path, "film")


async def _raises() -> AsyncIterator[bytes]:
    yield LARGE
    raise ValueError("the upload broke off")


async def test_a_save_that_fails_leaves_nothing(
    database: Database, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    files = DatabaseArtifactService(database)
    with pytest.raises(ValueError, match="broke off"):
        await files.save_stream(**SESSION, filename="film", data=_raises(), mime_type="video/mp4")
    await require_nothing_saved(database, connection, tmp_path, "film")
    for written in (True, False):
        upload = Upload(database, "film", written=written, streamed=False)
        save = asyncio.create_task(upload.save())
        await upload.began.wait()
        save.cancel()
        with pytest.raises(asyncio.CancelledError):
            await save
        await require_nothing_saved(database, connection, tmp_path, "film")


async def test_what_a_killed_save_left_goes_when_its_person_is_forgotten_or_when_it_is_old(
    database: Database, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    for erase in (*DOORS.values(), None):
        upload = Upload(database, "film", written=True, streamed=False)
        save = asyncio.create_task(upload.save())
        await upload.began.wait()
        kept = await connection.fetch("SELECT * FROM artifact_uploads")
        save.cancel()
        await asyncio.wait([save])
        # As the process left both that was killed.
        await connection.copy_records_to_table(
            "artifact_uploads", records=kept, schema_name="adkpg"
        )
        (folder := tmp_path / kept[0]["location"]).parent.mkdir(exist_ok=True)
        folder.write_bytes(LARGE)
        if erase is None:
            await connection.execute(
                "UPDATE artifact_uploads SET began_at = now() - interval '49 hours'"
            )
            folder.parent.rename(tmp_path / "20200101")
            await tidy(database)
            assert await sweep_objects(database) == SweptObjects(0, 1)
        else:
            await erase(database)
            await DatabaseSessionService(database).create_session(**SESSION)
        await require_nothing_saved(database, connection, tmp_path, "film")


@pytest.mark.prepared
async def test_a_small_file_takes_one_round_trip_and_an_upload_one_more(
    proxy: Proxy, tmp_path: Path
) -> None:
    async with DatabaseArtifactService(proxy.url, settings=settings_of(tmp_path)) as files:
        for artifact, trips in ((types.Part(text="small"), 1), (blob(LARGE), 2)):
            await files.save_artifact(**SESSION, filename="warm", artifact=artifact)
            before = proxy.round_trips
            await files.save_artifact(**SESSION, filename="film", artifact=artifact)
            assert proxy.round_trips - before == trips
