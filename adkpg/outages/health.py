"""Health: whether a server answers. One that failed is left alone for a while."""

import math
import time
from collections.abc import Callable

from adkpg.outages.breaker import Breaker

_LONGEST_SILENCE_S = 0.5


class Health:
    """A breaker that also counts callers who give up, and what the log was told.

    Callers that wait for less than an answer may take would never find out that a server hangs. So
    it has failed once they have waited for half a second in all since it answered last.

    Args:
      longest_pause_s: The breaker's.
      clock: Tells seconds that only grow.
    """

    def __init__(
        self, *, longest_pause_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._breaker = Breaker(clock, longest_pause_s=longest_pause_s)
        self._failed_at = -math.inf
        self._waited_s, self._counted_until = 0.0, -math.inf
        self._said: str | None = None

    @property
    def cause(self) -> str:
        """The last failure, in a sentence."""
        return self._breaker.cause

    @property
    def is_said(self) -> bool:
        """Whether the log was told of a failure, since it answered last."""
        return self._said is not None

    def pause_s(self) -> float:
        """Returns for how many seconds it is left alone."""
        return self._breaker.pause_s()

    def is_away(self, for_s: float) -> bool:
        """Whether it failed less than so many seconds ago, and has not answered since."""
        return self._clock() - self._failed_at < for_s

    def admit(self, answer_s: float) -> int | None:
        """Returns a permit to ask, as `Breaker.admit` does."""
        return self._breaker.admit(answer_s)

    def withdrawn(self, permit: int) -> None:
        """Lets another ask instead of one who has asked nothing."""
        self._breaker.withdrawn(permit)

    def opened_since(self, permit: int) -> bool:
        """Whether another's failure has come since a permit was given."""
        return self._breaker.opened_since(permit)

    def spoke(self) -> None:
        """Notes that it said something, whatever that is."""
        self._waited_s, self._counted_until = 0.0, self._clock()

    def answered(self) -> bool:
        """Notes an answer; returns whether the log was told that there was none."""
        self.spoke()
        self._breaker.answered()
        self._failed_at = -math.inf
        said, self._said = self._said, None
        return said is not None

    def failed(self, permit: int | None, cause: str) -> bool:
        """Notes a failure; returns whether the log is to be told, once of each cause.

        Args:
          permit: As `admit` gave it; None: of one who asked without, whom no pause follows.
          cause: What happened, in a sentence.
        """
        self._failed_at = self._clock()
        if permit is None:
            return False
        self._breaker.failed(permit, cause)
        if not self._breaker.news("log") or cause == self._said:
            return False
        self._said = cause
        return True

    def gave_up(self, since: float) -> bool:
        """Notes that a caller gave up; returns whether it is taken for one that hangs.

        Callers who wait simultaneously count as one. After that it counts anew.

        Args:
          since: When the caller began to wait for it.
        """
        now = self._clock()
        self._waited_s += max(now - max(since, self._counted_until), 0.0)
        self._counted_until = now
        if self._waited_s < _LONGEST_SILENCE_S:
            return False
        self._waited_s = 0.0
        return True
