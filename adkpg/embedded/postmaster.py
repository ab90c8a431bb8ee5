"""The server process of a data directory: found, told from impostors, stopped, disowned.

A pid in ``postmaster.pid`` proves nothing: after kill -9 it may be a zombie (in a container whose
PID 1 does not reap it), or by now another program (a container restarted on the same volume).
Postgres itself is deceived by both and refuses to start.
"""

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from adkpg.embedded.directory import SOCKET_NAME
from adkpg.errors import EmbeddedServerError

# Above every pid_max, so no process ever has it.
_IMPOSSIBLE_PID = "2147483647"
_POLL_S = 0.02


@dataclass(frozen=True)
class Postmaster:
    """A live server, as its ``postmaster.pid`` describes it.

    Attributes:
      pid: The server's process.
      socket_dir: Where it listens.
      status: ``starting``, ``ready``, ``stopping``, ``standby``, or empty for "not yet known".
    """

    pid: int
    socket_dir: Path
    status: str

    @classmethod
    def of(cls, pgdata: Path) -> "Postmaster | None":
        """Returns the server that runs on this data directory, or None."""
        try:
            lines = (pgdata / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None
        lines += [""] * (8 - len(lines))
        if not lines[0].strip().isdigit() or not _serves(int(lines[0]), pgdata):
            return None
        return cls(int(lines[0]), Path(lines[4]), lines[7].strip())

    @property
    def accepts(self) -> bool:
        """Whether it takes connections, and its socket is where clients look for it."""
        return self.status == "ready" and (self.socket_dir / SOCKET_NAME).exists()

    def stop(self, deadline: float) -> None:
        """Stops the server (fast mode: clients are cut, all that was committed is on disk).

        Args:
          deadline: Until when to wait, in seconds of ``time.monotonic``.

        Raises:
          EmbeddedServerError: It still runs then; it goes on stopping.
        """
        with suppress(ProcessLookupError):  # it may just have ended by itself
            os.kill(self.pid, signal.SIGINT)
        while process_runs(self.pid):
            if time.monotonic() >= deadline:
                raise EmbeddedServerError(
                    f"The embedded server (process {self.pid}) is still writing its last "
                    "checkpoint; it stops by itself, or pass a larger timeout_s."
                )
            time.sleep(_POLL_S)
        with suppress(ChildProcessError):
            # As PID 1 of a container we inherit the server, and no other process reaps it.
            os.waitpid(self.pid, os.WNOHANG)


def disown(pgdata: Path, socket_dir: Path) -> None:
    """Marks the lock files of a dead server so that Postgres sees that it is dead.

    Only their first line, the pid, changes: the rest names the shared memory by which Postgres
    notices that children of the dead server still work on the data. Call it only under the lock
    that starters share, with no server running.

    Raises:
      EmbeddedServerError: A server answers at the socket though no process of ours is it.
    """
    if _answers(socket_dir / SOCKET_NAME):
        raise EmbeddedServerError(
            f"The data in {pgdata} is in use by a server outside this container; stop that one, "
            "or set ADKPG_EMBEDDED_DIR to a directory of your own."
        )
    for path in (pgdata / "postmaster.pid", socket_dir / f"{SOCKET_NAME}.lock"):
        try:
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        with os.fdopen(fd, "r+b") as file:
            rest = file.read().partition(b"\n")[2]
            file.seek(0)
            file.write(_IMPOSSIBLE_PID.encode() + b"\n" + rest)
            file.truncate()


def process_runs(pid: int) -> bool:
    """Returns whether a process exists and is not a zombie."""
    return _command(pid) is not None


def _serves(pid: int, pgdata: Path) -> bool:
    command = _command(pid)
    if command is None:
        return False
    program, found, _ = f"{command} ".partition(f" -D {pgdata} ")
    if found:
        return program.endswith("postgres")
    if not command.split(" ")[0].endswith("postgres"):
        return False
    try:  # one started by hand, through another spelling of the path: a postmaster lives there
        return Path(f"/proc/{pid}/cwd").samefile(pgdata)
    except OSError:
        return False


def _command(pid: int) -> str | None:
    """Returns a live process's program and arguments; None if there is none or a zombie."""
    if not Path("/proc/self/stat").exists():
        return command_by_ps(pid)
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        words = Path(f"/proc/{pid}/cmdline").read_bytes().strip(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in (b"Z", b"X") else os.fsdecode(words.replace(b"\0", b" "))


def command_by_ps(pid: int) -> str | None:
    """Returns a live process's program and arguments where there is no /proc (macOS)."""
    answer = subprocess.run(
        ["ps", "-ww", "-o", "stat=", "-o", "command=", "-p", str(pid)],
        capture_output=True,
        check=False,
    )
    state, _, command = os.fsdecode(answer.stdout).strip().partition(" ")
    return None if not state or state.startswith("Z") else command.strip()


def _answers(path: Path) -> bool:
    if not path.exists():
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True
