"""Other processes for the tests: clients of one server, and programs of an ordinary user."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from adkpg.embedded import EmbeddedServer
from adkpg.embedded.account import Account

FAST = {"fsync": "off", "shared_buffers": "16MB", "max_connections": "20"}

# One interpreter imports once and forks the clients: ["start", directory, count] makes them, each
# starts the server and reports; ["end", pids] lets them end as a program does that calls no
# stop(), and ["kill", pids] by kill -9.
_FORKER = """
import json, os, signal, sys
from pathlib import Path
from adkpg.embedded import EmbeddedServer

def report(*values):
    os.write(1, (json.dumps(values) + "\\n").encode())

def client(directory):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        server = EmbeddedServer(Path(directory), settings=json.loads(sys.argv[1])).start()
    except Exception as exc:
        report(os.getpid(), repr(exc))
        raise
    report(os.getpid(), server.url)
    while True:
        signal.pause()

for line in sys.stdin:
    command, what, *count = json.loads(line)
    if command == "start":
        for _ in range(*count):
            if os.fork() == 0:
                client(what)
    else:
        for pid in what:
            os.kill(pid, signal.SIGTERM if command == "end" else signal.SIGKILL)
        report([os.waitpid(pid, 0)[1] for pid in what])
"""

# Everything is imported, and private binaries are copied, before root's rights go.
_AS_USER = """
import asyncio, os, sys, asyncpg
from pathlib import Path
from adkpg.embedded import EmbeddedServer
from adkpg.embedded.account import Account
from adkpg.embedded.binaries import Binaries
from adkpg.embedded.directory import Directory
uid, gid, copies = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
if os.geteuid() == 0:
    user = Account(uid, gid, "user", switch=True)
    sys.path.insert(0, str(Binaries.find().for_account(user, copies).root.parent.parent))
    os.setgroups([]), os.setgid(gid), os.setuid(uid)
"""


class Forker:
    """An interpreter that forks clients of embedded servers, each a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _FORKER, json.dumps(FAST)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, directory: Path, count: int = 1) -> tuple[list[int], list[str]]:
        """Start clients at once; return their pids and the URLs they got, in one order."""
        self._tell("start", str(directory), count)
        answers = [self._answer() for _ in range(count)]
        return [pid for pid, _ in answers], [url for _, url in answers]

    def end(self, pids: list[int]) -> None:
        """Let clients end without stop(), at once, and wait until they have."""
        self._tell("end", pids)
        assert self._answer() == [[0] * len(pids)]

    def kill(self, pids: list[int]) -> None:
        """Kill clients with kill -9 and wait until they are gone."""
        self._tell("kill", pids)
        assert self._answer() == [[9] * len(pids)]

    def close(self) -> None:
        """End the interpreter; its clients must have ended."""
        self._process.communicate(timeout=30)

    def _tell(self, *command: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> list[Any]:
        assert self._process.stdout is not None
        answer: list[Any] = json.loads(self._process.stdout.readline())
        return answer


def ordinary_user() -> tuple[int, int]:
    """Return the ids of this user, or of nobody if we are root."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def run_as_user(
    code: str, place: Path, environment: dict[str, str], arguments: Sequence[str] = ()
) -> str:
    """Run Python code as an ordinary user and return what it prints, errors included."""
    uid, gid = ordinary_user()
    argv = [sys.executable, "-c", _AS_USER + code, str(uid), str(gid), str(place / "copies")]
    answer = subprocess.run(
        [*argv, *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=250,
        check=False,
    )
    return answer.stdout.strip()


def server_account(place: Path) -> Account:
    """Return the account that runs the server of a directory."""
    return Account.of_server(place, place / "pgdata")


Query = Callable[[str, str], Awaitable[Any]]


Serve = Callable[..., EmbeddedServer]
