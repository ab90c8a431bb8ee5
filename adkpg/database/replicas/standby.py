"""Standby: the servers that reads go to, and what their failures mean."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from adkpg.database.attempts import CALL, Attempt, Policy
from adkpg.database.connections import Connections
from adkpg.database.replicas.horizon import Horizon, Standing
from adkpg.errors import AdkpgError, Busy, InvalidInput, SchemaError, ScopeMissing
from adkpg.outages.health import Health
from adkpg.queries import Query, RowT

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LONGEST_PAUSE_S = 30.0
_LONGEST_PROBE_S = 1.0  # of a read that asks a standby again after it failed


class Runs(Protocol):
    """What is asked of a `Runner` here."""

    connections: Connections

    async def fetch(
        self,
        query: Query[RowT],
        *,
        timeout_s: float | None = None,
        policy: Policy = CALL,
        standing: str | None = None,
        attempt: Attempt | None = None,
    ) -> list[RowT]:
        """Runs a statement."""

    async def transact(
        self,
        work: Callable[[Any], Awaitable[T]],
        *,
        policy: Policy = CALL,
        attempt: Attempt | None = None,
    ) -> T:
        """Does work in one transaction."""


class NotHere(Exception):
    """A standby cannot answer this read.

    Attributes:
      reason: In a word, for the metric.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Standby:
    """The standby of a `Database`. Threads may share it.

    Args:
      runner: Runs statements there.
      timeout_s: How long it may take for an answer before the primary is asked.

    Attributes:
      runner: As given.
      horizon: How far its servers are.
      health: Whether it answers.
      primary_server: The number of the primary, which may answer in its place.
    """

    def __init__(self, runner: Runs, timeout_s: float) -> None:
        self.runner = runner
        self.horizon = Horizon()
        self.health = Health(longest_pause_s=_LONGEST_PAUSE_S)
        self.primary_server: float | None = None
        self._timeout_s = timeout_s

    @property
    def url(self) -> str:
        """Its address without password."""
        return self.runner.connections.url

    @property
    def timeout_s(self) -> float:
        """How long it may take for an answer; after a failure, for the next one."""
        return min(self._timeout_s, _LONGEST_PROBE_S) if self.health.is_said else self._timeout_s

    def heard(
        self,
        server: float,
        position: int | None,
        *,
        is_standby: bool,
        before: Mapping[float, Standing],
    ) -> float:
        """Notes how far a server is, and returns the number by which it is known.

        Its position says nothing of the answer that it came with, only of later ones.

        Args:
          server: Its own number.
          position: How far it is.
          is_standby: Whether it is one.
          before: How far servers were known to be when it was asked.

        Raises:
          NotHere: It is no standby any more, and not the primary either; or it has lost what it
            showed.
        """
        self.health.spoke()
        if not is_standby and server != self.primary_server:
            # One that was promoted: until the primary's address leads to it, it is not believed.
            raise NotHere("behind")
        number = self.horizon.number(server)
        if position is not None:
            if position < before.get(number, Standing()).position:
                self.horizon.fell_back(server)
                raise NotHere("behind")
            self.horizon.replayed(number, position)
        return number

    @contextmanager
    def asking(self, permit: int, attempt: Attempt) -> Iterator[None]:
        """Says what it means if there is no answer.

        Args:
          permit: To ask.
          attempt: What it is asked with.

        Raises:
          NotHere: There is none.
        """
        began = time.monotonic()
        try:
            yield
        except (AdkpgError, TimeoutError) as exc:
            waited = isinstance(exc, (Busy, TimeoutError)) and attempt.waited_for_pool(
                time.monotonic(), self.timeout_s
            )
            if waited:
                raise NotHere("busy") from exc
            raise self.refused(exc, permit) from exc
        except asyncio.CancelledError:
            if not attempt.queued and self.health.gave_up(max(began, attempt.borrowed_at)):
                url = self.url
                self.gone(f"{url} did not answer before its callers gave up.", permit)
            raise

    def refused(self, exc: BaseException, permit: int) -> NotHere:
        """Returns what a failure means, and leaves the standby alone for a while."""
        of_server = exc.__cause__ is not None  # whose role is held back by policies
        if isinstance(exc, InvalidInput) or (isinstance(exc, ScopeMissing) and not of_server):
            return NotHere("refused")  # the caller's
        if isinstance(exc, Busy):
            return NotHere("conflict")
        said = str(exc)
        if isinstance(exc, TimeoutError) or isinstance(exc.__cause__, TimeoutError):
            said = f"{self.url} did not answer in time."
        elif isinstance(exc, SchemaError):  # whose own cure is for a primary
            said = (
                f"{self.url} has no tables that this version can read; migrate the "
                "primary and wait for replay, or correct ADKPG_READ_URL."
            )
        return self.gone(said, permit)

    def gone(self, cause: str, permit: int) -> NotHere:
        """Leaves it alone for a while; says so once of each cause, until it answers."""
        if self.health.failed(permit, cause):
            logger.warning("The primary answers reads, too, for a while: %s", cause)
        return NotHere("away")

    def answered(self) -> None:
        """Notes that it has answered a read."""
        if self.health.answered():
            logger.info("Reads are answered at %s again.", self.url)
