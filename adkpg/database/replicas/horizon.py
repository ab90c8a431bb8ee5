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


class Mark(NamedTuple):
    """Where the primary's log ended at some moment, in numbers of bytes.

    Attributes:
      asked_at: When it was asked, in monotonic seconds.
      written: Up to where it is written; all that the primary shows is there.
      flushed: Up to where it is on the disk, before which no standby gets it; all commits that a
        client waited for are there.
      flush_delay_s: How much later the other commits are there, too.
    """

    asked_at: float
    written: int
    flushed: int
    flush_delay_s: float


class Standing(NamedTuple):
    """How far a standby is known to be.

    Attributes:
      at: The moment up to which it has all that the primary showed, in monotonic seconds.
      committed_at: The moment up to which it has all commits that were waited for.
      position: The last that it was heard to have replayed.
    """

    at: float = -math.inf
    committed_at: float = -math.inf
    position: int = 0


class Horizon:
    """What standbys have replayed, in this process's own time. Threads may share it.

    Positions tell something within one history alone: of one database of one cluster, on one
    timeline, which a promotion ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._history: History | None = None
        self._marks: list[Mark] = []
        self._standings: OrderedDict[float, Standing] = OrderedDict()
        self._renumbered: dict[float, float] = {}

    def follow(self, history: History) -> bool:
        """Says whose positions count. With another history all that was noted is void.

        Returns:
          Whether another one was followed before.
        """
        with self._lock:
            if history == self._history:
                return False
            followed, self._history = self._history, history
            self._marks.clear()
            self._standings.clear()
            return followed is not None

    def primary_at(
        self,
        asked_at: float,
        written: int,
        history: History,
        *,
        flushed: int | None = None,
        flush_delay_s: float = 0.0,
    ) -> None:
        """Notes where the primary's log ended, which is the one to `follow`.

        Args:
          asked_at: As for `Mark`.
          written: As for `Mark`.
          history: In which one.
          flushed: As for `Mark`; None: all that is written.
          flush_delay_s: As for `Mark`.
        """
        self.follow(history)
        written = settled(written)
        on_disk = written if flushed is None else min(settled(flushed), written)
        with self._lock:
            self._marks.append(Mark(asked_at, written, on_disk, flush_delay_s))
            if len(self._marks) > _MOST_MARKS:
                del self._marks[_dispensable([mark.asked_at for mark in self._marks])]

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

    def forget(self, number: float) -> None:
        """Believes a server no more, until it is `met` again."""
        with self._lock:
            self._standings.pop(number, None)

    def met(self, server: float, history: History) -> bool:
        """Believes a server from now on, and returns True, if its history is the primary's."""
        with self._lock:
            if history != self._history:
                self._standings.pop(server, None)
                return False
            self._standings[server] = self._standings.pop(server, Standing())
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
                at, committed_at = known.at, known.committed_at
                for mark in self._marks:
                    if mark.flushed <= position:
                        committed_at = max(committed_at, mark.asked_at)
                        # A primary at rest keeps back for longer what commits nothing.
                        at = max(at, mark.asked_at - mark.flush_delay_s)
                    if mark.written <= position:
                        at = max(at, mark.asked_at)
                self._standings[server] = Standing(at, committed_at, max(known.position, position))

    def standings(self) -> Mapping[float, Standing]:
        """Returns how far each standby is that is believed."""
        with self._lock:
            return dict(self._standings)


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
