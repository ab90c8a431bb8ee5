"""Imports and exports of tables with row-level security: everybody's, or a person's own."""

from pathlib import Path
from typing import Any

import asyncpg
import pytest

import adkpg
from adkpg import Database, DatabaseArtifactService, DatabaseSessionService
from adkpg.database.row_security import quoted
from adkpg.errors import ScopeMissing
from adkpg.tooling.testing import said
from adkpg.tooling.transfer import export, export_to_adk, import_from
from tests.fakes.moves import exported, imported, stored
from tests.fakes.roles import Roles
from tests.fakes.story import FIXTURES, require_story

FILE = FIXTURES / "v1-adk-2.6.0-Europe-Vienna.db"
TRAVEL: dict[str, Any] = {"app_name": "travel"}


async def test_a_worker_imports_everybody_and_exports_an_app(
    worked: Database, database_url: str, tmp_path: Path
) -> None:
    with adkpg.every_scope():
        report = await imported(worked, FILE, remember=True)
        assert (report.sessions, report.events_written, report.verified) == (4, 8, 4)
        await require_story(worked)
        before = await stored(database_url)
        path = tmp_path / "travel.jsonl"
        lines = await exported(worked, path, **TRAVEL)
        assert {line["type"] for line in lines} >= {"session", "event", "memory", "user_state"}
        again = await imported(worked, path)
        assert (again.unchanged, again.events_written, again.memories_written) == (3, 0, 0)
        assert await stored(database_url) == before
        left = f"sqlite:///{tmp_path}/left.db"
        assert (await export_to_adk(worked, url=left, **TRAVEL)).sessions == 3


async def test_in_place_beside_adks_tables(
    worked: Database, roles: Roles, empty_database_url: str, database_url: str
) -> None:
    """ADK's tables lie in the schema public, which the worker may read."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("SET search_path = public")
    dump = (FIXTURES / "postgres-v1-adk-2.6.0-Europe-Vienna.sql").read_text()
    await connection.execute(dump)
    await connection.close()
    role = quoted(roles.name("work"))
    await roles.execute([f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"])
    with adkpg.every_scope():
        report = await imported(worked, roles.url("work"), source_schema="public")
        assert report.sessions == 4
        await require_story(worked)


async def test_a_person_takes_their_own_and_nobody_elses(
    served: Database, worked: Database, tmp_path: Path
) -> None:
    sessions, files = DatabaseSessionService(served), DatabaseArtifactService(served)
    for user in ("ada", "bob"):
        place: dict[str, Any] = {"app_name": "app", "user_id": user, "session_id": "s"}
        with adkpg.scope(app_name="app", user_id=user):
            session = await sessions.create_session(**place)
            await sessions.append_event(session, said(f"I am {user}."))
            await files.save_artifact(
                **place, filename="f", artifact={"text": f"The file of {user}."}
            )
    with adkpg.scope(app_name="app", user_id="ada"):
        own = "\n".join([line async for line in export(served, app_name="app", user_id="ada")])
        bobs = [line async for line in export(served, app_name="app", user_id="bob")]
        assert '"type":"session"' not in "".join(bobs)
        for call in (
            exported(served, tmp_path / "all.jsonl", app_name="app"),
            import_from(served, source=FILE),
        ):
            with pytest.raises(ScopeMissing):
                await call
    assert "I am ada." in own
    assert "bob" not in own
    (tmp_path / "ada.jsonl").write_text(own)
    with adkpg.every_scope():
        assert (await imported(worked, tmp_path / "ada.jsonl")).unchanged == 1
