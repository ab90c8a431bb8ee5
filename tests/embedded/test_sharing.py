"""Several clients of one server: who starts it, and who stops it."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from adkpg.embedded.lock import FileLock
from adkpg.embedded.postmaster import Postmaster
from adkpg.errors import EmbeddedServerError
from tests.fakes.processes import Forker, Query, Serve, server_account

pytestmark = pytest.mark.race


@pytest.fixture
def place(used: Path) -> Path:
    return used


async def test_the_last_of_two_processes_stops_it(
    place: Path, serve: Serve, query: Query, forker: Forker
) -> None:
    server = serve().start()
    pids, urls = forker.start(place)
    assert urls == [server.url]
    server.stop()
    assert await query(urls[0], "SELECT 1") == 1
    forker.end(pids)
    assert Postmaster.of(place / "pgdata") is None


async def test_the_one_that_started_it_may_leave_first(
    place: Path, serve: Serve, query: Query, forker: Forker
) -> None:
    pids, _ = forker.start(place)
    server = serve().start()
    forker.end(pids)
    assert await query(server.url, "SELECT 1") == 1
    server.stop()
    assert Postmaster.of(place / "pgdata") is None


def until_stopped(place: Path) -> None:
    deadline = time.monotonic() + 30
    while Postmaster.of(place / "pgdata") is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_client_takes_its_server_along(place: Path, serve: Serve, forker: Forker) -> None:
    pids, _ = forker.start(place, count=2)
    forker.kill(pids)
    until_stopped(place)
    with serve():
        assert Postmaster.of(place / "pgdata") is not None
    assert Postmaster.of(place / "pgdata") is None


@pytest.mark.parametrize(
    "end", ["os._exit(0)", "os.kill(os.getpid(), 15)", "os.kill(os.getpid(), 9)"]
)
def test_a_process_that_ends_without_a_word_takes_its_server_along(place: Path, end: str) -> None:
    script = (
        "import os, sys, pathlib; from adkpg.embedded import EmbeddedServer\n"
        "EmbeddedServer(pathlib.Path(sys.argv[1]), settings={'fsync': 'off'}).start()\n" + end
    )
    subprocess.run([sys.executable, "-c", script, str(place)], check=False)
    until_stopped(place)


async def test_a_server_without_a_watcher_gets_one_from_the_next_client(
    place: Path, serve: Serve, forker: Forker
) -> None:
    server = serve().start()
    os.kill(watcher_of(place), signal.SIGKILL)
    pids, _ = forker.start(place)
    server.stop()
    assert Postmaster.of(place / "pgdata") is not None
    forker.kill(pids)
    until_stopped(place)


def watcher_of(place: Path) -> int:
    """The pid of the only watcher of a directory's server."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = command.read_bytes().split(b"\0")
            if str(place).encode() in words and any(word.endswith(b"watcher.py") for word in words):
                found.append(int(command.parent.name))
    (pid,) = found
    return pid


def test_a_client_killed_beside_another_does_not_count(
    place: Path, serve: Serve, forker: Forker
) -> None:
    server = serve().start()
    pids, _ = forker.start(place)
    forker.kill(pids)
    assert Postmaster.of(place / "pgdata") is not None
    server.stop()
    assert Postmaster.of(place / "pgdata") is None


async def test_eight_processes_start_it_for_the_first_time_at_once(
    fresh: Path, query: Query, forker: Forker
) -> None:
    pids, urls = forker.start(fresh, count=8)
    assert len(set(pids)) == 8
    assert len(set(urls)) == 1
    assert await query(urls[0], "SELECT 1") == 1
    assert (fresh / "server.log").read_text().count("starting PostgreSQL") == 1
    forker.end(pids)
    assert Postmaster.of(fresh / "pgdata") is None


def test_two_objects_of_a_process_are_two_clients(place: Path, serve: Serve) -> None:
    first, second = serve().start(), serve().start()
    first.stop()
    assert Postmaster.of(place / "pgdata") is not None
    second.stop()
    assert Postmaster.of(place / "pgdata") is None


def test_a_process_that_ends_stops_it_and_its_forked_children_do_not(place: Path) -> None:
    script = (
        "import os, sys, pathlib; from adkpg.embedded import EmbeddedServer\n"
        "from adkpg.embedded.postmaster import Postmaster\n"
        "place = pathlib.Path(sys.argv[1])\n"
        "server = EmbeddedServer(place, settings={'fsync': 'off'}).start()\n"
        "if os.fork() == 0:\n"
        "    server.stop()\n"
        "    sys.exit()\n"
        "os.wait()\n"
        "kept = Postmaster.of(place / 'pgdata')\n"
        "if os.fork() == 0:\n"
        "    server.start()\n"
        "    sys.exit()\n"
        "os.wait()\n"
        "print(kept is not None and Postmaster.of(place / 'pgdata') == kept)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script, str(place)], capture_output=True, text=True, check=False
    )
    assert (answer.stdout.strip(), answer.stderr) == ("True", "")
    assert Postmaster.of(place / "pgdata") is None


def test_a_starter_that_takes_too_long_is_named(place: Path, serve: Serve) -> None:
    with serve():
        pass
    lock = FileLock(place / "start.lock")
    lock.open(server_account(place))
    with (
        lock.exclusive(time.monotonic()),
        pytest.raises(EmbeddedServerError, match=r"start\.lock is locked.*timeout_s"),
    ):
        serve(timeout_s=0.1).start()
    lock.close()
    serve().start()
