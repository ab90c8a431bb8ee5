"""Attempts: a call that is made again while what it failed of passes, and how often."""

import logging
import math
import random
import time
from asyncio import sleep
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from adkpg.database.driver import Closed, Fault, NeverReached, fault_of, of_driver, translate
from adkpg.errors import DatabaseError, InvalidInput, RetryableError
from adkpg.telemetry import calls

logger = logging.getLogger(__name__)

_SHORTEST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.6
_SAID_PAUSE_S = 0.8
_LONGEST_FIRST_S = 6.0  # for an address that refuses, and was never reached
_WORTH_SAYING_S = 5.0  # a failure that comes sooner says enough
_AT_ONCE = (Fault.LOST, Fault.UNPREPARED)  # a new connection may be all that is missing


@dataclass(frozen=True, slots=True)
class Policy:
    """How a call is made, and what is waited for if it fails.

    Attributes:
      checked: Whether adkpg's tables are verified first.
      scoped: Whether the context's scope is entered, because it is about rows of adkpg's tables.
      apart: Whether a connection outside of the pool is opened for the call.
      races: Whether a call that lost a race to others is repeated here; else by the caller.
      waits_for_nodes: Whether the call is repeated while a node of a cluster is away.
      held: Whether the context's runs must have their sessions still, if it writes.
      budget_s: For how many seconds it is repeated; None: for ``ADKPG_RETRY_TIMEOUT_S``.
    """

    checked: bool = True
    scoped: bool = True
    apart: bool = False
    races: bool = True
    waits_for_nodes: bool = True
    held: bool = True
    budget_s: float | None = None


CALL = Policy()
"""A call of a service."""

COMPARED = Policy(held=False)
"""A call whose own statement compares the run that it belongs to, if that matters."""

WITHOUT_RACES = Policy(races=False)
"""A call that looks again by itself after it lost a race."""

PROMPT = Policy(waits_for_nodes=False)
"""A call that fails at once where a node of a cluster is away."""

LOOK = Policy(checked=False, scoped=False)
"""A look at the server's own catalogs, whatever adkpg's tables are like."""

GLANCE = Policy(scoped=False, budget_s=0.0)
"""A look at a server that has the tables; repeated only where its connection was lost."""

GLANCE_APART = Policy(checked=False, scoped=False, apart=True, budget_s=0.0)
"""A look on a connection of its own, because those of the pool are all in use."""


class Attempt:
    """One attempt: a context that translates the driver's errors into adkpg's.

    On its own it repeats nothing; `Attempts` hands out those that swallow what is worth another.

    Args:
      place: The database's address without password, for messages.
      sent: Whether something that writes may have reached the server already.
      borrowed_at: As the attribute.

    Attributes:
      after: What the attempt before this one failed of; None: this is the first.
      queued: Whether it waits until others give a connection of the pool back.
      borrowed_at: When it had one after that, in monotonic seconds.
      sent: Whether something that writes may have reached the server.
      partly: Whether it has written already, for some of those whom it is about: on a cluster a
        statement runs once for each user.
      fault: What it failed of, if that passes; None before it failed.
      distributed: Whether it asked as of distributed tables; None: it is not known.
      loop: Decides whether another attempt follows; None: none does.
      remade: Whether it follows because tables on one server may be distributed meanwhile.
      closings: How often its connections were closed when its call began; None: they know.
    """

    __slots__ = (
        "after",
        "borrowed_at",
        "closings",
        "distributed",
        "fault",
        "loop",
        "partly",
        "place",
        "queued",
        "remade",
        "sent",
    )

    def __init__(
        self, place: str = "", *, sent: bool = False, borrowed_at: float = -math.inf
    ) -> None:
        self.place = place
        self.after: Fault | None = None
        self.queued = False
        self.borrowed_at = borrowed_at
        self.sent = sent
        self.partly = False
        self.fault: Fault | None = None
        self.distributed: bool | None = None
        self.loop: Attempts | None = None
        self.remade = False
        self.closings: int | None = None

    def waited_for_pool(self, now: float, limit_s: float) -> bool:
        """Whether the pool left the server less than a limit, in seconds, until now."""
        return self.queued or now - self.borrowed_at < limit_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Translates what was raised, keeping it as ``__cause__``; swallows it if it is repeated.

        Raises:
          DatabaseError: As `translate` says; nothing of the driver's passes.
          ConfigurationError: The URL names what the driver does not know.
          InvalidInput: A value cannot be stored.
        """
        if not isinstance(exc, Exception):  # a cancellation is never an attempt's to judge
            return False
        failure = self._translated(exc)
        if self.loop is not None and self.loop.goes_on(self, failure):
            return True
        if failure is exc:
            return False
        raise failure

    def _translated(self, exc: Exception) -> Exception:
        failure: Exception
        if isinstance(exc, UnicodeEncodeError):
            failure = InvalidInput(
                "A text holds a lone surrogate, which Postgres cannot store in a key; remove it."
            )
            failure.__cause__ = exc
            return failure
        cause = of_driver(exc)
        if cause is None:
            return exc
        self.fault = fault_of(cause, sent=self.sent)
        failure = translate(cause, self.place, sent=self.sent, partly=self.partly)
        failure.__cause__ = cause
        return failure


class Connected(Protocol):
    """What connections are asked for by a call that is repeated."""

    @property
    def url(self) -> str:
        """The database's address without password."""

    @property
    def closings(self) -> int:
        """How often they were closed."""

    @property
    def seeks_primary(self) -> bool:
        """Whether another of several servers may be the primary."""

    def heed(self, fault: Fault) -> None:
        """Doubts the other connections that a fault may have met, too."""


class Doubtful(Protocol):
    """What adkpg's tables are asked when a call failed of them."""

    def doubted(self, failure: DatabaseError, attempt: Attempt, *, again: bool) -> bool:
        """Whether they may be others now, so that the call is made anew, once."""


class Attempts:
    """The attempts of one idempotent call, in tenacity's manner.

    ``async for attempt in Attempts(…): with attempt: return await …``. An attempt whose fault
    passes ends quietly, and the next one follows after a pause. The last one raises its error. A
    cancellation ends the call wherever it comes.

    Args:
      connections: Those that the call uses. Once they are closed, the call is not repeated.
      tables: Those that it is about; None: none of adkpg's.
      policy: How it is made.
      budget_s: For how many seconds it is repeated, if the policy does not say so.
      first: The first attempt, if the caller wants to be told how far it came.
    """

    __slots__ = (
        "_budget_s",
        "_closings",
        "_connections",
        "_deadline",
        "_doubted",
        "_failure",
        "_next",
        "_pause_s",
        "_policy",
        "_tables",
        "_unknown",
        "_wait_s",
    )

    def __init__(
        self,
        connections: Connected,
        tables: Doubtful | None,
        policy: Policy,
        budget_s: float,
        first: Attempt | None = None,
    ) -> None:
        self._connections = connections
        self._tables = tables
        self._policy = policy
        self._budget_s = budget_s if policy.budget_s is None else policy.budget_s
        self._closings = connections.closings
        self._deadline: float | None = None
        self._doubted = self._unknown = False
        self._pause_s = self._wait_s = 0.0
        self._failure: RetryableError | None = None
        self._next: Attempt | None = None
        self._follow(first or Attempt(), None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Attempt:
        """Returns the next attempt, after its pause."""
        attempt, self._next = self._next, None
        if attempt is None:
            raise StopAsyncIteration
        if self._wait_s:
            await sleep(self._wait_s)
            if self._connections.closings != self._closings:
                raise self._closed(attempt) from self._failure
        return attempt

    def goes_on(self, attempt: Attempt, failure: Exception) -> bool:
        """Whether another attempt follows one that failed.

        Raises:
          DatabaseUnavailable: The connections were closed under the call.
          Busy: The tables were distributed meanwhile, and the caller must ask otherwise.
        """
        if not isinstance(failure, DatabaseError):
            return False
        if isinstance(failure, RetryableError):
            if self._connections.closings != self._closings:
                raise self._closed(attempt) from failure
            return self._passes(attempt, failure)
        if self._tables is None or not self._tables.doubted(failure, attempt, again=self._doubted):
            return False
        self._doubted, self._wait_s = True, 0.0
        self._follow(Attempt(), None, remade=not attempt.distributed)
        return True

    def _closed(self, attempt: Attempt) -> Exception:
        sent = attempt.sent or self._unknown
        return translate(Closed(), self._connections.url, sent=sent)

    def _passes(self, attempt: Attempt, failure: RetryableError) -> bool:
        if self._unknown:
            failure.written = None
        self._unknown = failure.written is None
        fault, policy = attempt.fault, self._policy
        if (
            fault is None
            or (fault is Fault.RACE and not policy.races)
            or (fault is Fault.STANDBY and not self._connections.seeks_primary)
            or (fault is Fault.NODE and not policy.waits_for_nodes)
        ):
            return False
        self._connections.heed(fault)
        now = time.monotonic()
        budget_s = self._budget_s
        if isinstance(failure.__cause__, NeverReached):
            budget_s = min(budget_s, _LONGEST_FIRST_S)
        if self._deadline is None:
            self._deadline = now + budget_s
        self._wait_s = 0.0
        if self._pause_s or fault not in _AT_ONCE:
            if now + self._pause_s > self._deadline or not budget_s:
                return False
            self._wait_s = max(self._pause_s, _SHORTEST_PAUSE_S) * random.uniform(0.5, 1)
        self._pause_s = min(max(2 * self._pause_s, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)
        if self._pause_s == _SAID_PAUSE_S and budget_s > _WORTH_SAYING_S:
            logger.warning("A call is repeated for up to %g s: %s", budget_s, failure)
        calls.retried()
        self._failure = failure
        self._follow(Attempt(), fault)
        return True

    def _follow(self, attempt: Attempt, fault: Fault | None, *, remade: bool = False) -> None:
        attempt.place, attempt.after, attempt.loop = self._connections.url, fault, self
        attempt.remade, attempt.closings = remade, self._closings
        self._next = attempt
