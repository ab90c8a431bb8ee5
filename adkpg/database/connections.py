"""Connections: where a Database leads, and how a connection is had and given back."""

import asyncio
import inspect
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import greenlet_spawn

from adkpg.database import address, libpq, pooler
from adkpg.database.attempts import Attempt
from adkpg.database.connector import Connector, Password
from adkpg.database.driver import Closed, Fault, idle_after
from adkpg.database.migrating import migrations
from adkpg.database.pools import LoopPools, Template, clone
from adkpg.embedded import EmbeddedServer
from adkpg.errors import ConfigurationError
from adkpg.settings import Settings
from adkpg.telemetry import calls

Behind = Literal["nothing", "prepared", "unprepared"]
"""What a connection goes through: nothing, or a pooler, by what it does to prepared statements."""

_USED_AT = "adkpg_used_at"
_LONGEST_IDLE_S = 30.0  # no network device that is known of forgets a connection sooner
_LONGEST_PING_S = 5.0
_IS_STANDBY = "SELECT pg_is_in_recovery()"
_NO_LONGER_OF_USE = (
    asyncpg.InternalClientError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InvalidSQLStatementNameError,
    asyncpg.DuplicatePreparedStatementError,
    TimeoutError,  # what hangs would hang again on it
)


class Connections:
    """The connections to one database: a pool for each event loop that uses them.

    Making one does no I/O and binds to no event loop. After a fault, connections that were idle
    before it are asked before they are used, since it may have met them too (`heed`). Those that
    lead elsewhere are never used again (`renew`).

    Args:
      target: Where the database is; None with an engine, or if none is named.
      settings: Those of the Database.
      engine: The caller's own, which each pool is cloned from.
      password: In place of the address's, also of a standby.
      engine_options: For SQLAlchemy's ``create_async_engine``, over the settings.

    Attributes:
      settings: Those of the Database.
      url: The database's address without password, or ``embedded``; empty if none is named.
      place: Where it is, in the attributes of OpenTelemetry's spans.
      server: The embedded server, if it is that one.
      closings: How often they were closed.
    """

    def __init__(
        self,
        target: address.Address | None,
        settings: Settings,
        *,
        engine: AsyncEngine | None = None,
        password: Password | None = None,
        engine_options: dict[str, Any] | None = None,
    ) -> None:
        if engine is not None and (target is not None or password is not None or engine_options):
            raise ConfigurationError(
                "Database was given an engine and also a URL, password or engine options; give one."
            )
        if engine is not None and engine.dialect.driver != "asyncpg":
            raise ConfigurationError(
                f"adkpg needs an engine on postgresql+asyncpg, not on {engine.dialect.name}+"
                f"{engine.dialect.driver}; make it with create_async_engine('postgresql+asyncpg://…')."
            )
        self.settings = settings
        self._named = target
        self._template: AsyncEngine | Template | None = engine
        self._password = password
        self._engine_options = engine_options or {}
        self.url = "" if target is None else target.display
        if engine is not None:
            self.url = engine.url.render_as_string(hide_password=True)
        self.place = _place(self.url, settings.database_schema)
        self.is_named = engine is not None or target is not None
        embedded = target is not None and target.embedded
        self.server = EmbeddedServer(settings.embedded_dir) if embedded else None
        self._direct = None if embedded else _direct(settings)
        self._target: address.Address | None = None  # of the embedded server: once it runs
        self._connector: Connector | None = None
        self._pools = LoopPools()
        self._doubted_at = self._dead_until = -math.inf
        self.closings = 0

    @property
    def seeks_primary(self) -> bool:
        """Whether another of several servers may be the primary."""
        return self._named is not None and self._named.seeks_primary

    @property
    def keeps_prepared(self) -> bool:
        """Whether statements that this process prepares can be run again."""
        return self._connector is None or self._connector.keeps_prepared

    def use(self) -> tuple[int, int, int]:
        """Returns how many connections of the running loop's pool are used, idle, and at most."""
        return self._pools.use()

    def require_named(self) -> None:
        """Refuses what is to serve, and not only to be imported, without a database.

        Raises:
          ConfigurationError: Neither an argument nor ``ADKPG_DATABASE_URL`` names one.
        """
        if not self.is_named:
            raise ConfigurationError(
                "No database is named: set ADKPG_DATABASE_URL=postgresql://user:password@host/"
                "database before the Database is made, or say Database('embedded') for the server "
                "that comes with adkpg[embedded]."
            )

    async def engine(self) -> AsyncEngine:
        """Returns the running loop's engine, and starts the embedded server if it is that one."""
        if (engine := self._pools.get()) is not None:
            return engine
        if self._template is None:
            self._template = await self._made_template()
        with Attempt(self.url):
            return await self._pools.open(self._template)
        raise AssertionError("an attempt alone swallows nothing")

    @asynccontextmanager
    async def borrowed(
        self, attempt: Attempt, *, begin: str | None = None
    ) -> AsyncIterator[asyncpg.Connection]:
        """Yields a pooled connection in no transaction, and gives it back in none.

        It is given back without an await: in a cancelled scope each one is cancelled again.

        Args:
          attempt: Told whether it waits for the pool.
          begin: Begins a transaction, which the caller ends; if it may not have, the connection is
            closed.
        """
        self._require_open(attempt)
        engine = self._pools.get() or await self.engine()
        pooled = await self._checked_out(engine, begin, attempt)
        connection: Any = pooled.driver_connection
        keep = True
        try:
            yield connection
        except BaseException as exc:  # after a CancelledError the server may still be at work
            # The server's farewell may have arrived while it was idle, or it is a standby now.
            # A node that hangs takes no cancellation either.
            broken = not isinstance(exc, Exception) or isinstance(exc, _NO_LONGER_OF_USE)
            keep = not broken and (begin is None or idle_after(exc))
            raise
        finally:
            # Its pool is no more after `close`, and would keep it open.
            keep = keep and not connection.is_closed() and self._pools.get() is engine
            if keep:
                pooled.info[_USED_AT] = time.monotonic()
                await self._pools.give_back(pooled)
            else:
                self._pools.discard(pooled)

    async def _checked_out(self, engine: AsyncEngine, begin: str | None, attempt: Attempt) -> Any:
        """Returns a pooled connection that is open and answers, and begins the transaction.

        One that a network device forgot looks open, so one that was idle for long, or for longer
        than one that broke, is asked before it is used.
        """
        dead_until = self._dead_until
        while True:
            attempt.queued = self._pools.exhausted(engine)
            if calls.is_open():
                with calls.borrowing(self.place):
                    pooled = await self._pools.borrow(engine)
            else:
                pooled = await self._pools.borrow(engine)
            if attempt.queued:
                attempt.queued, attempt.borrowed_at = False, time.monotonic()
            connection = pooled.driver_connection
            used_at = pooled.info.get(_USED_AT, math.inf)
            doubtful = used_at < max(time.monotonic() - _LONGEST_IDLE_S, self._doubted_at)
            sql = begin or ("SELECT 1" if doubtful else None)
            keep = False
            try:
                if not connection.is_closed() and connection.is_in_transaction():
                    # A listener of the caller's engine began it; nothing is done about any other.
                    await greenlet_spawn(pooled.dbapi_connection.commit)
                usable = not connection.is_closed() and not connection.is_in_transaction()
                if usable and used_at > dead_until:
                    timeout_s = _LONGEST_PING_S if doubtful else None
                    standby = doubtful and self.seeks_primary
                    if standby:
                        standby = await connection.fetchval(_IS_STANDBY, timeout=timeout_s)
                    if sql is not None and not standby:
                        await connection.execute(sql, timeout=timeout_s)
                    keep = not standby
                    if keep:
                        return pooled
            except Exception as exc:
                if used_at == math.inf or idle_after(exc):
                    raise
                dead_until = used_at
            finally:
                if not keep:
                    self._pools.discard(pooled)

    def renew(self) -> None:
        """Retires the connections that are open now, because new ones lead elsewhere."""
        self._dead_until = time.monotonic()

    def heed(self, fault: Fault) -> None:
        """Doubts the other connections that a fault may have met, too."""
        if fault in (Fault.UNPREPARED, Fault.MOVED):
            self.renew()  # of MOVED: the server process may go on sending it to where the part was
        if fault is Fault.UNPREPARED and self._connector is not None:
            self._connector.doubt_prepared()
        if fault in (Fault.LOST, Fault.STANDBY):
            # Whatever ended this connection may have ended those that were idle for longer.
            self._doubted_at = time.monotonic()

    @asynccontextmanager
    async def looking(self, attempt: Attempt) -> AsyncIterator[AsyncEngine]:
        """Yields the running loop's engine to what connects by itself; `close` ends the block.

        Args:
          attempt: The call's attempt, which knows when the call began.
        """
        self._require_open(attempt)
        engine = await self.engine()
        async with self._pools.until_closed():
            yield engine

    def _require_open(self, attempt: Attempt) -> None:
        """Refuses a call that was under way at `close`: it would open the connections again.

        Raises:
          Closed: It was.
        """
        if attempt.closings is None:
            attempt.closings = self.closings
        if attempt.closings != self.closings:
            raise Closed

    @asynccontextmanager
    async def apart(self, attempt: Attempt) -> AsyncIterator[asyncpg.Connection]:
        """Yields a connection outside of the pool; with a caller's own engine, one of its pool.

        Args:
          attempt: The call's attempt, which knows when the call began.
        """
        async with self.looking(attempt) as engine:
            if self._connector is None:
                async with engine.connect() as pooled:
                    yield (await pooled.get_raw_connection()).driver_connection
                return
            connection = await self._connector.connect()
            try:
                yield connection
            finally:
                connection.terminate()

    @property
    def direct_url(self) -> str | None:
        """``ADKPG_DIRECT_URL`` without password; None without one."""
        return None if self._direct is None else self._direct.display

    @asynccontextmanager
    async def migrating(self, attempt: Attempt) -> AsyncIterator[AsyncEngine]:
        """Yields an engine for what is done to tables as a whole, and disposes it.

        It leads to ``ADKPG_DIRECT_URL``, if there is one.

        Args:
          attempt: Told where.

        Raises:
          ConfigurationError: ``ADKPG_DIRECT_URL`` leads to another database.
        """
        async with self.looking(attempt) as served:
            attempt.place = self.direct_url or self.url
            target = self._direct or self._target
            if target is None:
                engine = clone(served)
            else:
                connector = self._connector_to(
                    target, command_timeout=self.settings.migration_timeout_s
                )
                engine = create_async_engine(
                    "postgresql+asyncpg://", async_creator=connector.connect, poolclass=NullPool
                )
            try:
                if self._direct is not None:
                    await migrations.require_same_database(served, engine)
                yield engine
            finally:
                await engine.dispose()

    async def to_listen(self) -> asyncpg.Connection | None:
        """Opens a connection to be told things on; None behind a pooler, or by an engine."""
        with Attempt(self.url) as attempt:
            async with self.looking(attempt):
                target = self._direct or self._target
                if target is None:
                    return None
                attempt.place = target.display
                connection = await self._connector_to(target).connect()
                direct = False
                try:
                    direct = await pooler.is_direct(connection)
                finally:
                    if not direct:
                        connection.terminate()
                return connection if direct else None
        raise AssertionError("an attempt alone swallows nothing")

    async def lies_behind(self) -> Behind:
        """Returns what lies between here and the server.

        Returns:
          ``nothing``, a pooler that keeps ``prepared`` statements, or ``unprepared``: one that
          loses them.
        """
        with Attempt(self.url) as attempt:
            async with self.looking(attempt) as engine, engine.connect() as connection:
                driver: Any = (await connection.get_raw_connection()).driver_connection
                if await pooler.is_direct(driver):
                    return "nothing"
        return "prepared" if self.keeps_prepared else "unprepared"

    async def environment(self) -> dict[str, str]:
        """Returns the variables by which Postgres's own programs reach this database.

        The password is among them, so they go into a program's environment and nowhere else.

        Raises:
          ConfigurationError: It was made with an engine, which alone knows where it leads.
        """
        self.require_named()
        if self._named is None:
            raise ConfigurationError(
                "Postgres's own programs need a database URL, and this Database was made with an "
                "engine; give it a URL."
            )
        await self.engine()
        target = self._direct or self._target
        assert target is not None
        password = self._password() if callable(self._password) else self._password
        if inspect.isawaitable(password):
            password = await password
        return libpq.environment(target, password)

    async def close(self) -> None:
        """Closes the connections of every loop, and this process's share of an embedded server.

        Calls that are under way end with an error. Idempotent; the next use opens them again.
        """
        self.closings += 1
        await self._pools.close()
        if self.server is not None and self._template is not None:
            self._template = None
            await asyncio.to_thread(self.server.stop)

    async def _made_template(self) -> Template:
        self.require_named()
        assert self._named is not None
        target = self._named
        if self.server is not None:
            await asyncio.to_thread(self.server.start)
            # PGSSLMODE and PGTARGETSESSIONATTRS are meant for other servers.
            own = f"{self.server.url}&sslmode=disable&target_session_attrs=any"
            target = address.parse(own)
        self._target = target
        settings = self.settings
        options: dict[str, Any] = {
            "pool_size": settings.pool_size,
            "max_overflow": 0,
            "pool_timeout": settings.pool_timeout_s,
            # The last one used comes first: its server process has the plans and caches warm.
            "pool_use_lifo": True,
        }
        if "poolclass" in self._engine_options:
            options.clear()
        options.update(self._engine_options)
        options.pop("connect_args", None)
        self._connector = self._connector_to(target)
        return Template(self._connector.connect, options)

    def _connector_to(self, target: address.Address, **defaults: Any) -> Connector:
        return Connector(
            target,
            self.settings,
            password=self._password,
            defaults=defaults,
            options=self._engine_options.get("connect_args"),
            bring_back=None if self.server is None else self.server.bring_back,
        )


def _place(url: str, schema: str) -> dict[str, str | int]:
    """Where a URL without a password leads, as the conventions of OpenTelemetry say it."""
    if url == "embedded":
        return {"server.address": url}
    try:
        parts = urlsplit(url)
        asked = parse_qs(parts.query)
        host = parts.hostname or asked.get("host", ["localhost"])[0]
        port = parts.port or int(asked.get("port", ["5432"])[0])
    except ValueError:  # several servers, perhaps
        return {}
    place: dict[str, str | int] = {"server.address": host}
    if port != 5432:
        place["server.port"] = port
    return {**place, "db.namespace": f"{unquote(parts.path.lstrip('/'))}|{schema}"}


def _direct(settings: Settings) -> address.Address | None:
    if settings.direct_url is None:
        return None
    direct = address.parse(settings.direct_url.get_secret_value())
    if direct.embedded:
        raise ConfigurationError(
            "ADKPG_DIRECT_URL is embedded, which has no pooler in front; leave it out."
        )
    return direct
