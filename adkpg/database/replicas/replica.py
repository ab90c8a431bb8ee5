"""Replica: answers reads on a standby where it may, and says where it may not."""

import asyncio
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import asyncpg

from adkpg.database.attempts import CALL, GLANCE, GLANCE_APART, Attempt, Policy
from adkpg.database.connections import Connections
from adkpg.database.replicas.horizon import History, Horizon, Standing, reached_by
from adkpg.database.replicas.known import Floor, Gone, Known, Need, went_back
from adkpg.database.replicas.source import Source
from adkpg.database.replicas.statements import STANDING, identify
from adkpg.errors import (
    AdkpgError,
    Busy,
    InvalidInput,
    RetryableError,
    SchemaError,
    ScopeMissing,
)
from adkpg.outages.breaker import Breaker
from adkpg.outages.silence import Silence
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
_PRIMARY_PAUSE_S = 1.0  # between two looks for a primary that is away
_AWAY_S = _PRIMARY_PAUSE_S + _LONGEST_LOOK_S + 1.0  # for so long it counts as away after a look
_LONGEST_PAUSE_S = 30.0
_LONGEST_PROBE_S = 1.0  # of a read that asks a standby again after it failed
_RENEWAL_S = 30.0  # between two searches for a standby, where the primary answers in its place
_FIRST_WAIT_S = 0.005  # for a commit that a standby has shown; each wait is twice the one before
_LONGEST_WAIT_S = 0.2
_LOSING_S = 60.0  # for so long after a loss nobody waits for what may be lost, too
_TOO_MANY_CONNECTIONS = "53300"
_NOTHING: NoParameters = {}


Note = Callable[[Known, Any, list[asyncpg.Record]], None]
"""Notes what a statement has changed, by its parameters and its rows."""


class Runs(Protocol):
    """What is asked of a `Runner` here."""

    connections: Connections

    async def fetch(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
        policy: Policy = CALL,
        standing: tuple[str, list[object]] | None = None,
        attempt: Attempt | None = None,
    ) -> list[asyncpg.Record]:
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


class _Look:
    """A look at where both servers stand, which all who need it wait for.

    Args:
      looking: Looks; it ends when all who waited for it were cancelled.
    """

    def __init__(self, looking: Coroutine[Any, Any, None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(looking)
        self._task.add_done_callback(_heard)
        self._waiting, self._ending = 0, False

    @property
    def goes_on(self) -> bool:
        """Whether it may still bring something."""
        return not self._ending and not self._task.done() and self._loop.is_running()

    @property
    def is_here(self) -> bool:
        """Whether it is of the running event loop, in which alone it can be waited for."""
        return self._loop is asyncio.get_running_loop()

    async def seen(self) -> None:
        """Returns when it is over.

        Raises:
          NotHere: The standby cannot be read.
        """
        self._waiting += 1
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if self._task.cancelled() and own is not None and not own.cancelling():
                raise NotHere("behind") from None  # it was ended, and nobody cancelled this caller
            raise
        finally:
            self._waiting -= 1
            if not self._waiting:
                await self.end()

    async def end(self) -> None:
        """Ends it, wherever its event loop runs."""
        self._ending = True
        if self.is_here:
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task})
        elif self._loop.is_running():
            self._loop.call_soon_threadsafe(self._task.cancel)


def _heard(task: asyncio.Task[None]) -> None:
    """Hears what a look ended with, so that asyncio says nothing where nobody waited for it."""
    if not task.cancelled():
        task.exception()


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
        primary: Runs,
        standby: Runs,
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
        self._primary_away_at = -math.inf  # when a look found it away last
        self._primary_server: float | None = None
        self._primary_silence, self._silence = Silence(), Silence()
        self._renewed_at = self.known.now()
        self._look: _Look | None = None  # the last one
        self._apart: tuple[float, History] | None = None
        self._said: str | None = None  # why it is left alone, if it has not answered since

    async def read(self, work: Callable[[Source], Awaitable[T]], need: Need) -> T:
        """Does work that only reads, on the standby.

        Raises:
          NotHere: It cannot be done there; the primary is to be asked.
        """
        permit = self._breaker.admit(self.timeout_s)
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
            logger.info("Reads are answered at %s again.", self.standby.connections.url)
        calls.answered_by(self.standby.connections.place)
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
        standings = self._horizon.standings()
        fit = self._any_fit(need, standings, now)
        if not fit and any(now - moment.written_at < OWN_WRITE_S for moment in need.moments):
            raise NotHere("own_write")
        committed_at = max((each.committed_at for each in standings.values()), default=-math.inf)
        if now - committed_at > self._lag_s / 2 or self._refused or not fit:
            begun, look = self._begun_look(now, permit)
            # Whoever may be answered does not wait for a primary that is away.
            if look is not None and (begun or not fit) and not self._is_primary_away(now):
                await look.seen()
                fit = self._any_fit(need, self._horizon.standings(), self.known.now())
        if not fit:
            raise NotHere("behind")

    def _any_fit(self, need: Need, standings: Mapping[float, Standing], now: float) -> bool:
        return any(self.fit(need, server, standings, now) for server in standings)

    def fit(
        self, need: Need, server: float, standings: Mapping[float, Standing], now: float
    ) -> bool:
        """Whether a standby shows what is needed, and lags no more than is allowed.

        While the primary does not say where it stands nobody knows how much it lags; then a
        session is read that is not older than what was written and seen of it.
        """
        standing = standings.get(server, Standing())
        late = now - standing.committed_at > self._lag_s
        if late and not (need.of_session and self._is_primary_away(now)):
            return False
        return standing.at > -math.inf and need.shown_by(server, reached_by(standings))

    def _is_primary_away(self, now: float) -> bool:
        return now - self._primary_away_at < _AWAY_S

    def _begun_look(self, now: float, permit: int) -> tuple[bool, _Look | None]:
        """Returns whether a look was begun, and that or the one that goes on in this event loop.

        None is begun while one goes on, in whatever loop, or was a moment ago.
        """
        pause_s = _PRIMARY_PAUSE_S if self._is_primary_away(now) else _LEAST_PAUSE_S
        with self._lock:
            look = self._look
            if look is not None and look.goes_on:
                return False, look if look.is_here else None
            self._look = None
            if now < self._looked_at + pause_s:
                return False, None
            self._looked_at, self._refused = now, False
            self._look = _Look(self._looking(now, permit))
            return True, self._look

    async def close(self) -> None:
        """Ends the look that goes on; idempotent."""
        look, self._look = self._look, None
        if look is not None:
            await look.end()

    async def _looking(self, now: float, permit: int) -> None:
        """Asks the primary where its log ends, and then the standby how far it is."""
        primary = await self._stand_of_primary(permit)
        if primary is None:
            return
        history = _history_of(primary)
        self._horizon.follow(history)
        before, attempt = self._horizon.standings(), Attempt()
        with self.asking(permit, attempt):
            async with asyncio.timeout(2 * self.timeout_s):
                answer = await self.standby.fetch(
                    identify(),
                    _NOTHING,
                    policy=GLANCE,
                    timeout_s=self.timeout_s,
                    attempt=attempt,
                )
        found = answer[0]
        theirs, number = _history_of(found), self._horizon.number(found["server"])
        if theirs._replace(timeline=history.timeline) != history:
            raise self.gone(
                f"{self.standby.connections.url} is another database than "
                f"{self._primary.connections.url}; correct ADKPG_READ_URL.",
                permit,
            )
        if found["standby"] and theirs == history:
            await self._require_ahead(primary, found["position"], number, permit)
        elif not found["standby"] and now > self._renewed_at + _RENEWAL_S:
            self._renewed_at = now
            self.standby.connections.renew()
        self._primary_server = primary["server"]
        if primary["position"] is not None:
            self._horizon.primary_at(
                now,
                primary["position"],
                history,
                flushed=primary["flushed"],
                flush_delay_s=primary["flush_delay_s"],
            )
        if not self._horizon.met(number, theirs):
            self._say_apart(found["server"], history, theirs)
            raise NotHere("behind")
        self.heard(found["server"], found["position"], standby=found["standby"], before=before)

    async def _stand_of_primary(self, permit: int) -> asyncpg.Record | None:
        """Returns where the primary stands; None if it does not say so.

        Raises:
          NotHere: It will never say so.
        """
        began, attempt = self.known.now(), Attempt()
        used, idle, most = self._primary.connections.use()
        try:
            async with asyncio.timeout(_LONGEST_LOOK_S):
                if most and used >= most and not idle:
                    # It is not away because this process keeps all of its own connections busy.
                    found = await self._primary.fetch(identify(), _NOTHING, policy=GLANCE_APART)
                else:
                    found = await self._primary.fetch(
                        identify(), _NOTHING, policy=GLANCE, attempt=attempt
                    )
        except (RetryableError, TimeoutError) as exc:
            logger.debug("The primary does not say where it stands: %s", exc)
            refused = getattr(exc.__cause__, "sqlstate", None) == _TOO_MANY_CONNECTIONS
            waited = attempt.waited_for_pool(self.known.now(), _LONGEST_LOOK_S / 2)
            if not (isinstance(exc, Busy) or refused or waited):
                self._primary_away_at = self.known.now()
            return None
        except AdkpgError as exc:
            raise self.gone(str(exc), permit) from exc
        except asyncio.CancelledError:
            now = self.known.now()
            if not attempt.queued and self._primary_silence.lasted(
                max(began, attempt.borrowed_at), now
            ):
                self._primary_away_at = now
            raise
        self._primary_silence.broken(self.known.now())
        self._primary_away_at = -math.inf
        return found[0]

    async def _require_ahead(
        self, primary: asyncpg.Record, position: int | None, number: float, permit: int
    ) -> None:
        """Requires that a standby has replayed nothing that its primary has not written.

        Raises:
          NotHere: It has; or the primary does not say so any more.
        """
        if primary["standby"] or position is None or position <= primary["position"]:
            return
        again = await self._stand_of_primary(permit)
        if again is None or (again["server"], again["standby"]) != (primary["server"], False):
            raise NotHere("behind")
        if position > again["position"]:
            self._horizon.forget(number)
            raise self.gone(
                f"{self.standby.connections.url} has replayed what "
                f"{self._primary.connections.url} has not written: the "
                "primary was set back, as by a snapshot of its disk; make the standby anew.",
                permit,
            )

    def _say_apart(self, server: float, history: History, theirs: History) -> None:
        """Says once of a server that it does not follow the primary, or has not said so yet."""
        if self._apart != (server, history):
            self._apart = (server, history)
            logger.warning(
                "The primary answers reads that a server at %s might: that one is on timeline %d, "
                "and the primary on %d. After a failover it says so within checkpoint_timeout; if "
                "it does not, it follows another primary: rewind it, or make it anew.",
                self.standby.connections.url,
                theirs.timeline,
                history.timeline,
            )

    def heard(
        self,
        server: float,
        position: int | None,
        *,
        standby: bool,
        before: Mapping[float, Standing],
    ) -> float:
        """Notes how far a server is, and returns the number by which it is known.

        Args:
          server: Its own number.
          position: How far it is.
          standby: Whether it is one.
          before: How far servers were known to be when it was asked.

        Raises:
          NotHere: It is none any more, and not the primary either; or it has lost what it showed.
        """
        self._silence.broken(self.known.now())
        if not standby and server != self._primary_server:
            # One that was promoted: until the primary's address leads to it, it is not believed.
            raise self.doubted()
        number = self._horizon.number(server)
        if position is not None:
            if position < before.get(number, Standing()).position:
                self._horizon.fell_back(server)
                raise self.doubted()
            self._horizon.replayed(number, position)
        return number

    def doubted(self) -> NotHere:
        """Has it looked at again, since another server than before may answer."""
        self._refused = True
        return NotHere("behind")

    @contextmanager
    def asking(self, permit: int, attempt: Attempt) -> Iterator[None]:
        """Says what it means if the standby does not answer.

        Args:
          permit: Of the read.
          attempt: What the standby is asked with.

        Raises:
          NotHere: It did not.
        """
        began = self.known.now()
        try:
            yield
        except (AdkpgError, TimeoutError) as exc:
            waited = isinstance(exc, (Busy, TimeoutError)) and attempt.waited_for_pool(
                self.known.now(), self.timeout_s
            )
            if waited:
                raise NotHere("busy") from exc
            raise self.refused(exc, permit) from exc
        except asyncio.CancelledError:
            # Who waits for less than the standby may take would never find out.
            since = max(began, attempt.borrowed_at)
            if not attempt.queued and self._silence.lasted(since, self.known.now()):
                self.gone(
                    f"{self.standby.connections.url} did not answer before its callers gave up.",
                    permit,
                )
            raise

    def refused(self, exc: BaseException, permit: int) -> NotHere:
        """Returns what a failure of the standby means, and leaves it alone for a while."""
        of_server = exc.__cause__ is not None  # whose role is held back by policies
        if isinstance(exc, InvalidInput) or (isinstance(exc, ScopeMissing) and not of_server):
            return NotHere("refused")  # the caller's
        if isinstance(exc, Busy):
            return NotHere("conflict")
        said = str(exc)
        if isinstance(exc, TimeoutError) or isinstance(exc.__cause__, TimeoutError):
            said = f"{self.standby.connections.url} did not answer in time."
        elif isinstance(exc, SchemaError):  # whose own cure is for a primary
            said = (
                f"{self.standby.connections.url} has no tables that this version can read; "
                "migrate the primary "
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

    def standings(self) -> Mapping[float, Standing]:
        """Returns how far each standby is."""
        return self._horizon.standings()

    @property
    def timeout_s(self) -> float:
        """How long the standby may take for an answer; after a failure, for the next one."""
        return min(self._timeout_s, _LONGEST_PROBE_S) if self._said else self._timeout_s


@dataclass(frozen=True, slots=True)
class Asked:
    """What was known of servers when one was asked.

    Attributes:
      at: When that was, in monotonic seconds.
      standings: By server, how far it was heard to be.
    """

    at: float
    standings: Mapping[float, Standing]

    @classmethod
    def now(cls, replica: Replica) -> "Asked":
        """Returns what is known now."""
        return cls(replica.known.now(), replica.standings())


class Asking(Source):
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
        asked, attempt = Asked.now(replica), Attempt()
        with replica.asking(self._permit, attempt):
            async with asyncio.timeout(2 * limit_s):  # connecting may take as long
                answer = await replica.standby.fetch(
                    statement,
                    parameters,
                    standing=(STANDING, self.floor),
                    timeout_s=limit_s,
                    attempt=attempt,
                )
        return self.accepted(statement, parameters, answer, asked)

    async def transact(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        """Does work in one transaction on the standby.

        Raises:
          NotHere: An answer is too old, or there is none.
        """
        replica = self._replica
        asked, attempt = Asked.now(replica), Attempt()
        with replica.asking(self._permit, attempt):
            async with asyncio.timeout(2 * replica.timeout_s):
                return await replica.standby.transact(
                    lambda transaction: work(_Reading(transaction, self, asked)), attempt=attempt
                )

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
        asked: Asked,
    ) -> list[asyncpg.Record]:
        """Returns the rows of an answer.

        Args:
          statement: What was asked.
          parameters: Its own.
          answer: Each row with the columns of `STANDING` in front.
          asked: What was known before: a statement looks at the tables first, and at where the
            server stands afterwards.

        Raises:
          NotHere: They are too old.
        """
        need, known, reached = self._need, self._replica.known, reached_by(asked.standings)
        server = self._replica.heard(
            answer[0]["adkpg_server"],
            answer[0]["adkpg_position"],
            standby=answer[0]["adkpg_standby"],
            before=asked.standings,
        )
        if not answer[0]["fits"]:
            raise NotHere("behind")
        if not self._replica.fit(need, server, asked.standings, asked.at):
            raise self._replica.doubted()
        rows = answer if answer[0]["adkpg_row"] else []
        if need.place is not None and tells_session(statement):
            if not rows:  # another process may have made it a moment ago, and told its id
                raise NotHere("behind")
            row, gone = rows[0], gone_from(parameters, rows[0])
            if not need.states_shown(row, server, reached):
                raise NotHere("behind")
            if gone is not None and gone.events < need.gone:
                raise NotHere("behind")
            known.saw_session(need.place, row, asked_at=need.known_at, server=server, gone=gone)
            # What is read next of it may come from another standby, which must have it all.
            self._need = replace(need, floor=Floor.of(row))
        else:
            note_seen(
                known, need, statement, parameters, rows, asked_at=need.known_at, server=server
            )
        return rows


class _Reading:
    """The statements of one transaction on a standby."""

    def __init__(self, transaction: Any, asking: Asking, asked: Asked) -> None:
        self._transaction = transaction
        self._asking = asking
        self._asked = asked

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
        return self._asking.accepted(statement, parameters, answer, self._asked)


class Learning(Source):
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
            pause_s = _FIRST_WAIT_S
            while pause_s < _LONGEST_WAIT_S and self._hides(rows):
                await asyncio.sleep(pause_s)
                pause_s *= 2
                asked_at = known.now()
                rows = await self._primary.fetch(statement, parameters, timeout_s=timeout_s)
            row = rows[0] if rows else None
            gone = None if row is None else gone_from(parameters, row)
            known.saw_session(need.place, row, asked_at=asked_at, server=None, gone=gone)
        else:
            note_seen(known, need, statement, parameters, rows, asked_at=asked_at, server=None)
        return rows

    def _hides(self, rows: list[asyncpg.Record]) -> bool:
        """Whether the primary lacks of a session what a standby has shown.

        It may be committing that, and wait for a synchronous standby; or a failover lost it.
        """
        if not (rows and self._need.shown):
            return False
        losing = self._known.now() - self._known.went_back_at < _LOSING_S
        return not losing and went_back(self._need.floor, Floor.of(rows[0]))

    async def transact(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Does work in one transaction."""
        return await self._primary.transact(work)


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
    answer = hash(repr([tuple(row.values()) for row in rows]))
    known.saw(need.scope, question, answer, asked_at=asked_at, server=server)


def _history_of(found: asyncpg.Record) -> History:
    return History(found["cluster"], found["database"], found["timeline"])


def gone_from(parameters: Mapping[str, Any], row: Mapping[str, Any]) -> Gone | None:
    """Returns how many events a session's row is without; None if it was read without them."""
    told = row.get("payloads")
    told = row.get("outlines") if told is None else told
    if told is None:
        return None
    limit, next_seq = parameters.get("limit"), row.get("next_seq")
    count = len(told) + (parameters["count"] if row.get("had") else 0)
    unlimited = limit is None or (next_seq is None and count < limit)
    filtered = parameters.get("after") is not None
    last = row["revision"] if next_seq is None else next_seq - 1
    return Gone(last - count, unlimited and not filtered, unlimited and filtered)


def tells_session(statement: Statement[Any]) -> bool:
    """Whether a row is a session with its states."""
    return {"incarnation", "revision", "revision_token", "app_state"} <= statement.columns.keys()
