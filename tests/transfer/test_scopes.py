"""No file chooses a scope: what was not asked for stays as it is, whatever a line says."""

import base64
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.errors import InvalidInput
from adkpg.keys import APP_WIDE
from adkpg.tooling.testing import said
from adkpg.tooling.transfer import import_from, kinds
from tests.fakes.moves import MOVED, stored

NOW = "2026-01-01T00:00:00.000000+00:00"
FUTURE = "2099-01-01T00:00:00.000000+00:00"


def line_of(kind: str, app_name: str, user_id: str | None) -> dict[str, Any]:
    """A line of each kind, of some app and user, whose ids are those of what is stored."""
    place: dict[str, Any] = {"app_name": app_name, "user_id": user_id}
    session = {**place, "session_id": "s"}
    moment = {"created_at": NOW, "updated_at": FUTURE}
    event = said("Evil.", id="evil").model_dump(mode="json", exclude_none=True)
    file = str(uuid.UUID(int=7))
    fields: dict[str, dict[str, Any]] = {
        "session": {**session, **moment, "state": {"evil": 1}, "revision": 9},
        "event": {**session, "seq": 2, "event": event},
        "app_state": {**place, "state": {"rule": "evil"}, "updated_at": FUTURE},
        "user_state": {**place, "state": {"rule": "evil"}, "updated_at": FUTURE},
        "app_settings": {
            **place,
            "text_search_config": "simple",
            "extract_facts": True,
            "model": {"name": "evil", "dimensions": 7},
        },
        "tombstone": {**session, "event_id": "e1", "needed_at": FUTURE},
        "memory": {
            **place,
            "memory_id": "m",
            "kind": "note",
            "timestamp": NOW,
            "content": {"parts": [{"text": "Evil."}]},
            "body": "Evil.",
            "importance": 0.5,
            "digest": "d",
            "position": -2 if user_id is None else 2**40,
        },
        "artifact": {
            **place,
            "session_id": None,
            "name": "user:x",
            "version": 0,
            "artifact_id": file,
            "part": {"inline_data": {"mime_type": "text/plain"}},
            "custom_metadata": {},
            "size": 4,
            "created_at": NOW,
        },
        "saved_question": {
            **place,
            "question_id": file,
            "question": "Evil?",
            "evidence": ["m"],
            "created_at": NOW,
        },
        "task": {
            **session,
            "revision": 2,
            "payload_revision": 1,
            "created_at": NOW,
            "updated_at": NOW,
            "status_at": NOW,
            "ends_at": NOW,
            "task_id": "t",
            "state": "TASK_STATE_COMPLETED",
            "payload": {"id": "t", "contextId": "s"},
        },
        "task_event": {**session, "task_id": "t", "revision": 2, "payload": {"statusUpdate": {}}},
        "artifact_chunk": {
            **place,
            "artifact_id": file,
            "chunk": 0,
            "data": base64.b64encode(b"evil").decode(),
        },
    }
    return {"type": kind, **fields[kind]}


KINDS = sorted(kinds.KINDS)


def file_of(folder: Path, header: dict[str, Any], *records: dict[str, Any]) -> Path:
    first = {"type": "export", "format": "adkpg", "version": 1, **header}
    path = folder / "export.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (first, *records)))
    return path


@pytest.fixture
async def victim(database: Database) -> None:
    """An app whose users have something, and another app."""
    sessions = DatabaseSessionService(database)
    for app_name in ("app", "other"):
        for user_id in ("ana", "mallory"):
            session = await sessions.create_session(
                app_name=app_name,
                user_id=user_id,
                session_id="s",
                state={"app:rule": "fair", "user:rule": "fair", "own": 1},
            )
            await sessions.append_event(session, said("Hello.", id="e1"))


async def outside(url: str, app_name: str, user_id: str) -> dict[str, list[dict[str, Any]]]:
    """All that is stored of others than a user."""
    found = await stored(url, (*MOVED, "embedding_models"))
    return {
        table: [
            row for row in rows if (row.get("app_name"), row.get("user_id")) != (app_name, user_id)
        ]
        for table, rows in found.items()
    }


def of_all_places() -> Iterator[tuple[str, str | None]]:
    for app_name in ("app", "other"):
        for user_id in ("ana", None, APP_WIDE, "mallory"):
            yield app_name, user_id


@pytest.mark.usefixtures("victim")
@pytest.mark.parametrize(
    "header",
    [
        {"app_name": "app", "user_id": "mallory"},
        {"app_name": "app", "user_id": "ana"},
        {"app_name": "app"},
        {},
    ],
    ids=["their own", "another's", "of the app", "that says nothing"],
)
async def test_a_users_file_changes_that_user_alone(
    database: Database, database_url: str, tmp_path: Path, header: dict[str, str]
) -> None:
    everything = [line_of(kind, *place) for place in of_all_places() for kind in KINDS]
    before = await outside(database_url, "app", "mallory")
    report = await import_from(
        database,
        source=file_of(tmp_path, header, *everything),
        app_name="app",
        user_id="mallory",
    )
    assert await outside(database_url, "app", "mallory") == before
    if "user_id" in header:
        assert report.unread.count
    else:
        assert any("that all users of app 'app' share" in note for note in report.notes)


@pytest.mark.usefixtures("victim")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_line_of_another_scope_than_its_header_is_unread(
    database: Database, database_url: str, tmp_path: Path, kind: str
) -> None:
    before = await stored(database_url)
    foreign = [line_of(kind, *place) for place in of_all_places() if place != ("app", "mallory")]
    header = {"app_name": "app", "user_id": "mallory"}
    report = await import_from(database, source=file_of(tmp_path, header, *foreign))
    assert await stored(database_url) == before
    assert report.unread.count > 0


@pytest.mark.usefixtures("victim")
async def test_a_file_that_comes_from_the_future_does_not_win_for_ever(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    records = [line_of(kind, "new", "ana") for kind in ("user_state", "session")]
    records += [line_of("app_state", "new", None)]
    await import_from(database, source=file_of(tmp_path, {"app_name": "new"}, *records))
    found = await stored(database_url, ("sessions", "app_states", "user_states"))
    for rows in found.values():
        for row in rows:
            assert row["updated_at"] <= datetime.now(UTC)


async def test_the_reserved_user_is_nobody_to_import(database: Database, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is reserved"):
        await import_from(database, source=file_of(tmp_path, {}), user_id=APP_WIDE)


@pytest.mark.usefixtures("victim")
async def test_a_session_brings_no_key_that_others_share(
    database: Database, tmp_path: Path
) -> None:
    line = line_of("session", "app", "mallory") | {
        "session_id": "new",
        "state": {"app:rule": "evil", "user:rule": "evil", "own": 2},
        "initial_state": {"app:rule": "evil"},
    }
    report = await import_from(database, source=file_of(tmp_path, {"app_name": "app"}, line))
    session = await DatabaseSessionService(database).get_session(
        app_name="app", user_id="mallory", session_id="new"
    )
    assert session is not None
    assert session.state == {"app:rule": "fair", "user:rule": "fair", "own": 2}
    assert any("the prefix of an app's or a user's" in note for note in report.notes)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_field_that_a_kind_does_not_list_is_noted_and_left_out(
    database: Database, tmp_path: Path, kind: str
) -> None:
    line = line_of(kind, "app", "ana") | {"incarnation": str(uuid.UUID(int=1)), "model_id": 7}
    before = [line_of("session", "app", "ana")] if kind == "event" else []
    report = await import_from(database, source=file_of(tmp_path, {}, *before, line))
    assert any("incarnation, model_id" in note for note in report.notes)


@pytest.mark.parametrize(
    "model",
    [
        {"name": "m", "dimensions": 10**6},
        {"name": " ", "dimensions": 7},
        {"name": "m", "dimensions": "7"},
        {"name": "m", "dimensions": True},
    ],
)
async def test_a_model_that_cannot_be_is_unread(
    database: Database, database_url: str, tmp_path: Path, model: dict[str, Any]
) -> None:
    line = line_of("app_settings", "app", None) | {"model": model}
    report = await import_from(database, source=file_of(tmp_path, {}, line))
    assert "its model." in report.unread.first[0]
    assert (await stored(database_url, ("embedding_models",)))["embedding_models"] == []
