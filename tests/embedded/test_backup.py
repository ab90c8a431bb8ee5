"""A backup of one embedded server, restored into another."""

from pathlib import Path
from typing import Any

import pytest

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.embedded import EmbeddedServer
from adkpg.tooling.backup.archive import back_up, counted, read, restore
from tests.fakes.processes import FAST

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}


def nothing(done: int, total: int) -> None:
    assert 0 <= done <= total


@pytest.fixture
def open_to_all(fresh: Path) -> Path:
    """A folder that the account of the servers below it may enter."""
    fresh.chmod(0o755)
    return fresh


@pytest.mark.program
async def test_from_one_embedded_server_into_another(open_to_all: Path, tmp_path: Path) -> None:
    file = tmp_path / "adkpg.dump"
    for name in ("old", "new"):
        place = open_to_all / name
        place.mkdir()
        with EmbeddedServer(place, settings=FAST):
            async with Database("embedded", settings=Settings(embedded_dir=place)) as own:
                if name == "old":
                    await DatabaseSessionService(own).create_session(**ANA, session_id="s")
                    written = await back_up(own, file, progress=nothing)
                    assert written.rows["sessions"] == 1
                    continue
                assert await counted(own) == {}
                rows = await restore(own, await read(own, file), progress=nothing)
                assert rows == written.rows
                found = await DatabaseSessionService(own).get_session(**ANA, session_id="s")
                assert found is not None
