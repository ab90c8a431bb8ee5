"""Histories: what each client of a soak did, as lines of JSON that a kill leaves behind."""

import json
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TextIO


@dataclass
class Append:
    """One append of one value to a session.

    Attributes:
      value: Appended once in the whole run.
      began: When it was first asked for, in seconds of the machine's monotonic clock.
      ended: When it was acknowledged; None if it never was, so that nobody knows.
    """

    value: str
    began: float
    ended: float | None = None


@dataclass(frozen=True)
class Read:
    """What one read of a session returned, in its order."""

    values: tuple[str, ...]
    began: float
    ended: float


@dataclass
class Session:
    """All that is known of one session.

    Attributes:
      final: What was stored when nobody wrote to it any more; None if that was not read.
      live: What Session objects held then.
    """

    appends: dict[str, Append] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    final: tuple[str, ...] | None = None
    live: list[tuple[str, ...]] = field(default_factory=list)


@dataclass
class History:
    """What all clients did.

    Attributes:
      sessions: By id.
      errors: How often each error reached a caller, by its type.
      violations: What clients saw themselves that must not be.
      slowest_s: The longest call, its repetitions included.
      searches: How many searches answered.
      ingests: How many sessions of another service were given to memory.
    """

    sessions: dict[str, Session] = field(default_factory=lambda: defaultdict(Session))
    errors: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    violations: list[str] = field(default_factory=list)
    slowest_s: float = 0
    searches: int = 0
    ingests: int = 0

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Self:
        """Reads the files of all clients; of a line that a kill cut, nothing."""
        history = cls()
        for path in sorted(paths):
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                history.add(record)
        return history

    def add(self, record: dict[str, Any]) -> None:
        """Adds one record of `Log`."""
        session = self.sessions[record["session"]] if "session" in record else Session()
        match record["kind"]:
            case "invoke":
                value = record["value"]
                session.appends.setdefault(value, Append(value, record["at"]))
            case "ok":
                append = session.appends[record["value"]]
                append.ended = record["at"]
                self.slowest_s = max(self.slowest_s, append.ended - append.began)
            case "read":
                read = Read(tuple(record["values"]), record["began"], record["at"])
                session.reads.append(read)
                self.slowest_s = max(self.slowest_s, read.ended - read.began)
            case "final":
                session.final = tuple(record["values"])
            case "live":
                session.live.append(tuple(record["values"]))
            case "error":
                self.errors[record["type"]] += 1
            case "violation":
                self.violations.append(record["what"])
            case "search":
                self.searches += 1
                self.slowest_s = max(self.slowest_s, record["at"] - record["began"])
            case "ingest":
                self.ingests += 1


class Log:
    """Writes one client's history; each record is in the kernel's hands before the next call."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a", buffering=1, encoding="utf-8")

    def __call__(self, kind: str, **record: Any) -> None:
        self._file.write(json.dumps({"kind": kind, **record, "at": time.monotonic()}) + "\n")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
