"""Expiry: when a session ends by itself, in the words of ADK's Vertex service. Pure."""

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from adkpg.errors import InvalidInput
from adkpg.timestamps import moment

_LONGEST = timedelta(days=36_525)
_SECONDS = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s")


@dataclass(frozen=True)
class Expiry:
    """How long a session lives.

    Attributes:
      ttl: So long after each append, and after its creation; None if none renews it.
      expires_at: From then on no caller sees it; None if that is the ttl's to say, or never.
    """

    ttl: timedelta | None = None
    expires_at: datetime | None = None


def expiry(
    ttl: str | float | timedelta | None, expire_time: date | str | float | None, now: float
) -> Expiry:
    """Reads the two options of a new session.

    Args:
      ttl: ``"7200s"``, a number of seconds, or a timedelta.
      expire_time: ISO 8601, a datetime, or Unix seconds.
      now: Unix seconds.

    Raises:
      InvalidInput: Both are given, or one cannot be read, is no time, or is over already.
    """
    if ttl is not None and expire_time is not None:
        raise InvalidInput("ttl and expire_time are both given; give one of them.")
    if ttl is not None:
        return Expiry(ttl=_span(ttl))
    if expire_time is None:
        return Expiry()
    expires_at = moment("expire_time", expire_time)
    if isinstance(expire_time, float) and not math.isfinite(expire_time):
        raise InvalidInput(
            f"expire_time={expire_time!r} is not a time; write 2026-01-31T12:00:00Z."
        )
    if expires_at <= datetime.fromtimestamp(now, UTC):
        raise InvalidInput(f"expire_time={expire_time!r} is over already; give a later one.")
    return Expiry(expires_at=expires_at)


def _span(ttl: str | float | timedelta) -> timedelta:
    seconds = math.nan
    if isinstance(ttl, timedelta):
        seconds = ttl.total_seconds()
    elif isinstance(ttl, str):
        written = _SECONDS.fullmatch(ttl.strip())
        seconds = float(written[1]) if written else math.nan
    elif isinstance(ttl, (int, float)) and not isinstance(ttl, bool):
        seconds = float(ttl)
    if not 0 < seconds <= _LONGEST.total_seconds():
        raise InvalidInput(
            f"ttl={ttl!r} is not a time to live of up to 100 years; write '7200s', or a number of "
            "seconds above 0."
        )
    return timedelta(seconds=seconds)
