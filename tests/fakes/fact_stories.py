"""Turns and facts for the pure tests."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

from adkpg.facts.extractor import KnownFact, Turn

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def turn(day: int, text: str = "", *, author: str | None = "user", read: bool = False) -> Turn:
    """A turn of a day, whose memory id is ``m`` and the day."""
    return Turn(f"m{day}", f"e{day}", author, START + timedelta(days=day), text, read)


def fact(day: int, text: str, *, id_: str | None = None) -> KnownFact:
    """A fact drawn from the turn of a day, whose id is ``known`` and the day."""
    return KnownFact(
        id_ or f"known{day}", text, 0.5, ("home",), (f"m{day}",), START + timedelta(days=day)
    )


def numbered() -> Callable[[], str]:
    """Makes the ids new1, new2 and so on."""
    numbers = count(1)
    return lambda: f"new{next(numbers)}"
