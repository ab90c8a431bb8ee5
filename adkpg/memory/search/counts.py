"""Counts: how many memories a large scope had when a search last counted them. No I/O.

Counting reads an index entry of each memory: of 250,000 it takes two thirds of a search by words.
The count tells how rare a word is and what chance finds. Both change with its logarithm, so a count
of a minute ago is as good, unless most of the memories went or came since. Small scopes are counted
each time: there a few memories matter, and counting takes nothing.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

KEPT_FROM = 2_000
"""Memories from which a scope's count is kept. Counting them takes a seventh of a search."""

KEPT_S = 60.0
"""For so long."""

_MOST = 10_000  # scopes that are kept, a few MB


class CountParameters(TypedDict):
    """What is known of the memories of the scopes asked for; all null if they are to be counted.

    Attributes:
      known_size: How many live memories there are.
      known_mean_length: How many words a memory has, on average.
    """

    known_size: float | None
    known_mean_length: float | None


UNKNOWN: CountParameters = {
    "known_size": None,
    "known_mean_length": None,
}


class Counts:
    """Counts of large scopes, each for a minute.

    Args:
      now_s: A clock that never goes back.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        # The first to be counted comes first.
        self._kept: OrderedDict[tuple[str, ...], tuple[float, CountParameters]] = OrderedDict()

    def of(self, app_name: str, scopes: Sequence[str]) -> CountParameters:
        """Returns what is known of the scopes that a search asks for together."""
        until, known = self._kept.get((app_name, *scopes), (0.0, UNKNOWN))
        return known if self._now_s() < until else UNKNOWN

    def learn(self, app_name: str, scopes: Sequence[str], row: Mapping[str, Any]) -> None:
        """Keeps what a search has counted, if that is much.

        Args:
          app_name: The app.
          scopes: Which the search asked for together.
          row: From its answer.
        """
        key = (app_name, *scopes)
        self._kept.pop(key, None)
        if row["size"] < KEPT_FROM:
            return
        self._kept[key] = (
            self._now_s() + KEPT_S,
            {
                "known_size": row["size"],
                "known_mean_length": row["mean_length"],
            },
        )
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)
