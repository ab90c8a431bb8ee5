"""A lock between processes that the kernel drops when its holder dies, kill -9 included."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adkpg.embedded.account import Account
from adkpg.errors import EmbeddedServerError

if sys.platform != "win32":
    import fcntl

_POLL_S = 0.02


class FileLock:
    """An advisory lock (flock) on one file, held through this object.

    Two objects exclude each other even within a process. A forked child shares its parent's
    hold: it may ``close`` its copy, and must not ``release`` it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def open(self, account: Account) -> None:
        """Opens the file, made for the account if new; idempotent."""
        if self._fd is not None:
            return
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            try:
                fd = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, 0o600)
                account.give(fd)
            except FileExistsError:
                fd = os.open(self._path, flags)
        except OSError as exc:
            raise EmbeddedServerError(
                f"The lock {self._path} of the embedded server cannot be opened "
                f"({exc.strerror}); run as the owner of its directory, or set "
                "ADKPG_EMBEDDED_DIR to a directory of your own."
            ) from exc
        self._fd = fd

    @contextmanager
    def exclusive(self, deadline: float) -> Iterator[None]:
        """Holds the lock alone; waits for it until ``deadline`` (``time.monotonic`` seconds).

        Raises:
          EmbeddedServerError: Another process kept it for too long.
        """
        while not self.try_exclusive():
            if time.monotonic() >= deadline:
                raise EmbeddedServerError(
                    f"Another process is still starting or stopping the embedded server "
                    f"({self._path} is locked); try again, or pass a larger timeout_s."
                )
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            self.release()

    def try_exclusive(self) -> bool:
        """Takes the lock alone if no other process has it; returns whether it did.

        A shared hold of this object is given up for it, and lost if the answer is no.
        """
        return self._flock(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def try_shared(self) -> bool:
        """Takes the lock together with others; returns whether no other process has it alone."""
        return self._flock(fcntl.LOCK_SH | fcntl.LOCK_NB)

    def release(self) -> None:
        """Gives up whatever hold this object has; the file stays open."""
        self._flock(fcntl.LOCK_UN)

    def close(self) -> None:
        """Closes the file; the hold ends with its last open copy. Idempotent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _flock(self, operation: int) -> bool:
        if self._fd is None:
            raise EmbeddedServerError(f"The lock {self._path} is not open; call open() first.")
        try:
            fcntl.flock(self._fd, operation)
        except BlockingIOError:
            return False
        return True
