"""Replica: answers reads on a standby where it may, and on the primary where it may not."""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from adkpg.database.attempts import Attempt
from adkpg.database.replicas.horizon import Standing
from adkpg.database.replicas.looks import Looks
from adkpg.database.replicas.seen import Need, Revision, Seen, Subject, Told
from adkpg.database.replicas.source import Source
from adkpg.database.replicas.standby import NotHere, Runs, Standby
from adkpg.database.replicas.statements import STANDING
from adkpg.errors import RetryableError
from adkpg.queries import Query, RowT
from adkpg.telemetry import calls

T = TypeVar("T")

_REPLAY_S = 0.02  # a standby takes less as a rule, until it shows a commit
_FIRST_WAIT_S = 0.005  # for a commit that a standby has shown; each wait is twice the one before
_LONGEST_WAIT_S = 0.2
_LOSING_S = 60.0  # for so long after a loss no read waits for what may be lost, too
_SESSION = {"incarnation", "revision", "revision_token"}
_VERSIONS = ("app_state_version", "user_state_version")
_INCARNATIONS = {"incarnation", "found_incarnation"}
_STAMPS = (
    *("incarnation", "revision", "revision_token", "next_seq", "seq", "went_back"),
    *("found_incarnation", "found_revision", "found_token"),
)


class Replica:
    """The standby of a `Database`, or several behind one address.

    Bound to no event loop; threads may share it.

    Args:
      primary: Runs statements on the primary.
      standby: Runs statements on the standby, with pools of its own.
      lag_s: How much older than the primary an answer may be, in seconds.
      timeout_s: How long the standby may take for an answer before the primary is asked.

    Attributes:
      seen: What this process has written and seen.
      standby: What is known of the standby.
    """

    def __init__(self, primary: Runs, standby: Runs, *, lag_s: float, timeout_s: float) -> None:
        self.seen = Seen()
        self.standby = Standby(standby, timeout_s)
        self._primary = primary
        self._lag_s = lag_s
        self._wanted_at = -math.inf
        self._looks = Looks(primary, self.standby, self.seen, self._interrupt)
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Timeout, tuple[asyncio.AbstractEventLoop, Need]] = {}

    async def answer(
        self, work: Callable[[Source], Awaitable[T]], subject: Subject, *, primary: bool = False
    ) -> T:
        """Does work that only reads: on the standby where it may, and else on the primary.

        If the primary cannot be reached, the standby is asked once more.

        Args:
          work: Given what fetches; it may be done several times.
          subject: What it reads.
          primary: Whether the standby is not asked.

        Raises:
          DatabaseError: The primary refused a statement.
        """
        if primary:
            return await work(Learning(self, self.seen.need(subject)))
        try:
            return await self.read(work, self.seen.need(subject))
        except NotHere as exc:
            calls.fell_back(exc.reason)
        need = self.seen.need(subject)
        learning = Learning(self, need, waits_for_looks=True)
        failure: RetryableError | None = None
        try:
            async with self._interruptible(need):
                return await work(learning)
        except NotHere:
            pass
        except RetryableError as exc:
            self._looks.primary_failed(exc)
            if not self._looks.primary_is_away:
                raise
            failure = exc
        try:
            return await self.read(work, self.seen.need(subject))
        except NotHere as exc:
            calls.fell_back(exc.reason)
        if failure is not None:
            raise failure
        return await work(learning)

    async def read(self, work: Callable[[Source], Awaitable[T]], need: Need) -> T:
        """Does work that only reads, on the standby.

        Raises:
          NotHere: It cannot be done there; the primary is to be asked.
        """
        self._wanted_at = self.seen.now()
        health = self.standby.health
        permit = health.admit(self.standby.timeout_s)
        if permit is None:
            raise NotHere("away")
        try:
            self._require(need)
            result = await work(Asking(self, need, permit))
        except BaseException as exc:
            if not (isinstance(exc, NotHere) and exc.reason == "away"):
                health.withdrawn(permit)  # it has not failed
            raise
        self.standby.answered()
        calls.answered_by(self.standby.runner.connections.place)
        return result

    def wrote(self, parameters: Mapping[str, Any]) -> None:
        """Notes what a statement on the primary has changed, or may have.

        While reads want the standby it is looked at once it may have replayed that.
        """
        self.seen.wrote(parameters)
        if self.seen.now() - self._wanted_at < self._lag_s:
            self._looks.want(pause_s=_REPLAY_S)

    async def close(self) -> None:
        """Ends the look that is under way; idempotent. None begins before the next read."""
        self._wanted_at = -math.inf
        await self._looks.close()

    def fit(self, need: Need, server: float, standings: Mapping[float, Standing]) -> bool:
        """Whether a standby shows what is needed, and lags no more than is allowed.

        While the primary does not say where it stands its lag is not known; then a session is read
        that is not older than what was written and seen of it.
        """
        standing = standings.get(server, Standing())
        late = self.seen.now() - standing.committed_at > self._lag_s
        if late and (need.subject.memories or not self._looks.primary_is_away):
            return False
        return standing.at > -math.inf and need.met_by(server, standing.at)

    def doubted(self) -> NotHere:
        """Has it looked at again, because another server than before may answer."""
        self._looks.want()
        return NotHere("behind")

    def learned(self, need: Need, told: Told, *, asked_at: float, wants_look: bool) -> None:
        """Notes what the primary told, after which a standby must be looked at again.

        Args:
          need: That of the read.
          told: What it told.
          asked_at: When it was asked.
          wants_look: Whether a standby was to answer.
        """
        news = self.seen.saw(need, told, since=asked_at)
        if news and wants_look:
            self._looks.want()

    @property
    def primary(self) -> Runs:
        """The Database."""
        return self._primary

    def _require(self, need: Need) -> None:
        """Requires that a standby may answer, and has it looked where both servers stand.

        Raises:
          NotHere: They lag behind what is needed or allowed.
        """
        standings = self.standby.horizon.standings()
        if not self._any_fits(need, standings):
            self._looks.want(max(sight.at for sight in need.sights))
            raise NotHere("behind")
        oldest = self.seen.now() - self._lag_s / 2
        if max(each.committed_at for each in standings.values()) < oldest:
            self._looks.want(oldest)

    def _any_fits(self, need: Need, standings: Mapping[float, Standing]) -> bool:
        return any(self.fit(need, server, standings) for server in standings)

    @asynccontextmanager
    async def _interruptible(self, need: Need) -> AsyncIterator[None]:
        """Ends what waits for the primary, once it is found away and a standby may answer.

        Raises:
          NotHere: The primary was not waited for any longer.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as limit:
                with self._lock:
                    self._waiting[limit] = loop, need
                try:
                    yield
                finally:
                    with self._lock:
                        del self._waiting[limit]
        except TimeoutError:
            if not limit.expired():
                raise
            raise NotHere("away") from None

    def _interrupt(self) -> None:
        standings = self.standby.horizon.standings()
        with self._lock:
            waiting = [(limit, *each) for limit, each in self._waiting.items()]
        for limit, loop, need in waiting:
            if self._any_fits(need, standings) and loop.is_running():
                loop.call_soon_threadsafe(self._expire, limit, loop)

    def _expire(self, limit: asyncio.Timeout, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            waits = limit in self._waiting
        if waits:
            limit.reschedule(loop.time())


class Asking(Source):
    """One read on a standby: all of its answers are of one server that may answer it."""

    def __init__(self, replica: Replica, need: Need, permit: int) -> None:
        self._replica = replica
        self._need = need
        self._permit = permit
        self._server: float | None = None  # the one that answered first

    async def fetch(
        self,
        query: Query[RowT],
        *,
        timeout_s: float | None = None,
    ) -> list[RowT]:
        """Runs one statement, which says where the server stands.

        Raises:
          NotHere: The answer is too old, or there is none.
        """
        standby, attempt = self._replica.standby, Attempt()
        limit_s = min(standby.timeout_s, timeout_s or math.inf)
        before = standby.horizon.standings()
        with standby.asking(self._permit, attempt):
            async with asyncio.timeout(2 * limit_s):  # connecting may take as long
                answer = await standby.runner.fetch(
                    query, standing=STANDING, timeout_s=limit_s, attempt=attempt
                )
        return self.accepted(query, answer, before)

    async def transact(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Does work in one transaction on the standby.

        Raises:
          NotHere: An answer is too old, or there is none.
        """
        standby, attempt = self._replica.standby, Attempt()
        before = standby.horizon.standings()
        with standby.asking(self._permit, attempt):
            async with asyncio.timeout(2 * standby.timeout_s):
                return await standby.runner.transact(
                    lambda transaction: work(_Reading(transaction, self, before)), attempt=attempt
                )

    def accepted(
        self,
        query: Query[Any],
        answer: list[asyncpg.Record],
        before: Mapping[float, Standing],
    ) -> list[asyncpg.Record]:
        """Returns the rows of an answer.

        Args:
          query: What was asked.
          answer: Each row with the columns of `STANDING` in front.
          before: How far servers were known to be when one was asked.

        Raises:
          NotHere: They are too old.
        """
        replica, need, first = self._replica, self._need, answer[0]
        try:
            server = replica.standby.heard(
                first["adkpg_server"],
                first["adkpg_position"],
                is_standby=first["adkpg_standby"],
                before=before,
            )
        except NotHere:
            raise replica.doubted() from None
        if self._server not in (None, server) or not replica.fit(need, server, before):
            raise replica.doubted()
        self._server = server
        rows = answer if first["adkpg_row"] else []
        told = told_by(need.subject, query, rows)
        if told is None:
            return rows
        if tells_session(need.subject, query):
            if told.revision is None:  # another process may have made it, and told its id
                raise NotHere("behind")
            if need.revision is not None and not _follows(told.revision, need.revision):
                raise NotHere("behind")
        replica.seen.saw(need, told, since=need.at, server=server, reached_at=before[server].at)
        return rows


class _Reading:
    """The statements of one transaction on a standby."""

    def __init__(self, transaction: Any, asking: Asking, before: Mapping[float, Standing]) -> None:
        self._transaction = transaction
        self._asking = asking
        self._before = before

    async def fetch(
        self,
        query: Query[RowT],
        *,
        timeout_s: float | None = None,
    ) -> list[RowT]:
        """Runs one statement within the transaction and returns its rows."""
        answer: list[asyncpg.Record] = await self._transaction.fetch(
            query, timeout_s=timeout_s, standing=STANDING
        )
        return self._asking.accepted(query, answer, self._before)


class Learning(Source):
    """One read on the primary, whose answers are noted."""

    def __init__(self, replica: Replica, need: Need, *, waits_for_looks: bool = False) -> None:
        self._replica = replica
        self._need = need
        self._wants_look = waits_for_looks

    async def fetch(
        self,
        query: Query[RowT],
        *,
        timeout_s: float | None = None,
    ) -> list[RowT]:
        """Runs one statement and returns its rows."""
        seen, need = self._replica.seen, self._need
        pause_s = _FIRST_WAIT_S
        while True:
            asked_at = seen.now()
            rows = await self._replica.primary.fetch(query, timeout_s=timeout_s)
            told = told_by(need.subject, query, rows)
            if told is None:
                return rows
            if pause_s > _LONGEST_WAIT_S or not self._hides(told):
                break
            await asyncio.sleep(pause_s)
            pause_s *= 2
        self._replica.learned(need, told, asked_at=asked_at, wants_look=self._wants_look)
        return rows

    def _hides(self, told: Told) -> bool:
        """Whether the primary lacks of a session what a standby has shown.

        It may be committing that, and wait for a synchronous standby; or a failover lost it.
        """
        seen, known = self._replica.seen, self._need.revision
        if told.revision is None or known is None or not self._need.shown:
            return False
        return told.revision.lacks(known) and seen.now() - seen.lost_at > _LOSING_S

    async def transact(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Does work in one transaction."""
        return await self._replica.primary.transact(work)


def tells_session(subject: Subject, query: Query[Any]) -> bool:
    """Whether a row of a query is the session that is read, with its states."""
    return (
        subject.session_id is not None and {*_SESSION, *_VERSIONS} <= query.statement.columns.keys()
    )


def told_by(
    subject: Subject,
    query: Query[Any],
    rows: list[asyncpg.Record],
) -> Told | None:
    """Returns what rows tell of what is read; None if they add nothing to an earlier answer."""
    if subject.memories:
        return None
    statement, parameters = query
    telling = tells_session(subject, query)
    if not telling and "incarnation" in statement.names:
        return None  # further events of a session's row that was read before
    if not rows:
        return Told()
    row = rows[0]
    versions = {name: row[name] for name in _VERSIONS if name in statement.columns}
    of_session = "session_id" in statement.names and _INCARNATIONS & statement.columns.keys()
    if len(rows) > 1 or not of_session:
        return Told(versions=versions)
    stamp = tuple(row[name] for name in _STAMPS if name in statement.columns)
    if not telling:
        return Told((id(statement), parameters["session_id"]), stamp, versions=versions)
    # Of the same revision an answer has fewer events only if some were deleted.
    events = len(row["payloads"]) if "payloads" in statement.columns else 0
    if "had" in statement.columns and row["had"]:
        events += parameters["count"]
    question = (id(statement), parameters.get("limit"), parameters.get("after"))
    revision = Revision(*(row[name] for name in ("incarnation", "revision", "revision_token")))
    return Told(question, (*stamp, events), revision, versions)


def _follows(told: Revision, known: Revision) -> bool:
    """Whether a standby's answer is of the session that was known, and of its history."""
    return told.incarnation == known.incarnation and not told.lacks(known)
