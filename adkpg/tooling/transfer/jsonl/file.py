"""File: exports as a source of records, several in one file too."""

from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.tooling.transfer.jsonl import lines
from adkpg.tooling.transfer.records import (
    EventRecord,
    Note,
    Record,
    SessionRecord,
    Unread,
)
from adkpg.tooling.transfer.sources.selection import Selection


class JsonLinesSource:
    """Reads what `adkpg export` wrote, line by line.

    A line that cannot be read costs no other.

    Args:
      path: The file.
      selection: What of it is wanted.

    Attributes:
      name: What the report calls it.
    """

    def __init__(self, path: Path, selection: Selection) -> None:
        self._path = path
        self._selection = selection
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
        place: SessionRecord | None = None
        header: Mapping[str, Any] = {}
        wanted, read, number, ended = False, 0, 0, True
        seen: Counter[str] = Counter()
        try:
            file = self._path.open("rb")
        except OSError as exc:
            raise ConfigurationError(f"{self._path} cannot be read ({exc.strerror}).") from exc
        with file:
            for raw in file:
                read, number = read + len(raw), number + 1
                line = raw.strip()
                if not line:
                    continue
                try:
                    value = lines.read(line.decode())
                except (UnicodeDecodeError, InvalidInput) as exc:
                    if number == 1:
                        raise InvalidInput(
                            f"{self.name} is neither a database nor an export of adkpg: its first "
                            f"line is no JSON object with a type; give one of the two."
                        ) from exc
                    yield Unread(reason=f"line {number}: {exc}"), read
                    seen[_BROKEN] += 1
                    continue
                kind = value["type"]
                seen[kind] += 1
                if number == 1 or kind == "export":
                    lines.require_readable(value, self.name)
                    if not ended:
                        yield Unread(reason=_UNFINISHED.format(self.name)), read
                    place, header, ended = None, value, False
                    seen.clear()
                    continue
                if kind == "end":
                    ended = True
                    for reason in _missing(value.get("records"), seen):
                        yield Unread(reason=f"line {number}: {reason}"), read
                    continue
                try:
                    record = lines.record(value)
                    if record is not None:
                        lines.require_within(value, header)
                    if isinstance(record, EventRecord) and (
                        place is None or lines.place_of(value) != place.key
                    ):
                        raise InvalidInput("its session's line does not come before it.")
                except InvalidInput as exc:
                    if wanted or kind != "event":
                        yield self._unread(value, number, str(exc)), read
                    continue
                if record is None:
                    yield (
                        Note(
                            f"Lines of type {kind[:40]!r} are unknown to this version of adkpg and "
                            "were left out."
                        ),
                        read,
                    )
                    continue
                if unknown := lines.unknown_fields(value):
                    yield (
                        Note(
                            f"Fields of lines of type {kind!r} are unknown to this version of "
                            f"adkpg and were left out: {', '.join(unknown)}."
                        ),
                        read,
                    )
                if isinstance(record, SessionRecord):
                    place, wanted = record, self._selection.takes_session(record)
                if wanted or not isinstance(record, EventRecord | SessionRecord):
                    yield record, read
        if not read:
            raise InvalidInput(f"{self.name} is empty; give a file that `adkpg export` wrote.")
        if not ended:
            yield Unread(reason=_UNFINISHED.format(self.name)), read

    def _unread(self, value: object, number: int, reason: str) -> Unread:
        named = value if isinstance(value, dict) else {}
        app_name, user_id, session_id = (
            place if isinstance(place := named.get(name), str) else None
            for name in ("app_name", "user_id", "session_id")
        )
        return Unread(
            reason=f"line {number}: {reason}",
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
        )


def _missing(told: object, seen: Counter[str]) -> list[str]:
    """Says which lines an export had when it was written, and has no more."""
    if not isinstance(told, dict):
        return []
    missing = {
        kind: count - seen[kind]
        for kind, count in told.items()
        if isinstance(count, int) and count > seen[kind]
    }
    if sum(missing.values()) <= seen[_BROKEN]:  # these were reported already
        return []
    return [
        f"{count} lines of type {kind[:40]!r} are missing that the export had when it was written."
        for kind, count in missing.items()
    ]


_BROKEN = "\0"  # counts lines that are no JSON

_UNFINISHED = (
    "{} has an export without its last line: it was cut while it was written, and what followed is "
    "not in it."
)
