"""Where a server's files go, and whose permissions stay as they are."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from adkpg.embedded.directory import Directory
from adkpg.embedded.postmaster import Postmaster
from adkpg.errors import EmbeddedServerError
from tests.fakes.processes import Query, Serve, ordinary_user, run_as_user, server_account


@pytest.fixture
def open_place(place: Path) -> Path:
    place.chmod(0o755)
    return place


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_variable_names_the_directory(place: Path) -> None:
    environment = {"ADKPG_EMBEDDED_DIR": str(place / "chosen"), "HOME": "/nonexistent"}
    assert Directory.at(None, environment).path == place / "chosen"
    assert Directory.at(place / "argument", environment).path == place / "argument"
    assert not (place / "chosen").exists()


@pytest.mark.program
def test_the_default_of_an_ordinary_user(open_place: Path) -> None:
    code = (
        "print(Directory.at(None, {'HOME': '/h'}).path)\n"
        "print(Directory.at(None, {'HOME': '/h', 'XDG_DATA_HOME': '/x'}).path)\n"
        "print(Directory.at(None, {'HOME': '/h', 'XDG_DATA_HOME': 'relative'}).path)\n"
        "import pwd; home = os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir)\n"
        "rest = '/.local/share/adkpg/server'\n"
        "print(str(Directory.at(None, {'HOME': ''}).path) == home + rest)\n"
        "print(str(Directory.at(None, {}).path) == home + rest)\n"
    )
    assert run_as_user(code, open_place, {}).splitlines() == [
        "/h/.local/share/adkpg/server",
        "/x/adkpg/server",
        "/h/.local/share/adkpg/server",
        "True",
        "True",
    ]


@pytest.mark.program
def test_a_home_that_cannot_be_written_is_named(open_place: Path) -> None:
    code = "EmbeddedServer().start()"
    said = run_as_user(code, open_place, {"HOME": "/proc/nonexistent"}).splitlines()[-1]
    assert said.startswith("adkpg.errors.EmbeddedServerError: The embedded server's directory")
    assert "/proc/nonexistent" in said
    assert "set ADKPG_EMBEDDED_DIR" in said


@pytest.mark.program
def test_an_ordinary_user_has_a_server_in_a_private_home(place: Path) -> None:
    home = place / "home"
    home.mkdir(mode=0o700)
    place.chmod(0o755)
    os.chown(home, *ordinary_user())
    code = (
        "async def names(url):\n"
        "    connection = await asyncpg.connect(url)\n"
        "    await connection.execute('CREATE EXTENSION vector')\n"
        "    print(await connection.fetchval('SELECT current_database()'))\n"
        "    await connection.close()\n"
        "with EmbeddedServer(settings={'fsync': 'off'}) as server:\n"
        "    asyncio.run(names(server.url))\n"
    )
    assert run_as_user(code, place, {"HOME": str(home)}) == "adkpg"
    path = home / ".local" / "share" / "adkpg" / "server"
    assert _mode(home) == 0o700
    assert (path / "pgdata").stat().st_uid == ordinary_user()[0]
    assert Postmaster.of(path / "pgdata") is None


def test_the_owner_of_a_private_directory_runs_its_server(place: Path, serve: Serve) -> None:
    os.chown(place, *ordinary_user())
    server = serve(place / "new" / "deep").start()
    running = Postmaster.of(place / "new" / "deep" / "pgdata")
    assert running is not None
    assert Path(f"/proc/{running.pid}").stat().st_uid == ordinary_user()[0]
    assert _mode(place) == 0o700
    assert place.stat().st_uid == ordinary_user()[0]
    server.stop()


def test_neither_umask_nor_setgid_shuts_the_server_out(open_place: Path, serve: Serve) -> None:
    open_place.chmod(0o2755)
    before = os.umask(0o077)
    try:
        for _ in range(2):
            serve(open_place / "new" / "deep").start()
    finally:
        os.umask(before)
    assert _mode(open_place / "new" / "deep") & 0o777 == 0o700


def test_a_parent_that_is_closed_stays_closed(place: Path, serve: Serve) -> None:
    # To root's own private directories the server's account has no way in; to a user's it has.
    (place / "other").mkdir()
    server = serve(place / "server")
    if os.geteuid() == 0:
        with pytest.raises(EmbeddedServerError, match=f"may not enter {place};.*ADKPG_EMBEDDED"):
            server.start()
    else:
        server.start()
    assert _mode(place) == 0o700
    assert place.stat().st_uid == os.geteuid()


async def test_a_path_too_long_for_a_socket(open_place: Path, serve: Serve, query: Query) -> None:
    path = open_place / ("a" * 90) / ("b" * 90)
    server = serve(path).start()
    socket_dir = Directory(path).socket_dir
    assert socket_dir.parent == Path("/tmp")
    assert str(socket_dir) in server.url
    assert _mode(socket_dir) == 0o700
    assert await query(server.url, "SELECT 1") == 1
    server.stop()
    assert not socket_dir.exists()


def test_a_socket_directory_of_someone_else_is_refused(place: Path) -> None:
    directory = Directory(place / ("a" * 90) / ("b" * 90))
    socket_dir = directory.socket_dir
    socket_dir.symlink_to(place)
    try:
        with pytest.raises(EmbeddedServerError, match=f"{socket_dir} is not a private directory"):
            directory.prepare_socket_dir(server_account(place))
        assert place.stat().st_uid == os.geteuid()
    finally:
        socket_dir.unlink()


async def test_any_character_of_a_path_is_just_a_character(
    open_place: Path, serve: Serve, query: Query
) -> None:
    server = serve(open_place / "a b\"c'd$HOME`e?f&g%20é").start()
    assert await query(server.url, "SELECT 1") == 1


def test_a_comma_in_a_path_is_kept_out_of_the_sockets() -> None:
    # Clients split the host at commas.
    assert Directory(Path("/data/a,b")).socket_dir.parent == Path("/tmp")
    assert Directory(Path("/data/ab")).socket_dir == Path("/data/ab/run")


def test_a_symbolic_link_and_its_target_are_one_directory(
    open_place: Path, used: Path, serve: Serve
) -> None:
    (open_place / "link").symlink_to(used)
    direct = serve(used).start()
    linked = serve(open_place / "link").start()
    assert linked.url == direct.url


def test_data_of_another_owner_are_refused(place: Path, serve: Serve) -> None:
    with serve():
        pass
    if os.geteuid() == 0:
        shutil.chown(place, 0)
        shutil.chown(place / "pgdata", 0)
        place.chmod(0o755)
        with pytest.raises(EmbeddedServerError, match=r"does not belong to .*chown -R"):
            serve().start()
    else:
        place.chmod(0o500)
        (place / "start.lock").chmod(0)
        with pytest.raises(EmbeddedServerError, match=r"start\.lock .*cannot be opened"):
            serve().start()
        place.chmod(0o700)
