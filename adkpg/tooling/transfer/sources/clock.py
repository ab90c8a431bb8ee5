"""Clock: instants of what ADK's databases store as times.

Old releases stored an event's time as the local time of the process that wrote it, newer ones as
UTC, in the same column. On SQLite a session's update was always stored as UTC, and is the instant
of its newest event: the difference is the writer's offset then. An event gets the offset of the
sample that is nearest to it, which knows summer time and the day from which on UTC was written.
"""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from adkpg.errors import ConfigurationError
from adkpg.timestamps import clamped

_MILLISECONDS = 1e11
_QUARTER = timedelta(minutes=15)
_LARGEST = timedelta(hours=15)
# Releases before 1.19 stored when the update was made, a moment after the event.
_DELAY = timedelta(seconds=90)
_HOUR_S = 3_600
_DOUBT_S = 36 * _HOUR_S


def zone_of(name: str | None) -> ZoneInfo | None:
    """Returns a zone by its name; None for none.

    Raises:
      ConfigurationError: There is no such zone.
    """
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ConfigurationError(
            f"There is no time zone {name!r}; write one such as Europe/Vienna or UTC."
        ) from exc


def read_time(value: object, zone: ZoneInfo | None = None) -> datetime | None:
    """Returns a stored time as an instant; None if it is none.

    Args:
      value: Unix seconds or milliseconds, a text in ISO 8601, or what a driver makes of it.
      zone: The zone of a time that says none; None is UTC.
    """
    if isinstance(value, (int, float)):
        return clamped(value / 1000 if abs(value) >= _MILLISECONDS else value)
    time = _parsed(value)
    if time is None:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=zone or UTC)
    try:
        return clamped(time.timestamp())
    except (OverflowError, ValueError):
        return None


def _parsed(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        return None


class Clock:
    """Reads times that were stored without their zone.

    Args:
      zone: Where the writer ran; None if it was not given.

    Attributes:
      doubtful: How many times were read by a guess.
    """

    def __init__(self, zone: ZoneInfo | None) -> None:
        self._zone = zone
        self._samples: dict[int, timedelta] = {}
        self._hours: list[int] = []
        self.doubtful = 0

    def observe(self, newest: object, updated: object) -> None:
        """Learns an offset from a session: its newest event's time, and its update's in UTC."""
        local, utc = _parsed(newest), _parsed(updated)
        if local is None or utc is None or local.tzinfo or utc.tzinfo:
            return
        difference = local - utc
        offset = round(difference / _QUARTER) * _QUARTER
        # The update comes after the event, if not with it.
        delay = offset - difference
        if abs(offset) <= _LARGEST and timedelta(0) <= delay <= _DELAY:
            self._samples[_hour(local)] = offset
            self._hours = []

    def instant(self, value: object) -> datetime | None:
        """Returns an event's instant; None if its time cannot be read."""
        local = _parsed(value)
        if local is None:
            return None
        if local.tzinfo is not None:
            return read_time(local)
        sample, sure = self._sample(_hour(local))
        if self._zone is not None and (sample is None or sample):
            return read_time(local, self._zone)
        if not sure:
            self.doubtful += 1
        return read_time(local - (sample or timedelta(0)))

    def _sample(self, hour: int) -> tuple[timedelta | None, bool]:
        """Returns the nearest sample's offset, and whether no other could be meant."""
        if not self._samples:
            return None, False
        if not self._hours:
            self._hours = sorted(self._samples)
        at = bisect_left(self._hours, hour)
        around = self._hours[max(at - 1, 0) : at + 1]
        nearest = min(around, key=lambda each: abs(each - hour))
        offsets = {self._samples[each] for each in around}
        near = abs(nearest - hour) * _HOUR_S <= _DOUBT_S
        return self._samples[nearest], near or (len(offsets) == 1 and len(self._all) == 1)

    @property
    def _all(self) -> set[timedelta]:
        return set(self._samples.values())


def _hour(local: datetime) -> int:
    return int(local.replace(tzinfo=UTC).timestamp() // _HOUR_S)
