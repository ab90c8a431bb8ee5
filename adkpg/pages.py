"""Pages of listings, and the cursors that lead from one to the next. No I/O."""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from adkpg.errors import InvalidInput
from adkpg.keys import storable

_LARGEST = 2**63
ItemT = TypeVar("ItemT")


@dataclass(frozen=True)
class Page(Generic[ItemT]):
    """A part of a listing, in its order.

    Attributes:
      items: At most `limit` of them.
      next_cursor: Give it as `cursor` to get the following page; None at the end.
    """

    items: list[ItemT]
    next_cursor: str | None


def cursor_of(*place: datetime | int | str) -> str:
    """Returns the cursor of a row: its values in the listing's order."""
    plain = [
        each.astimezone(UTC).isoformat() if isinstance(each, datetime) else each for each in place
    ]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode().rstrip("=")


def place_of(cursor: str, *kinds: type) -> tuple[Any, ...]:
    """Returns the values that a cursor was written of.

    Args:
      cursor: As `cursor_of` returned it.
      kinds: The type of each value: datetime, int or str.

    Raises:
      InvalidInput: The cursor did not come from a page of this listing.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        plain = json.loads(base64.b64decode(padded, b"-_", validate=True))
        return tuple(_read(each, kind) for each, kind in zip(plain, kinds, strict=True))
    except (binascii.Error, ValueError, TypeError, RecursionError) as exc:
        raise InvalidInput(
            f"cursor={cursor!r} did not come from a page of this listing; give its next_cursor, or "
            "no cursor to start."
        ) from exc


def _read(plain: Any, kind: type) -> datetime | int | str:
    if kind is datetime:
        time = datetime.fromisoformat(plain)
        if time.tzinfo is not None:
            return time
    elif kind is int:
        if type(plain) is int and -_LARGEST <= plain < _LARGEST:
            return plain
    elif isinstance(plain, str) and storable(source=plain):
        return plain
    raise ValueError(plain)
