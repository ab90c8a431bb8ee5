"""Replica: answers reads on a standby where it may, and says where it may not."""

import asyncio
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import asyncpg

from adkpg.database.replicas.horizon import History, Horizon
from adkpg.database.replicas.known import Floor, Known, Need
from adkpg.database.replicas.source import Source
from adkpg.database.replicas.statements import STANDING, identify
from adkpg.errors import AdkpgError, Busy, InvalidInput, SchemaError, ScopeMissing
from adkpg.outages.breaker import Breaker
from adkpg.sql import NoParameters, ParametersT, Statement
from adkpg.telemetry import calls

logger = logging.getLogger(__name__)

T = TypeVar("T")

OWN_WRITE_S = 0.05
"""For so long after one's own write the primary is asked straight away.

A standby shows a write some milliseconds later: before, asking it is a round trip for nothing.
"""

_LEAST_PAUSE_S = 0.05  # between two looks at where both servers stand
_LONGEST_LOOK_S = 1.0
_PRIMARY_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_NOTHING: NoParameters = {}


class Reachable(Protocol):
    """What is asked of a `Database` here."""

    @property
    def url(self) -> str:
        """Without password."""

    @property
    def place(self) -> dict[str, str | int]:
        """In the attributes of spans."""

    async def ask(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        standing: tuple[str, list[object]] | None = None,
        scoped: bool = True,
        timeout_s: float | None = None,
    ) -> list[asyncpg.Record]:
        """Runs a statement, a second time if its connection was lost."""

    async def ask_together(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Does work in one transaction, a second time if its connection was lost."""


class NotHere(Exception):
    """A standby cannot answer this read.

    Attributes:
      reason: In a word, for the metric.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Replica:
    """The standby of a `Database`, or several behind one address.

    Bound to no event loop; threads may share it.

    Args:
      primary: The Database.
      standby: One that leads to the standby, with pools of its own.
      lag_s: How much older than the primary an answer may be, in seconds.
      timeout_s: How long the standby may take for an answer before the primary is asked.
      known: What this process has written and seen.
    """

    def __init__(
        self,
        primary: Reachable,
        standby: Reachable,
        *,
        lag_s: float,
        timeout_s: float,
        known: Known | None = None,
    ) -> None:
        self.known = known or Known()
        self.standby = standby
        self._primary = primary
        self._lag_s = lag_s
        self._timeout_s = timeout_s
        self._horizon = Horizon()
        self._breaker = Breaker(longest_pause_s=_LONGEST_PAUSE_S)
        self._lock = threading.Lock()
        self._looked_at = -math.inf
        self._refused = False  # an answer, since it was looked: another server may answer now
        self._primary_away_until = -math.inf
        self._primary_server: float | None = None
        self._apart: tuple[float, History] | None = None
        self._said: str | None = None  # why it is left alone, if it has not answered since

    async def read(self, work: Callable[[Source], Awaitable[T]], need: Need) -> T:
        """Does work that only reads, on the standby.

        Raises:
          NotHere: It cannot be done there; the primary is to be asked.
        """
        permit = self._breaker.admit(self._timeout_s)
        if permit is None:
            raise NotHere("away")
        try:
            await self._require(need, permit)
            result = await work(Asking(self, need, permit))
        except BaseException as exc:
            if not (isinstance(exc, NotHere) and exc.reason == "away"):
                self._breaker.withdrawn(permit)  # it has not failed
            raise
        self._breaker.answered()
        if self._said is not None:
            self._said = None
            logger.info("Reads are answered at %s again.", self.standby.url)
        calls.answered_by(self.standby.place)
        return result

    def wrote(
        self,
        parameters: Mapping[str, Any],
        rows: list[asyncpg.Record] | None,
        note: Callable[[Known, Any, list[asyncpg.Record]], None] | None,
    ) -> None:
        """Notes what a statement on the primary has changed, or may have.

        Args:
          parameters: Its own.
          rows: What it returned; None if nobody knows.
          note: Notes it more exactly than by the scopes in the parameters.
        """
        if note is None or rows is None:
            self.known.wrote(parameters)
        else:
            note(self.known, parameters, rows)

    async def _require(self, need: Need, permit: int) -> None:
        """Looks where both servers stand, if that is not known well enough.

        Raises:
          NotHere: The standby lags behind what is needed or allowed.
        """
        now = self.known.now()
        if now - need.written_at < OWN_WRITE_S:
            raise NotHere("own_write")
        reached = self._horizon.reached()
        fit = self._any_fit(need, reached, now)
        if not fit and any(now - moment.at < OWN_WRITE_S for moment in need.moments):
            raise NotHere("own_write")
        late = now - max(reached.values(), default=-math.inf) > self._lag_s / 2
        if (late or self._refused or not fit) and self._may_look(now):
            await self._look(now, permit)
            fit = self._any_fit(need, self._horizon.reached(), self.known.now())
        if not fit:
            raise NotHere("behind")

    def _any_fit(self, need: Need, reached: Mapping[float, float], now: float) -> bool:
        return any(self.fit(need, server, reached, now) for server in reached)

    def fit(self, need: Need, server: float, reached: Mapping[float, float], now: float) -> bool:
        """Whether a standby shows what is needed, and lags no more than is allowed.

        While the primary does not say where it stands nobody knows how much it lags; then a
        session is read that is not older than what was written and seen of it.
        """
        at = reached.get(server, -math.inf)
        late = now - at > self._lag_s and not (need.of_session and now < self._primary_away_until)
        return at > -math.inf and not late and need.shown_by(server, reached)

    def _may_look(self, now: float) -> bool:
        with self._lock:
            if now < self._looked_at + _LEAST_PAUSE_S or now < self._primary_away_until:
                return False
            self._looked_at, self._refused = now, False
            return True

    async def _look(self, now: float, permit: int) -> None:
        """Asks the primary where its log ends, and then the standby how far it is."""
        try:
            async with asyncio.timeout(min(_LONGEST_LOOK_S, self._timeout_s)):
                primary = (await self._primary.ask(identify(), _NOTHING, scoped=False))[0]
        except (AdkpgError, TimeoutError) as exc:
            logger.debug("The primary does not say where it stands: %s", exc)
            self._primary_away_until = self.known.now() + _PRIMARY_PAUSE_S
            return
        self._primary_server = primary["server"]
        history = _history_of(primary)
        if primary["position"] is not None:
            self._horizon.primary_at(now, primary["position"], history)
        try:
            async with asyncio.timeout(2 * self._timeout_s):
                found = (
                    await self.standby.ask(
                        identify(), _NOTHING, scoped=False, timeout_s=self._timeout_s
                    )
                )[0]
        except (AdkpgError, TimeoutError) as exc:
            raise self.refused(exc, permit) from exc
        theirs = _history_of(found)
        if theirs._replace(timeline=history.timeline) != history:
            raise self.gone(
                f"{self.standby.url} is another database than {self._primary.url}; correct "
                "ADKPG_READ_URL.",
                permit,
            )
        if not self._horizon.met(found["server"], theirs):
            self._say_apart(found["server"], history, theirs)
            raise NotHere("behind")
        self.heard(found["server"], found["position"], standby=found["standby"])

    def _say_apart(self, server: float, history: History, theirs: History) -> None:
        """Says once of a server that it does not follow the primary, or has not said so yet."""
        if self._apart != (server, history):
            self._apart = (server, history)
            logger.warning(
                "The primary answers reads that a server at %s might: that one is on timeline %d, "
                "and the primary on %d. After a failover it says so within checkpoint_timeout; if "
                "it does not, it follows another primary: rewind it, or make it anew.",
                self.standby.url,
                theirs.timeline,
                history.timeline,
            )

    def heard(self, server: float, position: int | None, *, standby: bool) -> None:
        """Notes how far a standby is.

        Raises:
          NotHere: It is none any more, and not the primary either.
        """
        if not standby and server != self._primary_server:
            # One that was promoted: until the primary's address leads to it, it is not believed.
            raise self.doubted()
        if position is not None:
            self._horizon.replayed(server, position)

    def doubted(self) -> NotHere:
        """Has it looked at again, since another server than before may answer."""
        self._refused = True
        return NotHere("behind")

    def refused(self, exc: BaseException, permit: int) -> NotHere:
        """Returns what a failure of the standby means, and leaves it alone for a while."""
        if isinstance(exc, (ScopeMissing, InvalidInput)):  # the caller's
            return NotHere("refused")
        if isinstance(exc, Busy):
            return NotHere("conflict")
        said = str(exc)
        if isinstance(exc, TimeoutError) or isinstance(exc.__cause__, TimeoutError):
            said = f"{self.standby.url} did not answer within {self._timeout_s:g} s."
        elif isinstance(exc, SchemaError):  # whose own cure is for a primary
            said = (
                f"{self.standby.url} has no tables that this version can read; migrate the primary "
                "and wait for replay, or correct ADKPG_READ_URL."
            )
        return self.gone(said, permit)

    def gone(self, cause: str, permit: int) -> NotHere:
        """Leaves the standby alone for a while; says so once of each cause, until it answers."""
        self._breaker.failed(permit, cause)
        if self._breaker.news("reads") and cause != self._said:
            self._said = cause
            logger.warning("The primary answers reads, too, for a while: %s", cause)
        return NotHere("away")

    def reached(self) -> dict[float, float]:
        """Returns for each standby the moment up to which it has all."""
        return dict(self._horizon.reached())

    @property
    def timeout_s(self) -> float:
        """How long the standby may take for an answer."""
        return self._timeout_s


class Asking:
    """One read on a standby: each of its answers must be new enough."""

    def __init__(self, replica: Replica, need: Need, permit: int) -> None:
        self._replica = replica
        self._need = need
        self._permit = permit

    async def fetch(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
    ) -> list[asyncpg.Record]:
        """Runs one statement, which says where the server stands.

        Raises:
          NotHere: The answer is too old, or there is none.
        """
        replica = self._replica
        limit_s = min(replica.timeout_s, timeout_s or math.inf)
        asked_at, reached = replica.known.now(), replica.reached()
        try:
            async with asyncio.timeout(2 * limit_s):  # connecting may take as long
                answer = await replica.standby.ask(
                    statement, parameters, standing=(STANDING, self.floor), timeout_s=limit_s
                )
        except (AdkpgError, TimeoutError) as exc:
            raise replica.refused(exc, self._permit) from exc
        return self.accepted(statement, parameters, answer, reached, asked_at)

    async def fetch_one(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
    ) -> asyncpg.Record | None:
        """Runs one statement like `fetch` and returns its first row, or None."""
        rows = await self.fetch(statement, parameters, timeout_s=timeout_s)
        return rows[0] if rows else None

    async def transact(self, work: Callable[[Any], Awaitable[Any]], *, races: bool = True) -> Any:
        """Does work in one transaction on the standby.

        Raises:
          NotHere: An answer is too old, or there is none.
        """
        replica = self._replica
        asked_at, reached = replica.known.now(), replica.reached()
        try:
            async with asyncio.timeout(2 * replica.timeout_s):
                return await replica.standby.ask_together(
                    lambda transaction: work(_Reading(transaction, self, reached, asked_at))
                )
        except (AdkpgError, TimeoutError) as exc:
            raise replica.refused(exc, self._permit) from exc

    @property
    def floor(self) -> list[object]:
        """The arguments of `STANDING`."""
        place, floor = self._need.place, self._need.floor
        if place is None or floor is None:
            return [None] * 6
        return [*place, *floor]

    def accepted(
        self,
        statement: Statement[Any],
        parameters: Any,
        answer: list[asyncpg.Record],
        reached: Mapping[float, float],
        asked_at: float,
    ) -> list[asyncpg.Record]:
        """Returns the rows of an answer.

        Args:
          statement: What was asked.
          parameters: Its own.
          answer: Each row with the columns of `STANDING` in front.
          reached: By server, as it was known before it was asked: a statement looks at the tables
            first, and at where the server stands afterwards.
          asked_at: When it was asked.

        Raises:
          NotHere: They are too old.
        """
        need, server, known = self._need, answer[0]["adkpg_server"], self._replica.known
        self._replica.heard(server, answer[0]["adkpg_position"], standby=answer[0]["adkpg_standby"])
        if not answer[0]["fits"]:
            raise NotHere("behind")
        if not self._replica.fit(need, server, reached, asked_at):
            raise self._replica.doubted()
        rows = answer if answer[0]["adkpg_row"] else []
        if need.place is not None and tells_session(statement):
            row = rows[0] if rows else None
            if row is not None and not need.states_shown(row, server, reached):
                raise NotHere("behind")
            known.saw_session(need.place, row, asked_at=need.known_at, server=server)
            if row is not None:
                # What is read next of it may come from another standby, which must have it all.
                self._need = replace(need, floor=Floor.of(row))
        else:
            note_seen(
                known, need, statement, parameters, rows, asked_at=need.known_at, server=server
            )
        return rows


class _Reading:
    """The statements of one transaction on a standby."""

    def __init__(
        self, transaction: Any, asking: Asking, reached: Mapping[float, float], asked_at: float
    ) -> None:
        self._transaction = transaction
        self._asking = asking
        self._reached = reached
        self._asked_at = asked_at

    async def fetch(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
    ) -> list[asyncpg.Record]:
        """Runs one statement within the transaction and returns its rows."""
        answer: list[asyncpg.Record] = await self._transaction.fetch(
            statement, parameters, timeout_s=timeout_s, standing=(STANDING, self._asking.floor)
        )
        return self._asking.accepted(statement, parameters, answer, self._reached, self._asked_at)


class Learning:
    """One read of sessions on the primary, whose answers are noted.

    Args:
      primary: The Database.
      known: What this process has written and seen.
      need: Of the read.
    """

    def __init__(self, primary: Source, known: Known, need: Need) -> None:
        self._primary = primary
        self._known = known
        self._need = need

    async def fetch(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
    ) -> list[asyncpg.Record]:
        """Runs one statement and returns its rows."""
        known, need, asked_at = self._known, self._need, self._known.now()
        rows = await self._primary.fetch(statement, parameters, timeout_s=timeout_s)
        if need.place is not None and tells_session(statement):
            row = rows[0] if rows else None
            known.saw_session(need.place, row, asked_at=asked_at, server=None)
        else:
            note_seen(known, need, statement, parameters, rows, asked_at=asked_at, server=None)
        return rows

    async def fetch_one(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
    ) -> asyncpg.Record | None:
        """Runs one statement like `fetch` and returns its first row, or None."""
        rows = await self.fetch(statement, parameters, timeout_s=timeout_s)
        return rows[0] if rows else None

    async def transact(self, work: Callable[[Any], Awaitable[T]], *, races: bool = True) -> T:
        """Does work in one transaction."""
        return await self._primary.transact(work, races=races)


def note_seen(
    known: Known,
    need: Need,
    statement: Statement[ParametersT],
    parameters: ParametersT,
    rows: list[asyncpg.Record],
    *,
    asked_at: float,
    server: float | None,
) -> None:
    """Notes the rows of a read of sessions that does not tell a revision.

    What belongs to a session's row that was read before adds nothing to it.
    """
    if need.scope is None or "incarnation" in statement.names:
        return
    question = hash((id(statement), repr(statement.arguments(parameters))))
    answer = hash(repr([tuple(row) for row in rows]))
    known.saw(need.scope, question, answer, asked_at=asked_at, server=server)


def _history_of(found: asyncpg.Record) -> History:
    return History(found["cluster"], found["database"], found["timeline"])


def tells_session(statement: Statement[Any]) -> bool:
    """Whether a row is a session with its states."""
    return {"incarnation", "revision", "revision_token", "app_state"} <= statement.columns.keys()
