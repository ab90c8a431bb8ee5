"""Limits: how large what is given and what is asked for may be. Pure.

The settings name them. What is too large is refused before anything is written, in a message that
says how large it is, and which setting allows how much.
"""

from typing import Literal

from adkpg.errors import InvalidInput
from adkpg.settings import Settings

SizeSetting = Literal["max_event_mb", "max_state_mb", "max_query_kb", "max_answer_mb"]

_BYTES = {"mb": 1_000_000, "kb": 1_000}


def bytes_of(settings: Settings, setting: SizeSetting) -> int:
    """Returns how many bytes a setting allows."""
    allowed: int = getattr(settings, setting)
    return allowed * _BYTES[setting[-2:]]


def require_size(settings: Settings, setting: SizeSetting, name: str, *texts: str | None) -> None:
    """Refuses texts that are too large together, as UTF-8.

    Args:
      settings: Those of the Database.
      setting: Which one allows how much.
      name: What the message calls them.
      texts: None is none.

    Raises:
      InvalidInput: They are larger.
    """
    limit = bytes_of(settings, setting)
    given = [text for text in texts if text]
    if 4 * sum(map(len, given)) <= limit:  # no character has more bytes
        return
    size = sum(
        len(text) if text.isascii() else len(text.encode(errors="surrogatepass")) for text in given
    )
    if size > limit:
        raise InvalidInput(
            f"{name} has {size:,} bytes, and ADKPG_{setting.upper()}={getattr(settings, setting)} "
            f"allows {limit:,}; give less, or raise that setting."
        )


def page_rows(settings: Settings, limit: int) -> int:
    """Returns how many rows a page has at most, whose cursor leads to the others.

    Args:
      settings: Those of the Database.
      limit: How many are asked for at most.

    Raises:
      InvalidInput: It is below 1.
    """
    if limit < 1:
        raise InvalidInput(f"limit={limit} is below 1; ask for at least one.")
    return min(limit, settings.max_results)


def require_rows(settings: Settings, name: str, rows: int) -> None:
    """Refuses to return less than one row, or more than a call without pages may.

    Args:
      settings: Those of the Database.
      name: The argument's name.
      rows: How many are asked for at most.

    Raises:
      InvalidInput: It is below 1, or too many.
    """
    if rows < 1:
        raise InvalidInput(f"{name}={rows} is below 1; ask for at least one.")
    if rows > settings.max_results:
        raise InvalidInput(
            f"{name}={rows} is above ADKPG_MAX_RESULTS={settings.max_results}; ask for less at "
            "once, or raise that setting."
        )
