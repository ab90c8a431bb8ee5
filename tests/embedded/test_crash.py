"""Servers that died, and what they leave behind."""

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import asyncpg
import pytest

from adkpg.embedded.account import Account
from adkpg.embedded.postmaster import Postmaster, command_by_ps
from adkpg.errors import EmbeddedServerError
from tests.fakes.processes import Query, Serve, ordinary_user, server_account

pytestmark = pytest.mark.fault


@pytest.fixture
def place(used: Path) -> Path:
    return used


def _log(place: Path, start: int = 0) -> str:
    return (place / "server.log").read_text()[start:]


def _postmaster(place: Path) -> Postmaster:
    running = Postmaster.of(place / "pgdata")
    assert running is not None
    return running


async def test_data_survive_a_killed_server(place: Path, serve: Serve, query: Query) -> None:
    server = serve(settings=None).start()
    await query(server.url, "CREATE TABLE counted (n int)")
    for n in range(20):
        await query(server.url, f"INSERT INTO counted VALUES ({n})")
    killed, before = _postmaster(place).pid, len(_log(place))
    os.kill(killed, signal.SIGKILL)
    server.start()
    assert _postmaster(place).pid != killed
    assert await query(server.url, "SELECT count(*) FROM counted") == 20
    assert "automatic recovery in progress" in _log(place, before)


async def test_backends_of_a_killed_server_are_waited_for(
    place: Path, serve: Serve, query: Query
) -> None:
    before = len(_log(place))
    server = serve().start()
    busy = await asyncpg.connect(server.url)
    # A loop in the server does not notice the death of its postmaster until it ends.
    loop = "DO $$ BEGIN WHILE (pg_stat_file('go', true)).size IS NULL LOOP END LOOP; END $$"
    work = asyncio.create_task(busy.execute(loop))
    running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'DO%'"
    while await query(server.url, running) == 0:
        pass
    os.kill(_postmaster(place).pid, signal.SIGKILL)
    start = asyncio.create_task(asyncio.to_thread(server.start))
    while "pre-existing shared memory block" not in _log(place, before) and not start.done():
        await asyncio.sleep(0)
    (place / "pgdata" / "go").touch()
    await start
    await asyncio.gather(work, return_exceptions=True)
    busy.terminate()
    assert await query(server.url, "SELECT 1") == 1
    assert "pre-existing shared memory block" in _log(place, before)


@contextmanager
def _recycled(account: Account, pgdata: Path) -> Iterator[int]:
    """A living process of the server's account that names the data directory."""
    user = account.uid if account.switch else None
    argv = ["/bin/sh", "-c", "read line", "-D", str(pgdata)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, user=user) as process:
        yield process.pid


@contextmanager
def _zombie(account: Account, pgdata: Path) -> Iterator[int]:
    """A dead process of the server's account that nobody has waited for."""
    user = account.uid if account.switch else None
    with subprocess.Popen(["true", "-D", str(pgdata)], user=user) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield process.pid


@pytest.mark.parametrize("impostor", [_recycled, _zombie])
async def test_a_stale_pid_is_not_taken_for_the_server(
    impostor: Callable[[Account, Path], AbstractContextManager[int]],
    place: Path,
    serve: Serve,
    query: Query,
) -> None:
    server = serve().start()
    files = [place / "pgdata" / "postmaster.pid", place / "run" / ".s.PGSQL.5432.lock"]
    left = [file.read_text() for file in files]
    server.stop()
    with impostor(server_account(place), place / "pgdata") as pid:
        for file, text in zip(files, left, strict=True):
            file.write_text(f"{pid}\n" + text.partition("\n")[2])
            os.chown(file, (place / "pgdata").stat().st_uid, -1)
        assert Postmaster.of(place / "pgdata") is None
        server.start()
        assert _postmaster(place).pid != pid
        assert await query(server.url, "SELECT 1") == 1
        server.stop()


@pytest.mark.parametrize("text", ["", "\n", "not a pid\n"])
def test_a_damaged_pid_file_does_not_stop_a_start(text: str, place: Path, serve: Serve) -> None:
    with serve():
        pass
    file = place / "pgdata" / "postmaster.pid"
    file.write_text(text)
    os.chown(file, (place / "pgdata").stat().st_uid, -1)
    serve().start()
    assert _postmaster(place).status == "ready"


def test_an_interrupted_initdb_is_begun_again(fresh: Path, serve: Serve) -> None:
    (fresh / "pgdata.new" / "base").mkdir(parents=True)
    (fresh / "pgdata.new" / "PG_VERSION").write_text("18\n")
    os.chown(fresh, *ordinary_user())
    serve(fresh).start()
    assert not (fresh / "pgdata.new").exists()


def test_a_server_outside_this_container_is_not_joined(place: Path, serve: Serve) -> None:
    with serve():
        pass
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "run" / ".s.PGSQL.5432"))
        listener.listen()
        with pytest.raises(EmbeddedServerError, match="outside this container"):
            serve().start()
    serve().start()


@pytest.mark.program
def test_the_processes_are_read_from_ps_where_there_is_no_proc(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ps = fresh / "ps"
    monkeypatch.setenv("PATH", str(fresh), prepend=os.pathsep)
    for printed, command in {
        "Ss   /opt/pg/bin/postgres -D /d -k /d/run": "/opt/pg/bin/postgres -D /d -k /d/run",
        "Z    (postgres)": None,
        "": None,
    }.items():
        ps.write_text(f"#!/bin/sh\necho '{printed}'\n")
        ps.chmod(0o755)
        assert command_by_ps(1) == command
