"""Pages of memories, and the cursors between them. Pure."""

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime

from adkpg.errors import InvalidInput
from adkpg.memory.records import Memory


@dataclass(frozen=True)
class MemoriesPage:
    """Some memories, newest first.

    Attributes:
      memories: The page.
      next: What to give as ``after`` for the page behind it; None if there is none.
    """

    memories: list[Memory]
    next: str | None


def cursor(timestamp: datetime, position: int) -> str:
    """Returns the cursor behind a memory."""
    return base64.urlsafe_b64encode(f"{timestamp.isoformat()} {position}".encode()).decode()


def read_cursor(text: str) -> tuple[datetime, int]:
    """Reads a cursor.

    Raises:
      InvalidInput: It did not come from a page.
    """
    try:
        timestamp, position = base64.urlsafe_b64decode(text.encode()).decode().split(" ")
        moment = datetime.fromisoformat(timestamp)
        if moment.tzinfo is None or not -(2**63) <= int(position) < 2**63:
            raise ValueError(text)
        return moment, int(position)
    except (ValueError, binascii.Error) as exc:
        raise InvalidInput(
            f"after={text!r} did not come from a page; give its next, or None to start."
        ) from exc
