"""Forms: what a request says, read into values, or refused in one sentence. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

from adkpg.errors import InvalidInput
from adkpg.timestamps import moment

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_MOST_FIELDS = 1_000


def pairs(encoded: str) -> list[tuple[str, str]]:
    """Returns the fields of a form or of a query, in their order.

    Raises:
      InvalidInput: There are too many, or they are no text.
    """
    try:
        return parse_qsl(
            encoded, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError as exc:
        raise InvalidInput(f"The request's fields cannot be read ({exc}); go back.") from exc


def required(fields: Mapping[str, str], name: str) -> str:
    """Returns a field that must be there; it may be empty.

    Raises:
      InvalidInput: It is missing.
    """
    if name not in fields:
        raise InvalidInput(f"The address lacks {name!r}; start from the overview.")
    return fields[name]


def whole(fields: Mapping[str, str], name: str, usual: int, *, least: int = 1) -> int:
    """Returns a whole number.

    Raises:
      InvalidInput: It is none, or too small.
    """
    found = whole_or_none(fields, name)
    if found is None:
        return usual
    if found < least:
        raise InvalidInput(f"{name}={found} is below {least}; give a larger number.")
    return found


def whole_or_none(fields: Mapping[str, str], name: str) -> int | None:
    """Returns a whole number, or None for an empty field.

    Raises:
      InvalidInput: It is none.
    """
    given = fields.get(name, "").strip()
    if not given:
        return None
    try:
        if len(given) > 18:
            raise ValueError
        return int(given)
    except ValueError as exc:
        raise InvalidInput(f"{name}={given[:40]!r} is not a whole number; write one.") from exc


def decimal(fields: Mapping[str, str], name: str) -> float | None:
    """Returns a number, or None for an empty field.

    Raises:
      InvalidInput: It is none.
    """
    given = fields.get(name, "").strip()
    if not given:
        return None
    try:
        return float(given)
    except ValueError as exc:
        raise InvalidInput(
            f"{name}={given[:40]!r} is not a number; write one, such as 0.5."
        ) from exc


def span(fields: Mapping[str, str], name: str) -> timedelta | None:
    """Returns a span of time such as ``30d``, or None for an empty field.

    Raises:
      InvalidInput: It is none.
    """
    given = fields.get(name, "").strip()
    if not given:
        return None
    try:
        if given[-1] not in _UNITS:
            raise ValueError
        return timedelta(seconds=float(given[:-1]) * _UNITS[given[-1]])
    except (ValueError, OverflowError) as exc:
        raise InvalidInput(
            f"{name}={given[:40]!r} is not a span of time; write 30d, 12h, 90m or 45s."
        ) from exc


def time(fields: Mapping[str, str], name: str) -> datetime | None:
    """Returns a moment, or None for an empty field; without an offset it is UTC.

    Raises:
      InvalidInput: It is none.
    """
    given = fields.get(name, "").strip()
    if not given:
        return None
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        return moment(name, given)  # says what is wrong with it
    return moment(name, found if found.tzinfo is not None else found.replace(tzinfo=UTC))


def words(fields: Mapping[str, str], name: str) -> list[str]:
    """Returns what stands between commas."""
    return [word for each in fields.get(name, "").split(",") if (word := each.strip())]
