"""Dumps of MariaDB that releases of ADK wrote, read from a real MariaDB; `make test-mysql`."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adkpg import Database
from adkpg.errors import DatabaseError
from adkpg.tooling.transfer import export_to_adk, import_from
from tests.fakes.moves import imported
from tests.fakes.story import FIXTURES, require_story

pytestmark = pytest.mark.mysql

DUMPS: dict[str, dict[str, str]] = {
    "v0-adk-1.4.2-Europe-Vienna": {"source_timezone": "Europe/Vienna"},
    "v1-adk-2.6.0-Europe-Vienna": {},
    "adk-js-2.0.0-Europe-Vienna": {},
}
# Asked for where the server is; kept, since each test sees an environment without it.
_MARIADBD = os.environ.get("ADKPG_TEST_MARIADB", "")


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A MariaDB of these tests' own: the path of its socket."""
    folder = tmp_path_factory.mktemp("mariadb")
    data, socket = folder / "data", folder / "s"
    user = ["--user=mysql"] if os.getuid() == 0 else []
    if user:
        for each in (folder, *folder.parents):
            if each.owner() == "root" and "pytest" in str(each):
                each.chmod(0o755)
        shutil.chown(folder, "mysql")
    make = [
        "mariadb-install-db",
        f"--datadir={data}",
        *user,
        "--auth-root-authentication-method=normal",
    ]
    subprocess.run(make, check=True, capture_output=True)
    options = [f"--datadir={data}", f"--socket={socket}", "--skip-networking", *user]
    server = subprocess.Popen([_MARIADBD, "--no-defaults", *options], stderr=subprocess.DEVNULL)
    try:
        while _run(socket, "SELECT 1") is None:
            assert server.poll() is None
            time.sleep(0.1)
        assert _run(socket, "CREATE USER adk@localhost IDENTIFIED BY 's3cret'") is not None
        assert _run(socket, "GRANT ALL ON *.* TO adk@localhost") is not None
        yield socket
    finally:
        server.terminate()
        server.wait()


def _run(socket: Path, sql: str, database: str = "") -> str | None:
    options = ["--no-defaults", f"--socket={socket}", "--user=root"]
    program = ["mariadb", *options, "--default-character-set=utf8mb4", *database.split()]
    ran = subprocess.run(program, input=sql, capture_output=True, text=True, check=False)
    return ran.stdout if ran.returncode == 0 else None


def _url(socket: Path, database: str, password: str = "s3cret") -> str:
    return f"mysql://adk:{password}@localhost/{database}?unix_socket={socket}"


@pytest.mark.parametrize("name", DUMPS)
async def test_the_story_is_read(target: Database, mariadb: Path, name: str) -> None:
    database = name.partition("-Europe")[0].replace("-", "_").replace(".", "_")
    made = f"CREATE OR REPLACE DATABASE {database} CHARACTER SET utf8mb4"
    assert _run(mariadb, made) is not None
    dump = (FIXTURES / f"mariadb-{name}.sql").read_text()
    assert _run(mariadb, f"SET FOREIGN_KEY_CHECKS = 0;{dump}", database) is not None
    report = await imported(target, _url(mariadb, database), **DUMPS[name])
    assert (report.sessions, report.events_written, report.verified) == (4, 8, 4)
    await require_story(target, milliseconds="js" in name)


async def test_leaving_and_coming_back(database: Database, target: Database, mariadb: Path) -> None:
    await imported(database, FIXTURES / "v1-adk-2.6.0-Europe-Vienna.db")
    assert _run(mariadb, "CREATE OR REPLACE DATABASE back CHARACTER SET utf8mb4") is not None
    for app_name in ("travel", "other"):
        report = await export_to_adk(database, url=_url(mariadb, "back"), app_name=app_name)
        assert report.unwritten.first == []
    await imported(target, _url(mariadb, "back"))
    await require_story(target)


async def test_a_wrong_password_is_one_sentence_without_it(target: Database, mariadb: Path) -> None:
    with pytest.raises(DatabaseError) as refused:
        await import_from(target, source=_url(mariadb, "back", password="hunter2"))
    assert "Access denied" in str(refused.value)
    assert "hunter2" not in str(refused.value)
