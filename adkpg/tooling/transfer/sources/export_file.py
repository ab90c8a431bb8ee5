"""Export file: what `adkpg export` wrote, once or several times, as a source of records."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.limits import bytes_of
from adkpg.settings import Settings
from adkpg.tooling.transfer import lines
from adkpg.tooling.transfer.kinds import KINDS
from adkpg.tooling.transfer.records import EventLine, Note, Record, SessionRecord, Unread
from adkpg.tooling.transfer.sources.selection import Selection

_ROOM = 2_000_000  # bytes of a line beside its event or states
_BROKEN = "\0"  # counts lines that are no JSON


class ExportFile:
    """Reads an export line by line. A line that cannot be read costs no other.

    Args:
      path: The file.
      selection: What of it is wanted.
      settings: Those of the database that is written to. A line longer than they allow an event or
        state to be is refused.

    Attributes:
      name: What the report calls it.
    """

    def __init__(self, path: Path, selection: Selection, settings: Settings) -> None:
        self._path = path
        self._selection = selection
        most = max(bytes_of(settings, "max_event_mb"), bytes_of(settings, "max_state_mb"))
        self._longest = 2 * most + _ROOM  # a line may have two of them
        self.name = str(path)

    async def close(self) -> None:
        """Does nothing: nothing is held."""

    async def total(self) -> int:
        """Returns how many bytes there are to read."""
        return self._path.stat().st_size

    async def records(self) -> AsyncGenerator[tuple[Record, int]]:
        """Yields what the file says, and how many bytes were read.

        Raises:
          InvalidInput: It is no export, or of a newer version.
          ConfigurationError: It cannot be opened.
        """
        try:
            file = self._path.open("rb")
        except OSError as exc:
            raise ConfigurationError(f"{self._path} cannot be read ({exc.strerror}).") from exc
        reading = _Reading(self.name, self._selection, self._longest)
        with file:
            for raw in _lines(file, self._longest):
                for record in reading.take(raw):
                    yield record, reading.read
        if not reading.read:
            raise InvalidInput(f"{self.name} is empty; give a file that `adkpg export` wrote.")
        for record in reading.unfinished():
            yield record, reading.read


def _lines(file: IO[bytes], longest: int) -> Iterator[bytes]:
    """Yields lines; of a longer one than any may be, its beginning."""
    while raw := file.readline(longest):
        yield raw
        while len(raw) == longest and not raw.endswith(b"\n"):
            raw = file.readline(longest)


class _Reading:
    """How far a file was read: which export it is in, and after which session's line."""

    def __init__(self, name: str, selection: Selection, longest: int) -> None:
        self._name = name
        self._selection = selection
        self._longest = longest
        self._header: Mapping[str, Any] = {}
        self._place: SessionRecord | None = None
        self._wanted = False
        self._ended = True
        self._number = 0
        self._seen: Counter[str] = Counter()
        self.read = 0

    def take(self, raw: bytes) -> Iterator[Record]:
        """Yields what a line says, or why it cannot be read."""
        self.read += len(raw)
        self._number += 1
        line = raw.strip()
        if not line:
            return
        try:
            if len(raw) == self._longest:
                raise InvalidInput(
                    f"it has more than {self._longest:,} bytes; raise ADKPG_MAX_EVENT_MB."
                )
            value = lines.read(line.decode())
        except (UnicodeDecodeError, InvalidInput) as exc:
            if self._number == 1:
                raise InvalidInput(
                    f"{self._name} is neither a database nor an export of adkpg: its first line "
                    "is not a JSON object with a type; give one of the two."
                ) from exc
            self._seen[_BROKEN] += 1
            yield Unread(reason=f"line {self._number}: {exc}")
            return
        kind = value["type"]
        self._seen[kind] += 1
        if self._number == 1 or kind == "export":
            lines.require_readable(value, self._name)
            yield from self.unfinished()
            self._place, self._header, self._ended = None, value, False
            self._seen.clear()
        elif kind == "end":
            self._ended = True
            for reason in self._missing(value.get("records")):
                yield Unread(reason=f"line {self._number}: {reason}")
        elif kind not in KINDS:
            yield Note(
                f"Lines of type {kind[:40]!r} are unknown to this version of adkpg and were left "
                "out."
            )
        else:
            yield from self._record(value)

    def _record(self, value: dict[str, Any]) -> Iterator[Record]:
        kind = value["type"]
        try:
            lines.require_within(value, self._header)
            record = lines.record(value)
            if isinstance(record, EventLine) and (
                self._place is None or record.session != self._place.key
            ):
                raise InvalidInput("its session's line does not come before it.")
        except InvalidInput as exc:
            if self._wanted or kind != "event":
                yield self._unread(value, str(exc))
            return
        if unknown := lines.unknown_fields(value):
            yield Note(
                f"Fields of lines of type {kind!r} are unknown to this version of adkpg and were "
                f"left out: {', '.join(unknown)}."
            )
        if isinstance(record, SessionRecord):
            self._place, self._wanted = record, self._selection.takes_session(record)
        if isinstance(record, EventLine):
            record = record.record
        elif not isinstance(record, SessionRecord):
            self._place = None  # a session's events follow it, and nothing else does between them
            yield record
            return
        if self._wanted:
            yield record

    def _unread(self, value: Mapping[str, Any], reason: str) -> Unread:
        app_name, user_id, session_id = (
            place if isinstance(place := value.get(name), str) else None
            for name in ("app_name", "user_id", "session_id")
        )
        return Unread(
            reason=f"line {self._number}: {reason}",
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
        )

    def unfinished(self) -> Iterator[Unread]:
        """Yields that an export has no last line, if it has none."""
        if not self._ended:
            yield Unread(
                reason=f"{self._name} has an export without its last line: it was cut while it "
                "was written, and the lines after that are missing."
            )

    def _missing(self, told: object) -> list[str]:
        """Says which lines an export had when it was written, and has no more."""
        if not isinstance(told, dict):
            return []
        missing = {
            kind: count - self._seen[kind]
            for kind, count in told.items()
            if isinstance(count, int) and count > self._seen[kind]
        }
        if sum(missing.values()) <= self._seen[_BROKEN]:  # these were reported already
            return []
        return [
            f"{count} lines of type {kind[:40]!r} are missing that the export had when it was "
            "written."
            for kind, count in missing.items()
        ]
