"""Whatever door a file leaves by, its object goes too, or is said to be left and goes later."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from adkpg import Database, DatabaseArtifactService, DatabaseSessionService, Settings
from adkpg.artifacts import SweptObjects, sweep_objects
from adkpg.erasure import Erased, forget, prune_sessions, tidy
from adkpg.tooling.cli.program import main
from adkpg.tooling.console import create_console
from tests.fakes.browser import Browser
from tests.fakes.life import earlier
from tests.fakes.objects import LARGE, blob, objects, settings_of

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
BOB: dict[str, Any] = {"app_name": "app", "user_id": "bob"}


async def _forget(database: Database) -> None:
    await forget(database, **ANA)


async def _console(database: Database) -> None:
    browser = Browser(create_console(database), "http://127.0.0.1:8765")
    place = {"app": "app", "user": "ana"}
    form = await browser.token("/forget", **place)
    done = await browser.post("/forget/now", form_token=form, **place, again="ana")
    assert "2 objects of files were removed" in done.text
    await browser.client.aclose()


async def _command(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        await asyncio.to_thread(main, list(arguments), prog_name="adkpg")
    assert ended.value.code in (0, None)


async def _delete(database: Database, **more: Any) -> None:
    await DatabaseSessionService(database).delete_session(**ANA, session_id="s", **more)


async def _delete_artifact(database: Database) -> None:
    await DatabaseArtifactService(database).delete_artifact(**ANA, session_id="s", filename="film")


DOORS: dict[str, tuple[bool, Callable[[Database], Awaitable[Any]]]] = {
    "forget": (True, _forget),
    "console": (True, _console),
    "adkpg forget": (
        True,
        lambda _: _command("forget", "--app", "app", "--user", "ana", "--yes"),
    ),
    "delete_session": (False, _delete),
    "delete_session, memories too": (False, lambda database: _delete(database, forget=True)),
    "adkpg sessions delete": (
        False,
        lambda _: _command("sessions", "delete", "s", "--app", "app", "--user", "ana", "--yes"),
    ),
    "prune_sessions": (
        False,
        lambda database: prune_sessions(database, **ANA, older_than=timedelta()),
    ),
    "adkpg sessions prune": (
        False,
        lambda _: _command("sessions", "prune", "--app", "app", "--user", "ana", "--yes"),
    ),
    "tidy": (False, tidy),
    "adkpg db tidy": (False, lambda _: _command("db", "tidy")),
    "delete_artifact": (False, _delete_artifact),
}
"""By its name: whether the user's own files go too, and what erases."""
EXPIRED = ("tidy", "adkpg db tidy", "adkpg sessions prune")


@pytest.fixture
async def database(
    database_url: str,
    connection: asyncpg.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Database]:
    """Where ana and bob have a file of a session and one of their own, all with objects."""
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    monkeypatch.setenv("ADKPG_ARTIFACT_STORE", f"file://{tmp_path}/store")
    monkeypatch.setenv("ADKPG_ARTIFACT_STORE_ABOVE_KB", "1")
    async with Database(database_url, settings=settings_of(tmp_path / "store")) as opened:
        sessions, files = DatabaseSessionService(opened), DatabaseArtifactService(opened)
        for person in (ANA, BOB):
            await sessions.create_session(**person, session_id="s", ttl="3600s")
            for name in ("film", "user:film"):
                await files.save_artifact(
                    **person, session_id="s", filename=name, artifact=blob(LARGE)
                )
        await connection.execute(
            f"UPDATE sessions SET {earlier('expires_at', '2 hours')} WHERE user_id = 'ana'"
        )
        yield opened


@pytest.mark.parametrize("door", DOORS)
async def test_bytes_go_with_their_rows(
    database: Database, connection: asyncpg.Connection, tmp_path: Path, door: str
) -> None:
    of_user, erase = DOORS[door]
    if door not in EXPIRED:  # an expired session is found by no other
        await connection.execute("UPDATE sessions SET expires_at = NULL")
    await erase(database)
    left = {row["location"] for row in await connection.fetch("SELECT location FROM artifacts")}
    assert len(left) == 4 - 1 - of_user
    assert {
        str(path.relative_to(tmp_path / "store")) for path in objects(tmp_path / "store")
    } == left
    assert await connection.fetchval("SELECT count(*) FROM artifact_removals") == 0


@pytest.mark.fault
@pytest.mark.parametrize(
    "door", [door for door in DOORS if door != "console" and "adkpg" not in door]
)
async def test_what_cannot_be_removed_is_said_and_goes_with_a_later_sweep(
    database: Database,
    connection: asyncpg.Connection,
    tmp_path: Path,
    door: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    of_user, erase = DOORS[door]
    if door not in EXPIRED:
        await connection.execute("UPDATE sessions SET expires_at = NULL")
    (tmp_path / "store").rename(tmp_path / "away")
    (tmp_path / "store").write_bytes(b"no folder")
    await erase(database)
    assert "left to the worker" in caplog.text
    (tmp_path / "store").unlink()
    (tmp_path / "away").rename(tmp_path / "store")
    assert len(objects(tmp_path / "store")) == 4
    assert await sweep_objects(database) == SweptObjects(1 + of_user, 0)
    assert len(objects(tmp_path / "store")) == 4 - 1 - of_user


@pytest.mark.fault
async def test_what_forget_reports(
    database: Database, database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = await forget(database, **ANA, dry_run=True)
    assert (planned.objects, planned.objects_left) == (2, 0)
    async with Database(database_url, settings=Settings(artifact_store=None)) as without:
        erased = await forget(without, **BOB)
    assert (erased.objects, erased.objects_left) == (2, 2)
    assert len(objects(tmp_path / "store")) == 4
    capsys.readouterr()
    await _command("forget", "--app", "app", "--user", "ana", "--yes", "--json")
    (told,) = json.loads(capsys.readouterr().out)["erased"]
    assert (told["objects"], told["objects_left"]) == (2, 0)
    assert len(objects(tmp_path / "store")) == 2
    assert await sweep_objects(database) == SweptObjects(2, 0)
    assert await forget(database, **ANA) == Erased("app", "ana", {}, {}, 0)
