"""Processes: programs that are fed and read line by line, and end with their starter."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from adkpg.database.libpq import IGNORED
from adkpg.errors import DatabaseError

T = TypeVar("T")

_SAID = 600


class Process:
    """One program. As a context it is over at the end: complete, or killed after an exception.

    Args:
      argv: The program and its arguments.
      environment: Further variables, such as a password.
      reads: Whether it is fed by `write`.
      speaks: Whether what it prints is read from `lines`.
      errors: Whether `lines` are what it prints as errors, such as its progress.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        reads: bool = False,
        speaks: bool = False,
        errors: bool = False,
    ) -> None:
        self._name = Path(argv[0]).name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `__exit__`
        inherited = {name: value for name, value in os.environ.items() if name not in IGNORED}
        self._popen = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if reads else subprocess.DEVNULL,
            stdout=subprocess.PIPE if speaks else subprocess.DEVNULL,
            stderr=subprocess.PIPE if errors else self._errors,
            env={**inherited, "LC_ALL": "C", "PGCLIENTENCODING": "UTF8", **(environment or {})},
            start_new_session=True,  # Ctrl-C is for us to handle
        )

    def lines(self) -> Iterator[bytes]:
        """Yields what it prints."""
        if self._popen.stdout is not None:
            yield from self._popen.stdout
        if self._popen.stderr is not None:
            for line in self._popen.stderr:
                self._errors.write(line)
                yield line

    def write(self, text: bytes) -> None:
        """Feeds it.

        Raises:
          DatabaseError: It has failed.
        """
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(text)
        except BrokenPipeError:
            self.complete()
            raise

    def complete(self) -> None:
        """Waits until it has ended.

        Raises:
          DatabaseError: It failed.
        """
        if self._popen.stdin is not None:
            with suppress(BrokenPipeError):  # its exit code says what happened
                self._popen.stdin.close()
        if self._popen.wait() != 0:
            raise DatabaseError(
                f"{self._name} failed; clear the cause that it names and try again: {self.said()}"
            )

    def said(self) -> str:
        """Returns the end of what it printed as errors, in one line."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(size - 10 * _SAID, 0))
        text = self._errors.read().decode("utf-8", "replace")
        told = [line for line in text.splitlines() if "warning:" not in line]
        failures = [line for line in told if "rror:" in line or "ERROR" in line or "FATAL" in line]
        return " ".join(" ".join(failures or told).split())[-_SAID:]

    def kill(self) -> None:
        """Ends it immediately."""
        self._popen.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc is None:
                self.complete()
            else:
                self._popen.kill()
                self._popen.wait()
        finally:
            for end in (self._popen.stdin, self._popen.stdout, self._popen.stderr, self._errors):
                if end is not None:
                    with suppress(BrokenPipeError):
                        end.close()


class Processes:
    """Programs started in a thread; all end when the task that waits for it is cancelled."""

    def __init__(self) -> None:
        self._started: list[Process] = []
        self._cancelled = False

    def take(self, process: Process) -> Process:
        """Takes one that was just started, and returns it."""
        self._started.append(process)
        if self._cancelled:
            process.kill()
        return process

    @classmethod
    async def run(cls, work: Callable[["Processes"], T]) -> T:
        """Does work in a thread, which may start programs."""
        processes = cls()
        done = asyncio.ensure_future(asyncio.to_thread(work, processes))
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            processes._cancelled = True
            for process in processes._started:
                process.kill()
            await asyncio.wait([done])
            raise
