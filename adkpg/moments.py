"""Moments: Unix times as ADK has them, and timestamps as Postgres has them."""

import math
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A day off the calendar's ends, so that no time zone can carry a value beyond them.
_FIRST = datetime(1, 1, 2, tzinfo=UTC)
_LAST = datetime(9999, 12, 30, tzinfo=UTC)


def clamped(timestamp: float) -> datetime:
    """Returns a Unix time as a datetime, to the microsecond, within what a calendar holds."""
    if math.isnan(timestamp):
        return _EPOCH
    try:
        moment = _EPOCH + timedelta(seconds=timestamp)
    except OverflowError:
        return _FIRST if timestamp < 0 else _LAST
    return min(max(moment, _FIRST), _LAST)


def unix(moment: datetime) -> float:
    """Returns the Unix time, in seconds, of a stored moment."""
    return moment.timestamp()
