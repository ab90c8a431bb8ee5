"""Timestamps: Unix times as ADK has them, and datetimes as Postgres has them."""

import math
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from adkpg.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A day off the calendar's ends, so that no time zone can carry a value beyond them.
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)


def clamped(timestamp: float) -> datetime:
    """Returns a Unix time as a datetime, to the microsecond, within what a calendar holds."""
    if math.isnan(timestamp):
        return _EPOCH
    try:
        time = _EPOCH + timedelta(seconds=timestamp)
    except OverflowError:
        return EARLIEST if timestamp < 0 else LATEST
    return min(max(time, EARLIEST), LATEST)


def unix(time: datetime) -> float:
    """Returns the Unix time, in seconds, of a stored timestamp."""
    return time.timestamp()


def moment(name: str, value: date | str | float, zone: tzinfo | None = None) -> datetime:
    """Reads a time as callers give it: a datetime, a date, ISO 8601 text, or Unix seconds.

    A time without offset is of `zone`, and a date is its first moment there.

    Args:
      name: What the message calls it.
      value: The time.
      zone: The zone of a time without an offset; None is local time, as ADK writes it
        (memory/_utils.py).

    Raises:
      InvalidInput: It is none of the four.
    """
    try:
        if isinstance(value, date) and not isinstance(value, datetime):
            value = value.isoformat()
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            value = value if value.tzinfo else value.replace(tzinfo=zone)
            value = value.astimezone(UTC).timestamp()  # which refuses what UTC cannot say
        if isinstance(value, bool):
            raise TypeError("is not a number")
        return clamped(float(value))
    except (TypeError, ValueError, OverflowError) as exc:
        raise InvalidInput(
            f"{name} {value!r} is not ISO 8601; write 2026-01-31T12:00:00+00:00."
        ) from exc


def zone_of(value: str | tzinfo) -> tzinfo:
    """Returns a time zone that callers give by its IANA name, or as it is.

    Raises:
      InvalidInput: There is no such zone.
    """
    if isinstance(value, tzinfo):
        return value
    try:
        return UTC if value == "UTC" else ZoneInfo(value)
    except (TypeError, ValueError, OSError, LookupError, AttributeError) as exc:
        raise InvalidInput(
            f"time_zone={value!r} is not a time zone; write one such as Europe/Vienna or UTC."
        ) from exc
