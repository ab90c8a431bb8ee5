"""Runner: how a statement runs.

A call takes a connection of the pool, runs in one round trip, and gives it back. If it fails of
something that passes, it is made again (`attempts`), on another connection. A read may run on a
standby instead (`replicas`). What a call is made of, and what is waited for, is its `Policy`.
"""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from adkpg import leases, scopes
from adkpg.database import row_security, timeouts
from adkpg.database.attempts import CALL, Attempt, Attempts, Policy
from adkpg.database.connections import Connections
from adkpg.database.driver import Fault, idle_after
from adkpg.database.installation import Installation
from adkpg.database.listening import Listener
from adkpg.database.replicas.replica import Replica
from adkpg.database.replicas.seen import Subject
from adkpg.database.replicas.source import Source
from adkpg.database.transaction import Transaction
from adkpg.errors import Busy, DatabaseError
from adkpg.keys import APP_WIDE
from adkpg.loops import PerLoop
from adkpg.queries import Query, RowT

logger = logging.getLogger(__name__)

T = TypeVar("T")

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_UNKNOWN = (asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError)


class Runner(Source):
    """Runs statements on one database, and repeats what passes.

    Args:
      connections: To the database.
      installation: Its tables, which are verified at the first use.
      is_standby: Whether it is one, which spans then name as the server that answered.

    Attributes:
      connections: To the database.
      installation: Its tables.
      replica: The standby that reads may go to.
    """

    def __init__(
        self, connections: Connections, installation: Installation, *, is_standby: bool = False
    ) -> None:
        self.replica: Replica | None = None
        self.connections = connections
        self.installation = installation
        self._settings = connections.settings
        self._schema = connections.settings.database_schema
        self._place = connections.place if is_standby else None
        self._where: leases.Where = (connections.url, self._schema)
        self._listeners = PerLoop(lambda: Listener(self._to_listen))

    async def fetch(
        self,
        query: Query[RowT],
        *,
        timeout_s: float | None = None,
        policy: Policy = CALL,
        standing: str | None = None,
        attempt: Attempt | None = None,
    ) -> list[RowT]:
        """Runs one statement in one round trip, outside of any transaction, and returns its rows.

        Args:
          query: Running it twice does what running it once does.
          timeout_s: Longest run in seconds; None is ``ADKPG_COMMAND_TIMEOUT_S``.
          policy: How it is made.
          standing: As for `Transaction.fetch`.
          attempt: Told how far the first attempt came.

        Raises:
          DatabaseError: The server refused it; see `adkpg.errors`.
          InvalidInput: A parameter cannot be stored.
          InvocationLost: It writes, and the run that it belongs to has lost its session.
        """
        if policy.held and query.statement.writes:
            await leases.require(self._where)
        try:
            async for each in self._attempts(policy, attempt):
                with each:
                    if each.after is Fault.RACE:
                        # The server's default may be stricter isolation than the statement is for.
                        async with self._begun(each) as transaction:
                            return await transaction.fetch(query, timeout_s=timeout_s)
                    return await self._fetched(each, policy, query, timeout_s, standing)
            raise AssertionError("an attempt returns or raises")
        finally:
            if self.replica is not None and query.statement.writes:
                self.replica.wrote(query.parameters)

    async def transact(
        self,
        work: Callable[[Transaction], Awaitable[T]],
        *,
        policy: Policy = CALL,
        attempt: Attempt | None = None,
    ) -> T:
        """Does work in one READ COMMITTED transaction, and all of it again while a fault passes.

        Args:
          work: Given the transaction; idempotent, as it may have been committed before.
          policy: How it is made.
          attempt: Told how far the first attempt came.

        Raises:
          DatabaseError: The server refused a statement or the commit.
          InvocationLost: As for `fetch`.
        """
        await leases.require(self._where)
        async for each in self._attempts(policy, attempt):
            with each:
                async with self._begun(each) as transaction:
                    return await work(transaction)
        raise AssertionError("an attempt returns or raises")

    async def read(
        self,
        work: Callable[[Source], Awaitable[T]],
        subject: Subject,
        *,
        primary: bool = False,
    ) -> T:
        """Does work that only reads: on the standby where it may, and else on the primary.

        All of it on one of them. What goes wrong on the standby (it is away, lags, or its replay
        is in the way) costs another try on the primary and no error.

        Args:
          work: Given what fetches; it may be done several times.
          subject: What it reads, of which no answer is older than what was written or seen.
          primary: Whether the standby is not asked; what is seen is noted all the same.

        Raises:
          DatabaseError: The primary refused a statement.
        """
        alone = not self.installation.known_as_distributed
        try:
            # Where the coordinator's log ends says nothing of what other nodes have written.
            if self.replica is None or await self.installation.is_distributed():
                return await work(self)
            return await self.replica.answer(work, subject, primary=primary)
        except Busy:
            if not alone or not self.installation.known_as_distributed:
                raise
        return await work(self)  # it asked one server for what is on several since

    async def execute(self, sql: str, *, timeout_s: float) -> None:
        """Runs a data definition that takes no parameters, outside of any transaction.

        While a fault passes it runs again; so it says IF EXISTS or IF NOT EXISTS. It runs where
        ``ADKPG_DIRECT_URL`` leads, if there is one.

        Raises:
          ConfigurationError: ``ADKPG_DIRECT_URL`` leads to another database.
          DatabaseError: The server refused it, or it took longer than `timeout_s`.
        """
        async for each in self._attempts(CALL):
            with each:
                each.sent = True
                if self.connections.direct_url is None:
                    async with self._checked(each, CALL) as pooled:
                        await pooled.execute(sql, timeout=timeout_s)
                else:
                    async with (
                        self.connections.migrating(each) as engine,
                        engine.connect() as connection,
                    ):
                        driver: Any = (await connection.get_raw_connection()).driver_connection
                        await driver.execute(sql, timeout=timeout_s)
                return

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Yields a READ COMMITTED transaction; rolls back on an exception. Repeats nothing.

        Raises:
          DatabaseError: The server refused a statement or the commit.
          InvocationLost: As for `fetch`.
        """
        await leases.require(self._where)
        with Attempt(self.connections.url) as attempt:
            async with self._begun(attempt) as transaction:
                yield transaction

    @asynccontextmanager
    async def _begun(self, attempt: Attempt) -> AsyncIterator[Transaction]:
        """Yields a transaction.

        After a cancellation or a timeout the server may still be at work. So the connection is
        closed without another word, and the server rolls back.
        """
        begin = _BEGIN
        if self._settings.row_level_security:
            begin += row_security.entering(self._schema, scopes.current().arguments)
        transaction: Transaction | None = None
        try:
            async with self._checked(attempt, CALL, begin) as connection:
                attempt.distributed = self.installation.known_as_distributed
                transaction = Transaction(
                    connection, self.installation.sending, begun=True, place=self._place
                )
                try:
                    yield transaction
                except Exception as exc:
                    if idle_after(exc):
                        await connection.execute("ROLLBACK")
                    raise
                attempt.sent = True
                if await connection.execute("COMMIT") != "COMMIT":
                    raise DatabaseError(
                        "Postgres rolled the transaction back, since one of its statements had "
                        "failed; try again."
                    )
        except Exception as exc:
            if transaction is not None and timeouts.is_silent(exc):
                await self._require_no_timeout(transaction, attempt)
            raise
        finally:
            if self.replica is not None and transaction is not None:
                for scope in transaction.written:
                    self.replica.wrote(scope)

    async def _require_no_timeout(self, transaction: Transaction, attempt: Attempt) -> None:
        """Raises what the server would have said of a transaction that its timeouts ended.

        Raises:
          asyncpg.PostgresError: One did.
        """
        now, asking = time.monotonic(), Attempt()
        asking.closings = attempt.closings
        try:
            async with self.connections.borrowed(asking) as connection:
                said = await timeouts.ended_by(
                    connection,
                    idle_s=now - transaction.answered_at,
                    open_s=now - transaction.began_at,
                )
        except Exception as exc:  # noqa: BLE001 - the server does not answer: that is the cause
            logger.debug("A server that ended a transaction does not answer: %s", exc)
            return
        if said is not None:
            raise said

    async def _fetched(
        self,
        attempt: Attempt,
        policy: Policy,
        query: Query[Any],
        timeout_s: float | None,
        standing: str | None,
    ) -> list[Any]:
        scope = None
        if policy.scoped and self._settings.row_level_security:
            scope = scopes.current().arguments
        async with self._checked(attempt, policy) as connection:
            if not query.statement.writes:
                self.installation.require_as_before(attempt)
            attempt.distributed = self.installation.known_as_distributed
            return await Transaction(
                connection,
                self.installation.sending,
                begun=False,
                scope=scope,
                place=self._place,
                keeps_prepared=self.connections.keeps_prepared,
            ).fetch(query, timeout_s=timeout_s, standing=standing, attempt=attempt)

    @asynccontextmanager
    async def _checked(
        self, attempt: Attempt, policy: Policy, begin: str | None = None
    ) -> AsyncIterator[asyncpg.Connection]:
        """Yields a connection to verified tables, in the transaction that was begun or in none."""
        if policy.apart:
            async with self.connections.apart(attempt) as connection:
                yield connection
            return
        if policy.checked:
            await self.installation.require(attempt)
        async with self.connections.borrowed(attempt, begin=begin) as connection:
            try:
                yield connection
            except _UNKNOWN as exc:
                await self.installation.missed(connection, attempt, exc)
                raise

    def _attempts(self, policy: Policy, first: Attempt | None = None) -> Attempts:
        tables = self.installation if policy.checked else None
        return Attempts(self.connections, tables, policy, self._settings.retry_timeout_s, first)

    def require_every_scope(self) -> None:
        """Refuses what is about all users within the scope of one, if there are any scopes.

        Raises:
          ScopeMissing: There are, and the context's is not `every_scope`.
        """
        if self._settings.row_level_security:
            scopes.require_every()

    def require_scope_to_write(self, app_name: str, *, user_id: str) -> None:
        """Refuses to write what an app knows within the scope of a user, if there are any scopes.

        Args:
          app_name: The app.
          user_id: Whose memories are written; all except the reserved id are left to the policies.

        Raises:
          PermissionDenied: They are the app's, and the context's scope is a user's.
        """
        if self._settings.row_level_security and user_id == APP_WIDE:
            scopes.require_app_wide(app_name)

    def listener(self) -> Listener:
        """Returns the running loop's listener; it connects while a task listens."""
        return self._listeners.here()

    async def _to_listen(self) -> asyncpg.Connection | None:
        if await self.installation.is_distributed():
            return None  # a node tells its own listeners alone
        return await self.connections.to_listen()

    async def close(self) -> None:
        """Ends what listens and what looks, and every connection; idempotent."""
        if (listener := self._listeners.pop()) is not None:
            listener.close()
        if self.replica is not None:
            await self.replica.close()
        await self.connections.close()
