"""A clock that a test sets."""

from dataclasses import dataclass


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now
