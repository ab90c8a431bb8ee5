"""Horizon: up to which moment each standby has all that the primary had. Pure, and of no clock.

A position of the primary's log, read at some moment, covers all that was committed before it was
asked for. A standby that has replayed up to there shows all of that to whatever is asked later.
Neither machine's clock counts, and a primary at rest is not mistaken for a standby that lags.
"""

import math
import threading
from bisect import insort
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

_MOST_MARKS = 48
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


class Standing(NamedTuple):
    """How far a standby is known to be.

    Attributes:
      at: The moment up to which it has all, in monotonic seconds.
      position: The last that it was heard to have replayed.
    """

    at: float
    position: int


class Horizon:
    """What standbys have replayed, in this process's own time. Threads may share it.

    Positions tell something within one history alone: of one database of one cluster, on one
    timeline, which a promotion ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._history: History | None = None
        self._marks: list[tuple[float, int]] = []  # the oldest first
        self._standings: OrderedDict[float, Standing] = OrderedDict()
        self._renumbered: dict[float, float] = {}

    def primary_at(
        self,
        asked_at: float,
        position: int,
        history: History,
        *,
        flushed: int | None = None,
        flush_delay_s: float = 0.0,
    ) -> None:
        """Notes where the primary's log ended.

        What it shows is in its log, and at the latest `flush_delay_s` later on its disk, before
        which no standby gets it. A primary at rest keeps records that commit nothing back for
        longer; so what is on its disk counts, too, for the moment so long ago.

        Args:
          asked_at: When it was asked, in monotonic seconds.
          position: What is written, as a number of bytes.
          history: In which one. With another one than before, all that was noted is void.
          flushed: What is on its disk; None: all.
          flush_delay_s: How much later a commit may be there that nobody waited for.
        """
        with self._lock:
            if history != self._history:
                self._history = history
                self._marks.clear()
                self._standings.clear()
            insort(self._marks, (asked_at, settled(position)))
            if flushed is not None and flushed < position:
                insort(self._marks, (asked_at - flush_delay_s, settled(flushed)))
            while len(self._marks) > _MOST_MARKS:
                del self._marks[_dispensable([at for at, _ in self._marks])]

    def number(self, server: float) -> float:
        """Returns the number by which a server is known: its own, until it `fell_back`."""
        return self._renumbered.get(server, server)

    def fell_back(self, server: float) -> None:
        """Forgets a server that has lost what it showed, and gives it another number.

        After a crash of one of its processes a standby begins again from its last restartpoint, and
        says of itself what it said before.

        Args:
          server: By its own number.
        """
        with self._lock:
            number = self._renumbered.get(server, server)
            self._standings.pop(number, None)
            self._renumbered[server] = math.nextafter(number, math.inf)

    def met(self, server: float, history: History) -> bool:
        """Believes a server from now on, and returns True, if its history is the primary's."""
        with self._lock:
            if history != self._history:
                self._standings.pop(server, None)
                return False
            self._standings[server] = self._standings.pop(server, Standing(-math.inf, 0))
            if len(self._standings) > _MOST_SERVERS:
                self._standings.popitem(last=False)
            return True

    def replayed(self, server: float, position: int) -> None:
        """Notes up to where a standby has replayed the log; what it is asked from now on has that.

        One that was not met has a log of its own, for all that is known.

        Args:
          server: Which one; it has another number after a restart, and after it `fell_back`.
          position: As a number of bytes.
        """
        with self._lock:
            known = self._standings.pop(server, None)
            if known is not None:
                passed = max((at for at, mark in self._marks if mark <= position), default=known.at)
                self._standings[server] = Standing(
                    max(known.at, passed), max(known.position, position)
                )

    def reached(self) -> Mapping[float, float]:
        """Returns for each standby the moment up to which it has all, in monotonic seconds."""
        with self._lock:
            return {server: standing.at for server, standing in self._standings.items()}

    def positions(self) -> Mapping[float, int]:
        """Returns for each standby how far it was heard to be; what is asked from now on is too."""
        with self._lock:
            return {server: standing.position for server, standing in self._standings.items()}


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
