"""Watcher: a small program that stops the server once the last of its clients has gone.

Clients hold a lock that the kernel drops with them, whatever ends them. The program knows the
standard library alone: it is run by its path, beside the server, and takes 8 MB.
"""

import fcntl
import os
import select
import signal
import sys
import time

_POLL_S = 1.0


def main(pid: int, folder: str) -> None:
    """Waits until a server has ended, or stops it when no client is left.

    Args:
      pid: The server's process.
      folder: Where the locks are: ``watcher.lock``, ``start.lock`` and ``clients.lock``.
    """
    watching, starting, clients = (
        os.open(os.path.join(folder, f"{name}.lock"), os.O_RDWR | os.O_NOFOLLOW)
        for name in ("watcher", "start", "clients")
    )
    if not _taken(watching):
        return  # another one watches
    server = _Server(pid)
    while server.runs_for(_POLL_S):
        # Clients come and go under the starters' lock.
        if _taken(starting):
            if _taken(clients):
                server.stop()
                return
            fcntl.flock(starting, fcntl.LOCK_UN)


class _Server:
    """A process that is still the same one when it is signalled."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._fd: int | None = None
        if hasattr(os, "pidfd_open"):
            try:
                self._fd = os.pidfd_open(pid)
            except OSError:
                self._pid = 0  # it has ended
        else:
            self._command = self._said()

    def runs_for(self, seconds: float) -> bool:
        """Whether it runs after some seconds; tells at once where the system can."""
        if self._fd is not None:
            return not select.select([self._fd], [], [], seconds)[0]
        time.sleep(seconds)
        return bool(self._pid and self._command and self._said() == self._command)

    def stop(self) -> None:
        """Has it end in order, and waits for that, so that no client meets it."""
        if self._fd is not None:
            signal.pidfd_send_signal(self._fd, signal.SIGINT)
        elif self.runs_for(0):
            os.kill(self._pid, signal.SIGINT)
        while self.runs_for(_POLL_S):
            pass

    def _said(self) -> str:
        """Returns when the process began, and as what, where it cannot be held."""
        import subprocess  # noqa: PLC0415 - a third of the program's memory

        answer = subprocess.run(
            ["/bin/ps", "-ww", "-o", "lstart=,command=", "-p", str(self._pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        return answer.stdout.strip()


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
