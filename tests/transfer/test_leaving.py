"""What is exported to a database of ADK's is read by ADK's own service, and goes on there."""

from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions.database_session_service import DatabaseSessionService as AdkService

from adkpg import Database, DatabaseSessionService
from adkpg.errors import ConfigurationError
from adkpg.tooling.testing import said
from adkpg.tooling.transfer import export_to_adk
from tests.fakes.moves import imported
from tests.fakes.story import FIXTURES, STATES


async def _theirs(url: str) -> AdkService:
    return AdkService(url.replace("postgresql://", "postgresql+asyncpg://", 1))


async def _require_story(url: str, database: Database) -> None:
    ours = DatabaseSessionService(database)
    async with await _theirs(url) as service:
        for app_name, user_id, session_id in STATES:
            place: dict[str, Any] = {
                "app_name": app_name,
                "user_id": user_id,
                "session_id": session_id,
            }
            there = await service.get_session(**place)
            here = await ours.get_session(**place)
            assert there is not None
            assert here is not None
            assert there.model_dump() == here.model_dump()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_adk_reads_what_was_written_and_goes_on(
    database: Database, empty_database_url: str, tmp_path: Path, kind: str
) -> None:
    await imported(database, source=FIXTURES / "v1-adk-2.6.0-Europe-Vienna.db")
    url = f"sqlite+aiosqlite:///{tmp_path}/left.db" if kind == "sqlite" else empty_database_url
    for new, known in ((7, 0), (0, 7)):
        report = await export_to_adk(database, url=url, app_name="travel")
        assert (report.events, report.known, report.unwritten.first) == (new, known, [])
    await export_to_adk(database, url=url, app_name="other", user_id="ana", session_id="winter")
    await _require_story(url, database)
    async with await _theirs(url) as service:
        for session_id, user_id in (("empty", "ben"), ("winter", "ana")):
            session = await service.get_session(
                app_name="travel", user_id=user_id, session_id=session_id
            )
            assert session is not None
            await service.append_event(session, said("Going on.", state={"user:k": 1, "app:k": 1}))
    # And back: what ADK added is what is missing here.
    back = await imported(database, source=url)
    assert (back.extended, back.events_written) == (2, 2)


async def test_the_order_of_appending_is_kept(database: Database, tmp_path: Path) -> None:
    sessions = DatabaseSessionService(database)
    session = await sessions.create_session(app_name="a", user_id="u", session_id="s")
    for number, time in enumerate((30.0, 10.0, 10.0, 20.0)):
        await sessions.append_event(session, said(str(number), id=f"e{9 - number}", timestamp=time))
    url = f"sqlite+aiosqlite:///{tmp_path}/left.db"
    await export_to_adk(database, url=url, app_name="a")
    async with await _theirs(url) as service:
        there = await service.get_session(app_name="a", user_id="u", session_id="s")
    assert there is not None
    assert [event.id for event in there.events] == ["e9", "e8", "e7", "e6"]
    assert [event.timestamp for event in there.events] == [30.0, 10.0, 10.0, 20.0]


async def test_what_does_not_fit_is_said_and_costs_nothing_else(
    database: Database, empty_database_url: str
) -> None:
    sessions = DatabaseSessionService(database)
    session = await sessions.create_session(app_name="a", user_id="u", session_id="s")
    await sessions.append_event(session, said("nul \x00", id="nul"))
    await sessions.append_event(session, said("fits", id="fits"))
    await sessions.create_session(app_name="a", user_id="u", session_id="long" * 40)
    report = await export_to_adk(database, url=empty_database_url, app_name="a")
    assert (report.sessions, report.events, report.unwritten.count) == (1, 1, 2)
    async with await _theirs(empty_database_url) as service:
        there = await service.get_session(app_name="a", user_id="u", session_id="s")
    assert there is not None
    assert [event.id for event in there.events] == ["fits"]


async def test_the_old_schema_is_refused(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    path.write_bytes((FIXTURES / "v0-adk-1.21.0-Europe-Vienna.db").read_bytes())
    with pytest.raises(ConfigurationError, match="old schema"):
        await export_to_adk(database, url=f"sqlite:///{path}", app_name="a")
