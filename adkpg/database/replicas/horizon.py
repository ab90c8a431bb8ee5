"""Horizon: up to which moment each standby has all that the primary had. Pure, and of no clock.

A position of the primary's log, read at some moment, covers all that was committed before it was
asked for. A standby that has replayed up to there shows all of that to whatever is asked later.
Neither machine's clock counts, and a primary at rest is not mistaken for a standby that lags.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

_MOST_MARKS = 32
_MOST_SERVERS = 16
_BLOCK = 8192
_HEADERS = (24, 40)


class History(NamedTuple):
    """Whose log it is, in which positions can be compared.

    Attributes:
      cluster: Its identifier.
      database: Its name.
      timeline: Another one after each promotion.
    """

    cluster: str
    database: str
    timeline: int


class Horizon:
    """What standbys have replayed, in this process's own time. Threads may share it.

    Positions tell something within one history alone: of one database of one cluster, on one
    timeline, which a promotion ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._history: History | None = None
        self._marks: list[tuple[float, int]] = []
        self._reached: OrderedDict[float, float] = OrderedDict()

    def primary_at(self, asked_at: float, position: int, history: History) -> None:
        """Notes where the primary's log ended.

        Args:
          asked_at: When it was asked, in monotonic seconds.
          position: As a number of bytes.
          history: In which one. With another one than before, all that was noted is void.
        """
        with self._lock:
            if history != self._history:
                self._history = history
                self._marks.clear()
                self._reached.clear()
            self._marks.append((asked_at, settled(position)))
            if len(self._marks) > _MOST_MARKS:
                del self._marks[_dispensable([at for at, _ in self._marks])]

    def met(self, server: float, history: History) -> bool:
        """Believes a server from now on, and returns True, if its history is the primary's."""
        with self._lock:
            if history != self._history:
                self._reached.pop(server, None)
                return False
            self._reached[server] = self._reached.pop(server, -math.inf)
            if len(self._reached) > _MOST_SERVERS:
                self._reached.popitem(last=False)
            return True

    def replayed(self, server: float, position: int) -> None:
        """Notes up to where a standby has replayed the log; what it is asked from now on has that.

        One that was not met has a log of its own, for all that is known.

        Args:
          server: Which one; it has another number after a restart.
          position: As a number of bytes.
        """
        with self._lock:
            known = self._reached.pop(server, None)
            if known is not None:
                passed = max((at for at, mark in self._marks if mark <= position), default=known)
                self._reached[server] = max(known, passed)

    def reached(self) -> Mapping[float, float]:
        """Returns for each standby the moment up to which it has all, in monotonic seconds."""
        with self._lock:
            return dict(self._reached)


def _dispensable(moments: list[float]) -> int:
    """Returns which of some moments is missed least: the older they are, the wider their gaps."""
    now = moments[-1]

    def gap(number: int) -> float:
        return (moments[number + 1] - moments[number - 1]) / (now - moments[number - 1] or 1.0)

    return min(range(1, len(moments) - 1), key=gap)


def settled(position: int) -> int:
    """Returns where the last record ended: a page's header may follow it, and is never replayed."""
    past = position % _BLOCK
    return position - past if past in _HEADERS else position
