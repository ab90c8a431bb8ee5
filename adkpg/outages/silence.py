"""Silence: callers that give up before there is an answer find out that a server hangs."""

import math

_LONGEST_S = 0.5


class Silence:
    """How long callers have waited for a server, and gave up, since it answered last."""

    def __init__(self) -> None:
        self._waited_s = 0.0
        self._counted_until = -math.inf

    def broken(self, now: float) -> None:
        """Notes an answer."""
        self._waited_s, self._counted_until = 0.0, now

    def lasted(self, since: float, now: float) -> bool:
        """Notes that a caller gave up; returns whether the server is taken for one that hangs.

        Callers who wait simultaneously count as one. After that it counts anew.
        """
        self._waited_s += max(now - max(since, self._counted_until), 0.0)
        self._counted_until = now
        if self._waited_s < _LONGEST_S:
            return False
        self._waited_s = 0.0
        return True
