"""A copy of the database removes nothing of the original's, in whatever order both do what."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from adkpg import Database, DatabaseArtifactService, DatabaseSessionService, Users
from adkpg.artifacts import SweptObjects, sweep, sweep_objects
from adkpg.erasure import forget, prune_sessions
from adkpg.errors import ArtifactStoreError, SessionExists
from adkpg.tooling.backup.archive import back_up, restore
from adkpg.tooling.testing.server import Server
from tests.fakes.objects import LARGE, age_claims, blob, objects, settings_of

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
SESSION: dict[str, Any] = {**ANA, "session_id": "s"}
PLACE: dict[str, Any] = {**SESSION, "filename": "film.mp4"}
COPIED = ("artifact_claims", "artifacts", "artifact_uploads", "artifact_removals")


@pytest.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(database_url, settings=settings_of(tmp_path)) as opened:
        yield opened


async def copy_files(source: asyncpg.Connection, target: asyncpg.Connection) -> None:
    """Brings what is of files into another database, as a restored backup does."""
    for table in COPIED:
        await target.execute(f"TRUNCATE adkpg.{table} CASCADE")
        rows = [tuple(row) for row in await source.fetch(f"TABLE adkpg.{table}")]
        await target.copy_records_to_table(table, records=rows, schema_name="adkpg")


@pytest.fixture
async def copy(
    server: Server, connection: asyncpg.Connection, tmp_path: Path
) -> AsyncIterator[Callable[[], Awaitable[Database]]]:
    """Copies what is of files as a restored backup would, with settings that name the folder."""
    name = await server.create(template=server.template)
    url = server.url_of(name)
    async with Database(url, settings=settings_of(tmp_path)) as copied:

        async def made() -> Database:
            target = await asyncpg.connect(url)
            await copy_files(connection, target)
            await target.close()
            return copied

        yield made
    await server.drop(name)


@pytest.mark.fault
async def test_a_copy_of_the_database_removes_nothing_of_the_original(
    database: Database,
    files: DatabaseArtifactService,
    copy: Callable[[], Awaitable[Database]],
    connection: asyncpg.Connection,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await files.save_artifact(**PLACE, artifact=blob(LARGE))
    assert await sweep_objects(database) == SweptObjects(0, 0)
    staging = await copy()
    await age_claims(connection, "2 hours")
    await files.save_artifact(**{**PLACE, "filename": "later"}, artifact=blob(LARGE))
    assert await sweep_objects(database) == SweptObjects(0, 0)
    objects(tmp_path)[0].parent.rename(tmp_path / "20200101")
    with pytest.raises(ArtifactStoreError, match="another database"):
        await sweep_objects(staging)
    await DatabaseArtifactService(staging).delete_artifact(**PLACE)
    assert "left to the worker" in caplog.text
    await forget(staging, **ANA)
    with pytest.raises(ArtifactStoreError, match="take-over-files"):
        await sweep_objects(staging)
    assert len(objects(tmp_path)) == 2


@pytest.mark.fault
async def test_a_restored_database_takes_its_folder_over(
    database: Database,
    files: DatabaseArtifactService,
    copy: Callable[[], Awaitable[Database]],
    connection: asyncpg.Connection,
    tmp_path: Path,
) -> None:
    await files.save_artifact(**PLACE, artifact=blob(LARGE))
    await sweep_objects(database)
    restored = await copy()
    await age_claims(connection, "2 hours")
    await sweep_objects(database)
    await DatabaseArtifactService(restored).delete_artifact(**PLACE)
    assert await sweep_objects(restored, take_over=True) == SweptObjects(1, 0)
    assert await sweep_objects(restored) == SweptObjects(0, 0)
    assert objects(tmp_path) == []
    with pytest.raises(ArtifactStoreError, match="another database"):
        await sweep_objects(database)


async def _sweep(copied: Database) -> None:
    await sweep_objects(copied)


async def _save(copied: Database) -> None:
    await DatabaseArtifactService(copied).save_artifact(**PLACE, artifact=blob(LARGE))


async def _delete(copied: Database) -> None:
    await DatabaseArtifactService(copied).delete_artifact(**PLACE)


async def _delete_session(copied: Database) -> None:
    service = DatabaseSessionService(copied)
    await service.create_session(**SESSION)
    await service.delete_session(**SESSION)


async def _prune(copied: Database) -> None:
    await DatabaseSessionService(copied).create_session(**SESSION)
    await prune_sessions(copied, app_name=None, user_id=Users.ALL, older_than=timedelta())


async def _forget(copied: Database) -> None:
    await forget(copied, **ANA)


ACTS: dict[str, Callable[[Database], Awaitable[None]]] = {
    "sweep": _sweep,
    "save": _save,
    "delete_artifact": _delete,
    "delete_session": _delete_session,
    "prune_sessions": _prune,
    "forget": _forget,
}


@pytest.mark.fault
@pytest.mark.parametrize("act", ACTS)
async def test_a_copy_that_acts_within_the_hour_and_first_removes_nothing(
    files: DatabaseArtifactService,
    copy: Callable[[], Awaitable[Database]],
    tmp_path: Path,
    act: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweep, "_ORPHANED_AFTER", timedelta(days=-2))
    await files.save_artifact(**PLACE, artifact=blob(LARGE))
    copied = await copy()
    await files.save_artifact(**{**PLACE, "filename": "later"}, artifact=blob(LARGE))
    try:
        await ACTS[act](copied)
    except ArtifactStoreError as exc:
        _require_refusal(exc)
    for name in ("film.mp4", "later"):
        assert await files.load_artifact(**{**PLACE, "filename": name}) == blob(LARGE)
    assert len(objects(tmp_path)) == 2


@pytest.mark.fault
async def test_a_forgetful_copy_says_what_it_left(
    files: DatabaseArtifactService, copy: Callable[[], Awaitable[Database]]
) -> None:
    await files.save_artifact(**PLACE, artifact=blob(LARGE))
    erased = await forget(await copy(), **ANA)
    assert (erased.objects, erased.objects_left) == (1, 1)


def _require_refusal(exc: ArtifactStoreError) -> bool:
    assert "belongs to another database" in str(exc)
    return False


class CopiesMachine(RuleBasedStateMachine):
    """An original and its copies, which share a folder."""

    runner: asyncio.Runner
    urls: tuple[str, str]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.saved: list[str] = []
        self.count = 0

    @initialize()
    def begin(self) -> None:
        self.runner.run(self._begin())
        self.save()
        self.copy()

    async def _begin(self) -> None:
        settings = settings_of(Path(self.folder.name))
        self.connections = [await asyncpg.connect(url) for url in self.urls]
        for connection in self.connections:
            await connection.execute(
                f"SET search_path = adkpg; TRUNCATE sessions, {', '.join(COPIED)} CASCADE"
            )
        self.original, self.copied = (Database(url, settings=settings) for url in self.urls)
        self.files = DatabaseArtifactService(self.original)

    @rule()
    def save(self) -> None:
        name = f"film{self.count}"
        self.count += 1
        if self._told(
            self.files.save_artifact(**{**PLACE, "filename": name}, artifact=blob(LARGE))
        ):
            self.saved.append(name)

    @rule()
    def delete(self) -> None:
        if self.saved:
            name = self.saved.pop()
            self.runner.run(self.files.delete_artifact(**{**PLACE, "filename": name}))

    @rule()
    def sweep(self) -> None:
        self._told(sweep_objects(self.original))

    @rule()
    def hours_pass(self) -> None:
        for connection in self.connections:
            self.runner.run(age_claims(connection, "2 hours"))

    @rule()
    def copy(self) -> None:
        self.runner.run(copy_files(*self.connections))

    @rule(act=st.sampled_from(["sweep", "forget", "save"]))
    def act(self, act: str) -> None:
        self._told(ACTS[act](self.copied))

    def _told(self, call: Any) -> bool:
        """Whether a call was not refused as another database's."""
        try:
            self.runner.run(call)
        except ArtifactStoreError as exc:
            return _require_refusal(exc)
        except SessionExists:  # the session of an act before
            pass
        return True

    @invariant()
    def the_originals_files_are_there(self) -> None:
        for name in self.saved:
            found = self.files.load_artifact(**{**PLACE, "filename": name})
            assert self.runner.run(found) == blob(LARGE)

    def teardown(self) -> None:
        self.runner.run(self._end())
        self.folder.cleanup()

    async def _end(self) -> None:
        for connection in getattr(self, "connections", ()):
            await connection.close()
        if hasattr(self, "files"):
            await self.original.close()
            await self.copied.close()


@pytest.mark.property
def test_the_originals_files_stay_in_every_order(
    server: Server, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "_ORPHANED_AFTER", timedelta(days=-2))
    with asyncio.Runner() as runner:
        name = runner.run(server.create(template=server.template))
        fields = {"runner": runner, "urls": (database_url, server.url_of(name))}
        machine = type("Machine", (CopiesMachine,), fields)
        run_state_machine_as_test(
            machine, settings=hypothesis_settings(max_examples=20, stateful_step_count=12)
        )
        runner.run(server.drop(name))


def _nothing(done: int, total: int) -> None:
    assert 0 <= done <= total


@pytest.mark.fault
@pytest.mark.direct("copies a database, to which a pooler would stay connected")
@pytest.mark.parametrize(
    "made_by",
    [pytest.param("backup", marks=pytest.mark.program), "template", "renaming"],
)
async def test_what_is_a_copy(
    server: Server, database_url: str, tmp_path: Path, made_by: str
) -> None:
    settings = settings_of(tmp_path / "objects")
    async with Database(database_url, settings=settings) as original:
        await DatabaseSessionService(original).create_session(**SESSION)
        await DatabaseArtifactService(original).save_artifact(**PLACE, artifact=blob(LARGE))
        if made_by == "backup":
            archive = await back_up(original, tmp_path / "backup", progress=_nothing)
    source = database_url.rpartition("/")[2].partition("?")[0]
    if made_by == "renaming":
        name = f"{source}_b"
        await server.execute(f"ALTER DATABASE {source} RENAME TO {name}")
    else:
        name = await server.create(template=source if made_by == "template" else server.template)
    async with Database(server.url_of(name), settings=settings) as copied:
        if made_by == "backup":
            await restore(copied, archive, progress=_nothing)
        erased = await forget(copied, **ANA)
        assert erased.rows["artifacts"] == 1
        is_copy = made_by != "renaming"
        assert (erased.objects, erased.objects_left) == (1, int(is_copy))
        assert len(objects(tmp_path / "objects")) == int(is_copy)
        if is_copy:
            with pytest.raises(ArtifactStoreError, match="take-over-files"):
                await sweep_objects(copied)
            assert await sweep_objects(copied, take_over=True) == SweptObjects(1, 0)
    if made_by == "renaming":
        await server.execute(f"ALTER DATABASE {name} RENAME TO {source}")
    else:
        await server.drop(name)


async def test_any_role_may_ask_which_server_it_is(connection: asyncpg.Connection) -> None:
    """As the claim does: neither a superuser's nor a monitor's right is needed."""
    found = await connection.fetchval(
        "SELECT proacl IS NULL OR proacl::text LIKE '%{=X/%' FROM pg_proc"
        " WHERE proname = 'pg_control_system'"
    )
    assert found


@pytest.mark.fault
async def test_a_folder_with_objects_and_no_claim_is_nobodys_to_take(
    database: Database,
    files: DatabaseArtifactService,
    copy: Callable[[], Awaitable[Database]],
    tmp_path: Path,
) -> None:
    await files.save_artifact(**PLACE, artifact=blob(LARGE))
    copied = await copy()
    (tmp_path / "adkpg-claim").unlink()
    with pytest.raises(ArtifactStoreError, match="another database"):
        await sweep_objects(copied)
    assert await sweep_objects(database) == SweptObjects(0, 0)
    assert (tmp_path / "adkpg-claim").is_file()
