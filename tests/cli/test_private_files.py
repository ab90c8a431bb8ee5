"""What a command writes of people is its owner's alone, whatever stands in the folder already."""

import asyncio
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.tooling.testing import said
from tests.fakes.commands import Adkpg
from tests.fakes.conversation import USER

Write = Callable[[Path], None]


@pytest.fixture(autouse=True)
def _wide_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def filled(database_url: str) -> str:
    async def fill() -> None:
        async with Database(database_url) as database:
            sessions = DatabaseSessionService(database)
            await sessions.append_event(await sessions.create_session(**USER), said("Secret."))

    asyncio.run(fill())
    return database_url


COMMANDS = {
    "export": ("export", "--app", USER["app_name"], "--output", "{}"),
    "export of a user": (
        *("export", "--app", USER["app_name"], "--user", USER["user_id"], "--output", "{}"),
    ),
    "export into SQLite": ("export", "--app", USER["app_name"], "--to", "sqlite:///{}"),
    "backup": ("backup", "{}", "--yes"),
}
NAMES = [
    pytest.param(name, marks=pytest.mark.program) if name == "backup" else name for name in COMMANDS
]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_its_owners_alone(adkpg: Adkpg, filled: str, tmp_path: Path, name: str) -> None:
    file = tmp_path / "file"
    given = [part.format(file) for part in COMMANDS[name]]
    outcome = adkpg(*given, "--database-url", filled)
    assert outcome.code == 0, outcome.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("name", [each for each in NAMES if each != "export into SQLite"])
def test_what_stands_under_its_name_is_replaced_and_not_written_to(
    adkpg: Adkpg, filled: str, tmp_path: Path, name: str
) -> None:
    file, theirs = tmp_path / "file", tmp_path / "theirs"
    theirs.write_text("as it was")
    file.symlink_to(theirs)
    planted = tmp_path / f".file.{os.getpid()}.part"
    planted.symlink_to(theirs)
    given = [part.format(file) for part in COMMANDS[name]]
    outcome = adkpg(*given, "--database-url", filled)
    assert outcome.code == 0, outcome.err
    assert theirs.read_text() == "as it was"
    assert not file.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
