"""Files that real releases of ADK wrote, in a zone with summer time: instants, order, states."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from adkpg import Database
from adkpg.tooling.transfer import import_from
from tests.fakes.moves import imported, stored
from tests.fakes.story import FIXTURES, require_story

_TIMELESS = "v0-adk-1.4.2-Europe-Vienna.db"
FILES: dict[str, dict[str, Any]] = {
    "v0-adk-1.21.0-Europe-Vienna.db": {},
    "v1-adk-2.6.0-Europe-Vienna.db": {},
    "sqlite-service-adk-1.21.0-Europe-Vienna.db": {},
    # Releases before 1.19 stored no update at the event's instant; this one's events were made up.
    _TIMELESS: {"source_timezone": "Europe/Vienna"},
    "adk-js-2.0.0-Europe-Vienna.db": {},
}


@pytest.mark.parametrize("name", FILES)
async def test_the_story_is_read(target: Database, target_url: str, name: str) -> None:
    js = "js" in name
    report = await imported(target, FIXTURES / name, **FILES[name])
    assert (report.sessions, report.created, report.verified) == (4, 4, 4)
    assert (report.events, report.events_written) == (8, 8)
    await require_story(target, milliseconds=js)
    before = await stored(target_url)
    again = await imported(target, f"sqlite:///{FIXTURES / name}", **FILES[name])
    assert (again.unchanged, again.events_written) == (4, 0)
    assert await stored(target_url) == before


@pytest.mark.parametrize("name", FILES)
async def test_a_source_is_never_written(target: Database, tmp_path: Path, name: str) -> None:
    copy = tmp_path / name
    shutil.copy(FIXTURES / name, copy)
    copy.chmod(0o400)
    await imported(target, copy, **FILES[name])
    assert copy.read_bytes() == (FIXTURES / name).read_bytes()
    assert os.listdir(tmp_path) == [name]


async def test_times_that_nothing_tells_are_said_to_be_doubtful(target: Database) -> None:
    report = await imported(target, FIXTURES / _TIMELESS)
    assert any("zone of the times of 8 events" in note for note in report.notes)


async def test_what_a_schema_never_held_is_said(target: Database) -> None:
    report = await imported(target, FIXTURES / _TIMELESS, source_timezone="Europe/Vienna")
    assert any("schema v0 never held" in note for note in report.notes)
    assert any("before 1.19" in note for note in report.notes)


async def test_a_part_of_a_source(target: Database, target_url: str) -> None:
    name = FIXTURES / "v1-adk-2.6.0-Europe-Vienna.db"
    report = await imported(target, name, app_name="travel", user_id="ben")
    assert (report.sessions, report.events) == (1, 0)
    report = await imported(target, name, since="2025-06-01T00:00:00+00:00", dry_run=True)
    assert (report.sessions, report.created, report.unchanged) == (3, 2, 1)
    assert [row["session_id"] for row in (await stored(target_url))["sessions"]] == ["empty"]


async def test_remembering(target: Database, target_url: str) -> None:
    report = await import_from(
        target, source=FIXTURES / "v1-adk-2.6.0-Europe-Vienna.db", remember=True
    )
    rows = (await stored(target_url))["memories"]
    assert {row["event_id"] for row in rows} >= {"w1", "s1", "o1"}
    assert report.memories_written == len(rows)
    again = await import_from(
        target, source=FIXTURES / "v1-adk-2.6.0-Europe-Vienna.db", remember=True
    )
    assert again.complete
    assert (await stored(target_url))["memories"] == rows
