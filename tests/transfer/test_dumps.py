"""Dumps of Postgres that real releases of ADK and of its npm package wrote, in Vienna."""

import asyncpg
import pytest

from adkpg import Database
from tests.fakes.moves import imported
from tests.fakes.story import FIXTURES, require_story

VIENNA = {"source_timezone": "Europe/Vienna"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("v0-adk-1.21.0-Europe-Vienna", VIENNA),
        ("v1-adk-2.6.0-Europe-Vienna", {}),
        ("adk-js-2.0.0-Europe-Vienna", {}),
    ],
)
async def test_the_story_is_read(
    target: Database, empty_database_url: str, name: str, options: dict[str, str]
) -> None:
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute((FIXTURES / f"postgres-{name}.sql").read_text())
    await connection.close()
    report = await imported(target, empty_database_url, **options)
    assert (report.sessions, report.events_written, report.verified) == (4, 8, 4)
    await require_story(target, milliseconds="js" in name)


async def test_a_zone_that_nobody_says_is_doubtful(
    target: Database, empty_database_url: str
) -> None:
    connection = await asyncpg.connect(empty_database_url)
    dump = FIXTURES / "postgres-v0-adk-1.21.0-Europe-Vienna.sql"
    await connection.execute(dump.read_text())
    await connection.close()
    report = await imported(target, empty_database_url)
    assert any("zone of the times of 8 events" in note for note in report.notes)
