"""Breaker: who failed a moment ago is left alone for a while."""

import random
import threading
import time
import weakref
from collections.abc import Callable

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0


class Breaker:
    """A circuit breaker: a failure opens it, and while it is open no caller asks.

    After a pause one caller may ask, and the others as soon as there is an answer. Each failure
    doubles the pause, up to five minutes unless told otherwise; its last half is chance, so that
    processes do not ask in step. Bound to no event loop; threads may share it.

    Args:
      clock: Tells seconds that only grow.
      longest_pause_s: The longest pause, in seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        longest_pause_s: float = _LONGEST_PAUSE_S,
    ) -> None:
        self._clock = clock
        self._longest_pause_s = longest_pause_s
        self._lock = threading.Lock()
        self._open = False
        self._pause_s = 0.0  # of the last opening; 0 after an answer
        self._asked_again_at = 0.0
        self._openings = 0
        self._heard: dict[str, int] = {}
        self._cause = ""

    @property
    def cause(self) -> str:
        """The failure that opened it last, in a sentence."""
        return self._cause

    def pause_s(self) -> float:
        """Returns for how many seconds no caller asks; 0.0 if one may."""
        if not self._open:
            return 0.0
        return max(0.0, self._asked_again_at - self._clock())

    def admit(self, answer_s: float) -> int | None:
        """Returns a permit to ask; None while no caller may.

        Args:
          answer_s: How long the answer may take. The first to ask after a pause is waited for so
            long by all others.
        """
        with self._lock:
            if self._open:
                now = self._clock()
                if now < self._asked_again_at:
                    return None
                self._asked_again_at = now + answer_s
            return self._openings

    def answered(self) -> None:
        """Closes it: there was an answer, be it a refusal."""
        with self._lock:
            self._open, self._pause_s = False, 0.0

    def forgive(self) -> None:
        """Lets all ask again now; after a failure the pause is as long as it would have been."""
        with self._lock:
            self._open = False

    def failed(self, permit: int, cause: str, *, at_least_s: float = 0.0) -> None:
        """Opens it, unless what is known since the permit was given is newer than this.

        That is a pause that still goes on, or an answer.

        Args:
          permit: As `admit` gave it.
          cause: What happened, in a sentence.
          at_least_s: How long the service asks to be left alone.
        """
        with self._lock:
            in_pause = self._open and self._clock() < self._asked_again_at
            if permit != self._openings and (in_pause or not self._open):
                return
            self._open = True
            self._openings += 1
            longest_s = self._longest_pause_s
            self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), longest_s)
            pause_s = self._pause_s * random.uniform(0.5, 1)
            self._asked_again_at = self._clock() + max(pause_s, min(at_least_s, longest_s))
            self._cause = cause

    def opened_since(self, permit: int) -> bool:
        """Whether another's failure has opened it since a permit was given, and it is open."""
        return self._open and permit != self._openings

    def withdrawn(self, permit: int) -> None:
        """Lets another ask instead of one who was cancelled."""
        with self._lock:
            if permit == self._openings:
                self._asked_again_at = self._clock()

    def news(self, hearer: str) -> bool:
        """Tells each hearer once of each opening, so that a log says it once."""
        with self._lock:
            heard, self._heard[hearer] = self._heard.get(hearer, 0), self._openings
            return heard != self._openings


class Breakers:
    """The breakers of a database's embedders and extractors: one for each object.

    The holder of a breaker holds its object too, else another object may take its place.

    Args:
      clock: As for `Breaker`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: weakref.WeakValueDictionary[tuple[int, str], Breaker] = (
            weakref.WeakValueDictionary()
        )

    def of(self, service: object, use: str = "") -> Breaker:
        """Returns an object's breaker for one use, the same one to all who ask.

        By the object, not by what it says of itself: two may have one name and different keys.
        """
        with self._lock:
            key = (id(service), use)
            breaker = self._held.get(key)
            if breaker is None:
                breaker = self._held[key] = Breaker(self._clock)
            return breaker
