"""SIGINT as a terminal gives it to programs, in runs that ignore it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_heard() -> Iterator[None]:
    """Programs started inside end by SIGINT, also if this run was told to ignore it (nohup)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Programs started inside ignore SIGINT, unless they install a handler of their own."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
