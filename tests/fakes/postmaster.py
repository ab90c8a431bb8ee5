"""Processes of a server on this machine: listed, and made to stand still."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """Returns the processes that a process has started, and that live."""
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(each) for each in listed.split()]


@contextmanager
def standing_still(postmaster: int) -> Iterator[None]:
    """All processes of a server stand still inside: it takes connections, and answers nothing."""
    stopped = [postmaster]
    try:
        os.kill(postmaster, signal.SIGSTOP)  # from now on it has no more children
        stopped += children(postmaster)
        for pid in stopped[1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
