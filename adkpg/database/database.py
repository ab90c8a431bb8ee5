"""Database: the engine that all services share, its pools, its migrations, its errors."""

import asyncio
import inspect
import logging
import math
import random
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, Protocol, Self, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import greenlet_spawn

from adkpg import scopes
from adkpg.database import address, distribution, grants, libpq, pooler, row_security
from adkpg.database.cluster import Cluster
from adkpg.database.connector import Connector, Password
from adkpg.database.driver import (
    MISSING,
    NOT_DISTRIBUTED,
    Attempt,
    Fault,
    idle_after,
    translated,
)
from adkpg.database.listening import Listener
from adkpg.database.migrating import migrations
from adkpg.database.pools import LoopPools, clone
from adkpg.database.prepared_statements import call_of, prepared, rows_of
from adkpg.database.replicas.known import Known, Need
from adkpg.database.replicas.replica import Learning, NotHere, Replica
from adkpg.database.replicas.source import Source
from adkpg.embedded import EmbeddedServer
from adkpg.errors import (
    Busy,
    ConfigurationError,
    DatabaseError,
    ExtensionMissing,
    RetryableError,
    SchemaError,
)
from adkpg.interface.internal import internal
from adkpg.keys import APP_WIDE
from adkpg.loops import PerLoop
from adkpg.outages.breaker import Breakers
from adkpg.outages.cancellation import uninterrupted
from adkpg.remember.policy import Remember, RememberPolicy, policy_of
from adkpg.settings import Settings
from adkpg.sql import ParametersT, Statement
from adkpg.telemetry import calls

logger = logging.getLogger(__name__)

T = TypeVar("T")

Note = Callable[[Known, Any, list[asyncpg.Record]], None]
"""Notes what a statement has changed, by its parameters and its rows."""

Behind = Literal["nothing", "prepared", "unprepared"]
"""What a connection goes through: nothing, or a pooler, by what it does to prepared statements."""

_SCOPE = ("app_name", "user_id", "app_names", "user_ids")
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_USED_AT = "adkpg_used_at"
_LONGEST_IDLE_S = 30.0  # no network device that is known of forgets a connection sooner
_LONGEST_PING_S = 5.0
_IS_STANDBY = "SELECT pg_is_in_recovery()"
_SHORTEST_PAUSE_S = 0.05
_SAID_PAUSE_S = 0.8
_WORTH_SAYING_S = 5.0  # a failure that comes sooner says enough
_LONGEST_PAUSE_S = 1.6
_NO_LONGER_OF_USE = (
    asyncpg.InternalClientError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InvalidSQLStatementNameError,
    asyncpg.DuplicatePreparedStatementError,
)


class Closes(ABC):
    """Closes at the end of ``async with``."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Gives up what it holds; idempotent."""


class Database(Closes):
    """One Postgres database with adkpg's tables, shared by the services that are given it.

    Making one does no I/O and binds to no event loop. Connections open at first use, in a pool
    of the event loop that asks; a loop's pool is closed with the loop. At first use the schema's
    revision is checked once: the embedded server and ``auto_upgrade=True`` migrate, elsewhere a
    wrong revision is a `SchemaError` that names the command to run.

    Args:
      url: ``postgresql://…`` (also ``postgres://``, ``postgresql+asyncpg://``, ``adkpg://``), or
        ``embedded`` for the server that comes with ``adkpg[embedded]``. Default:
        ``ADKPG_DATABASE_URL``.
      read_url: A standby of that database, or several in one URL: reads of sessions and memories
        go there when they may, and never show less than this process has written or seen. Default:
        ``ADKPG_READ_URL``; None: the primary answers everything.
      engine: An async engine of your own on asyncpg, instead of a URL. Each loop gets a pool
        cloned from it; the engine itself is never used for statements and never disposed.
      password: The password, or a function (also async) that is asked for one at each new
        connection, for cloud credentials that expire; of the standby, too.
      settings: Instead of those of the environment.
      auto_upgrade: Migrate at first use. Default: ``ADKPG_AUTO_UPGRADE``.
      remember: What becomes memory, and in which words, on every way into it: True, ``"redacted"``
        (without keys, card numbers, tokens and passwords), or a `RememberPolicy`. Appends of the
        services that share this Database then remember. Default: ``ADKPG_REMEMBER``; False: none.
      **engine_options: Passed to SQLAlchemy's ``create_async_engine``, over the settings'.

    Attributes:
      settings: As given, or those of the environment.
      captures: Whether appends remember through services that were not told themselves.
      breakers: Of the embedders and extractors that its services ask.
      place: Where it is, in the attributes of OpenTelemetry's spans.

    Raises:
      ConfigurationError: The database that is named cannot be read. If none is named, the first
        use says so, so that a module which makes one can be imported anywhere.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        read_url: str | None = None,
        engine: AsyncEngine | None = None,
        password: Password | None = None,
        settings: Settings | None = None,
        auto_upgrade: bool | None = None,
        remember: Remember | None = None,
        **engine_options: Any,
    ) -> None:
        self.settings = settings or Settings()
        self._policy_said = remember is not None
        self.captures = bool(self.settings.remember if remember is None else remember)
        self._policy = policy_of(self.settings.remember if remember is None else remember)
        self._address = None if engine is not None else _resolve(url, self.settings)
        self._named = engine is not None or self._address is not None
        if engine is not None and (url is not None or password is not None or engine_options):
            raise ConfigurationError(
                "Database was given an engine and also a URL, password or engine options; give one."
            )
        if engine is not None and engine.dialect.driver != "asyncpg":
            raise ConfigurationError(
                f"adkpg needs an engine on postgresql+asyncpg, not on {engine.dialect.name}+"
                f"{engine.dialect.driver}; make it with create_async_engine('postgresql+asyncpg://…')."
            )
        self._template = engine
        self._url = "" if self._address is None else self._address.display
        if engine is not None:
            self._url = engine.url.render_as_string(hide_password=True)
        self.place = _place(self._url, self.schema)
        self._password = password
        self._engine_options = engine_options
        self._seeks_primary = self._address is not None and self._address.seeks_primary
        embedded = self._address is not None and self._address.embedded
        self._auto_upgrade = embedded or (
            self.settings.auto_upgrade if auto_upgrade is None else auto_upgrade
        )
        self._server = EmbeddedServer(self.settings.embedded_dir) if embedded else None
        self._direct = None if embedded else _direct(self.settings)
        self._target: address.Address | None = None
        self._connector: Connector | None = None
        self._pools = LoopPools()
        self._doubted_at = self._dead_until = -math.inf
        self._verified = self._introduced = self._distributed = False
        self._embedders: dict[str, None] = {}
        self._listeners = PerLoop(lambda: Listener(self._listening))
        self.breakers = Breakers()
        self._keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()
        self._is_standby = False
        self._standby = None if embedded and read_url is None else self._made_standby(read_url)
        self._replica: Replica | None = None
        if self._standby is not None:
            self._replica = Replica(
                self,
                self._standby,
                lag_s=self.settings.read_lag_s,
                timeout_s=self.settings.read_timeout_s,
            )
            self.keep_informed(self._replica.known)

    def _made_standby(self, read_url: str | None) -> "Database | None":
        if read_url is None:
            if self.settings.read_url is None:
                return None
            read_url = self.settings.read_url.get_secret_value()
        try:
            target = address.parse(read_url, to_read=True)
        except ConfigurationError as exc:
            raise ConfigurationError(f"ADKPG_READ_URL, or read_url, is wrong: {exc}") from None
        if target.embedded:
            raise ConfigurationError(
                "ADKPG_READ_URL is embedded, which has no standby; name one, or leave it out."
            )
        longest_s = min(self.settings.connect_timeout_s, self.settings.read_timeout_s)
        own: dict[str, Any] = {
            "read_url": None,
            "direct_url": None,
            "connect_timeout_s": longest_s,
            "retry_timeout_s": 0.0,  # the primary answers in its place, and operators are told soon
        }
        standby = Database(
            read_url,
            password=self._password,
            settings=self.settings.model_copy(update=own),
            auto_upgrade=False,
            **self._engine_options,
        )
        standby._is_standby = standby._introduced = True
        standby._address, standby._seeks_primary = target, target.seeks_primary
        return standby

    @property
    @internal
    def standby(self) -> "Database | None":
        """The standby that reads go to, for whoever looks at it itself; None without one."""
        return self._standby

    @property
    def url(self) -> str:
        """The database's address without password, or ``embedded``; empty if none is named."""
        return self._url

    @internal
    def require_named(self) -> None:
        """Refuses what is to serve, and not only to be imported, without a database.

        Raises:
          ConfigurationError: Neither an argument nor ``ADKPG_DATABASE_URL`` names one.
        """
        if not self._named:
            raise ConfigurationError(
                "No database is named: set ADKPG_DATABASE_URL=postgresql://user:password@host/"
                "database before the Database is made, or say Database('embedded') for the server "
                "that comes with adkpg[embedded]."
            )

    @internal
    def require_server(self) -> None:
        """Refuses an embedded server that is not installed, before it is to be started.

        Raises:
          EmbeddedServerError: It is not; the message says how to get it.
        """
        if self._server is not None:
            self._server.require_installed()

    @internal
    def embeds_by(self, embedder: str) -> None:
        """Notes an embedder that a service of this Database asks, for the line at the start."""
        self._embedders[embedder] = None

    @property
    def schema(self) -> str:
        """The Postgres schema that holds adkpg's tables."""
        return self.settings.database_schema

    @property
    def policy(self) -> RememberPolicy | None:
        """Decides what becomes memory, whoever writes it; None: all that services are given."""
        return self._policy

    @internal
    def remember_by(self, remember: Remember) -> None:
        """Gives it the policy of a service that was given one.

        Raises:
          ConfigurationError: Another one was said before: there is one rule for each Database.
        """
        policy = policy_of(remember)
        if self._policy_said and policy != self._policy:
            raise ConfigurationError(
                "This Database remembers by another policy already; say it once, best as "
                "Database(remember=...)."
            )
        self._policy, self._policy_said = policy, True

    @property
    def _fresh_start(self) -> str:
        if self._server is not None:
            return (
                f"remove the folder {self._server.directory} with what it holds, or set "
                "ADKPG_EMBEDDED_DIR to another one"
            )
        return (
            f"run DROP SCHEMA {self.schema} CASCADE in {self.url}, which drops what they hold, "
            "then: adkpg db upgrade"
        )

    @property
    def auto_upgrade(self) -> bool:
        """Whether the first use migrates: as asked for, and always on the embedded server."""
        return self._auto_upgrade

    def __repr__(self) -> str:
        return f"Database({self.url!r})" if self._named else "Database(<none is named>)"

    async def close(self) -> None:
        """Closes the connections of every loop, and this process's share of an embedded server.

        Idempotent; a closed Database opens again at its next use. A cancelled caller waits for
        the end, too: for what is given up, five seconds.
        """
        await uninterrupted(self._close())

    async def _close(self) -> None:
        if (listener := self._listeners.pop()) is not None:
            listener.close()
        if self._replica is not None:
            await self._replica.close()
        await self._pools.close()
        if self._standby is not None:
            await self._standby.close()
        if self._server is not None and self._template is not None:
            self._template = None
            await asyncio.to_thread(self._server.stop)

    @internal
    def require_every_scope(self) -> None:
        """Refuses what is about all users within the scope of one, if there are any scopes.

        Raises:
          ScopeMissing: There are, and the context's is not `every_scope`.
        """
        if self.settings.row_level_security:
            scopes.require_every()

    @internal
    def require_scope_to_write(self, app_name: str, *, user_id: str) -> None:
        """Refuses to write what an app knows within the scope of a user, if there are any scopes.

        Args:
          app_name: The app.
          user_id: Whose memories are written; all but the reserved id are left to the policies.

        Raises:
          PermissionDenied: They are the app's, and the context's scope is a user's.
        """
        if self.settings.row_level_security and user_id == APP_WIDE:
            scopes.require_app_wide(app_name)

    @internal
    async def require_held_role(self) -> None:
        """Refuses a role that passes policies, if there are to be any.

        Raises:
          ConfigurationError: Row-level security is on, and Postgres holds the role to none.
        """
        if self.settings.row_level_security:
            engine = await self.engine()
            with translated(self.url, Attempt(sent=True)):
                await row_security.verify_role(engine)

    @internal
    async def require_everybodys_rows(self) -> bool:
        """Returns whether the tables have row-level security; refuses whom it hides rows from.

        Raises:
          PermissionDenied: They have, and this role may not enter everybody's scope.
        """
        engine = await self.engine()
        with translated(self.url, Attempt(sent=True)):
            guarded = await row_security.is_on(engine, self.schema)
            if guarded:
                await row_security.enter_every_scope(engine, self.schema)
        return guarded

    @internal
    def keep_informed(self, keeper: "Keeper") -> None:
        """Tells a keeper of personal data in this process what is erased; it is held weakly."""
        self._keepers.add(keeper)

    @internal
    def erased(self, *, app_name: str, user_id: str, session_id: str | None = None) -> None:
        """Tells all keepers that a person's rows were erased, or those of one session."""
        for keeper in list(self._keepers):
            keeper.erased(app_name, user_id, session_id)

    async def upgrade(self, revision: str = "head") -> None:
        """Migrates the schema up; idempotent, and safe from many processes simultaneously.

        Args:
          revision: Where to stop; ``head`` is the newest.

        Raises:
          ConfigurationError: There is no such revision; or it is a database of a Citus cluster's
            worker; or Citus distributes the tables, and there is to be row-level security.
          ExtensionMissing: The server has no pgvector that adkpg can use, or this role may not
            create it.
          SchemaError: The tables are at a revision that nothing migrates.
          Busy: Another migration runs for too long.
          DatabaseUnavailable: There is no connection.
        """
        async with self._changing_everything() as engine:
            cluster = await distribution.cluster_of(engine, self.schema)
            distributed = cluster is not None and cluster.is_distributed
            if distributed and self.settings.row_level_security:
                distribution.refuse_row_level_security()
            if distributed:
                distribution.require_citus(cluster)
            distribution.require_coordinator(cluster)
            await migrations.upgrade(
                engine,
                self.schema,
                revision,
                self.settings.migration_timeout_s,
                self._fresh_start,
            )
            if self.settings.row_level_security or await row_security.is_on(engine, self.schema):
                await row_security.switch_on(
                    engine,
                    self.schema,
                    users_write={None: None, "app": False, "users": True}[
                        self.settings.app_state_writers
                    ],
                )
            await grants.open_functions(engine, self.schema)
            if distributed:
                await distribution.distribute(
                    engine,
                    self.schema,
                    self.settings.migration_timeout_s,
                    dry_run=False,
                    tables_only=True,
                )

    @internal
    async def cluster(self) -> Cluster | None:
        """Returns what the database is to its cluster, whatever its tables are; None without."""
        engine = await self.engine()
        with translated(self.url, Attempt(sent=True)):
            return await distribution.cluster_of(engine, self.schema)

    @internal
    async def is_distributed(self) -> bool:
        """Whether the tables are distributed by Citus; asked once."""

        async def once(attempt: Attempt, _: Fault | None = None) -> bool:
            async with self._connection(attempt):
                return self._distributed

        return self._distributed if self._verified else await self._tried(once)

    async def distribute(self, *, dry_run: bool = False) -> list[str]:
        """Distributes the tables over the nodes of a Citus cluster, each person on one of them.

        Idempotent; what an interrupted call did is kept, and the next one goes on from there. Each
        table is locked while its rows are moved.

        Args:
          dry_run: Whether to change nothing.

        Returns:
          What was done, or would be, step by step; empty if nothing was left to do.

        Raises:
          ExtensionMissing: The database has no Citus, or one that is too old.
          ConfigurationError: It is a worker's database, not the coordinator's.
          SchemaError: There are no tables yet.
          SchemaError: They are at another revision.
          Busy: Others were in the way for longer than ``ADKPG_MIGRATION_TIMEOUT_S``.
          DatabaseUnavailable: There is no connection, or a node of the cluster is away.
        """
        async with self._migrating() as engine:
            distribution.require_citus(await distribution.cluster_of(engine, self.schema))
            if self.settings.row_level_security or await row_security.is_on(engine, self.schema):
                distribution.refuse_row_level_security()
            found = await migrations.inspect(engine, self.schema)
            migrations.verify(found, self.url, self._fresh_start)
            steps = await distribution.distribute(
                engine, self.schema, self.settings.migration_timeout_s, dry_run=dry_run
            )
        self._verified = False
        return [step.what for step in steps]

    async def downgrade(self, revision: str) -> None:
        """Migrates the schema down; ``base`` drops every table of adkpg with what it holds.

        Raises:
          ConfigurationError: There is no such revision; or Citus distributes the tables, and it is
            a worker's database.
          Busy: Another migration runs for too long.
          DatabaseUnavailable: There is no connection.
        """
        self._verified = False
        async with self._changing_everything() as engine:
            cluster = await distribution.cluster_of(engine, self.schema)
            if cluster is not None and cluster.is_distributed:
                distribution.require_citus(cluster)
            await migrations.downgrade(
                engine,
                self.schema,
                revision,
                self.settings.migration_timeout_s,
                self._fresh_start,
            )

    @asynccontextmanager
    async def _changing_everything(self) -> AsyncIterator[AsyncEngine]:
        """Yields an engine for a migration, after which no standby shows what was before it."""
        try:
            async with self._migrating() as engine:
                yield engine
        finally:
            if self._replica is not None:
                self._replica.known.wrote({})

    async def current(self) -> str | None:
        """Returns the revision of the tables in the database, or None if there are none."""
        engine = await self.engine()

        async def once(attempt: Attempt, _: Fault | None = None) -> str | None:
            with translated(self.url, attempt):
                return await migrations.current(engine, self.schema)

        return await self._tried(once)

    async def check(self) -> None:
        """Raises unless the tables are at the revision this version expects.

        Raises:
          SchemaError: There are no tables yet; the message names the command.
          SchemaError: They are at another revision; the message names both.
          ExtensionMissing: pgvector is missing, too old, or not in the search_path.
        """
        engine = await self.engine()

        async def once(attempt: Attempt, _: Fault | None = None) -> None:
            with translated(self.url, attempt):
                await self._verify(engine, upgrading=False)

        await self._tried(once)

    @internal
    async def require_serving(self) -> None:
        """Raises as `check` does, unless the next call makes or migrates the tables itself."""
        try:
            await self.check()
        except ExtensionMissing:
            raise
        except SchemaError:
            if not self._auto_upgrade:
                raise
            revision = (await self.found()).revision
            if revision is not None and not migrations.knows(revision):
                raise

    async def engine(self) -> AsyncEngine:
        """Returns the running loop's engine, and starts the embedded server if it is that one.

        For your own SQL alongside adkpg's; the schema is not checked. Do not dispose it.
        """
        engine = self._pools.get()
        if engine is None:
            if self._template is None:
                self._template = await self._connect_template()
            engine = await self._pools.open(self._template)
        return engine

    @internal
    async def found(self) -> migrations.Found:
        """Returns the versions that are found in the database, whatever they are."""
        engine = await self.engine()

        async def once(attempt: Attempt, _: Fault | None = None) -> migrations.Found:
            with translated(self.url, attempt):
                return await migrations.inspect(engine, self.schema)

        return await self._tried(once)

    @internal
    async def look(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
    ) -> list[asyncpg.Record]:
        """Runs a statement that reads the server's own catalogs, whatever adkpg's tables are like.

        It enters no scope.

        Raises:
          DatabaseError: The server refused it; see `adkpg.errors`.
        """
        engine = await self.engine()
        sql, arguments = statement.text(self.schema), statement.arguments(parameters)

        async def once(attempt: Attempt, _: Fault | None = None) -> list[asyncpg.Record]:
            attempt.sent = True
            with translated(self.url, attempt):
                async with engine.connect() as connection:
                    driver: Any = (await connection.get_raw_connection()).driver_connection
                    rows: list[asyncpg.Record] = await driver.fetch(
                        sql, *arguments, timeout=timeout_s
                    )
                    return rows

        return await self._tried(once)

    @internal
    async def lies_behind(self) -> "Behind":
        """Returns what lies between here and the server.

        Returns:
          ``nothing``, a pooler that keeps ``prepared`` statements, or ``unprepared``: one that
          loses them.
        """
        engine = await self.engine()

        async def once(attempt: Attempt, _: Fault | None = None) -> Behind:
            with translated(self.url, attempt):
                async with engine.connect() as connection:
                    driver: Any = (await connection.get_raw_connection()).driver_connection
                    if await pooler.is_direct(driver):
                        return "nothing"
            return "prepared" if self._keeps_prepared else "unprepared"

        return await self._tried(once)

    @internal
    def pool_use(self) -> tuple[int, int, int]:
        """Returns how many connections of the running loop's pool are used, idle, and at most."""
        return self._pools.use()

    @internal
    def listener(self) -> Listener:
        """Returns the running loop's listener; it connects while somebody listens."""
        return self._listeners.here()

    async def _listening(self) -> asyncpg.Connection | None:
        """Opens a connection to listen on; None behind a pooler, on a cluster, or by an engine."""
        await self.engine()
        target = self._direct or self._target
        if target is None or await self.is_distributed():
            return None  # a node tells its own listeners alone
        with translated(self.url, Attempt()):
            connection = await self._connector_to(target).connect()
            direct = False
            try:
                direct = await pooler.is_direct(connection)
            finally:
                if not direct:
                    connection.terminate()
        return connection if direct else None

    @internal
    async def client_environment(self) -> dict[str, str]:
        """Returns the variables by which Postgres's own programs reach this database.

        The password is among them: they are for a program's environment, and for nobody's eyes.

        Raises:
          ConfigurationError: It was made with an engine, which alone knows where it leads.
        """
        self.require_named()
        if self._address is None:
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

    @internal
    async def fetch(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
        note: Note | None = None,
        waits_for_nodes: bool = True,
        attempt: Attempt | None = None,
    ) -> list[asyncpg.Record]:
        """Runs one statement in one round trip and returns its rows.

        It runs on the pooled driver connection, outside of any transaction: it commits by itself.
        Rows are read by column name.

        While a fault passes it runs again, for up to ``ADKPG_RETRY_TIMEOUT_S``.

        Args:
          statement: Built once and kept.
          parameters: By the names of its bind parameters; others are ignored.
          timeout_s: Longest run in seconds; None is ``ADKPG_COMMAND_TIMEOUT_S``.
          note: Notes what it has changed, so that no standby's answer lacks it; None: anything of
            the scopes that the parameters name.
          waits_for_nodes: Whether it runs again while a node of a cluster is away.
          attempt: Told how far the first run came.

        Raises:
          DatabaseError: The server refused it; see `adkpg.errors`.
          InvalidInput: A parameter cannot be stored.
        """
        scope = scopes.current().arguments if self.settings.row_level_security else None
        attempt = attempt or Attempt()
        rows: list[asyncpg.Record] | None = None
        try:
            try:
                rows = await self._run(attempt, statement, parameters, scope, timeout_s)
                return rows
            except RetryableError as exc:
                failure = exc
            except DatabaseError as exc:
                if not await self._doubts_tables(exc, attempt):
                    raise
                if not statement.writes:
                    self._require_as_before(exc)
                rows = await self._tried(
                    lambda attempt, _=None: self._run(
                        attempt, statement, parameters, scope, timeout_s
                    ),
                    doubted=True,
                    waits_for_nodes=waits_for_nodes,
                )
                return rows

            async def again(attempt: Attempt, fault: Fault) -> list[asyncpg.Record]:
                if fault is not Fault.RACE:
                    return await self._run(attempt, statement, parameters, scope, timeout_s)
                # The server's default may be stricter isolation than the statement is made for.
                async with self.transaction(attempt) as transaction:
                    return await transaction.fetch(statement, parameters, timeout_s=timeout_s)

            rows = await self._repeated(again, attempt, failure, waits_for_nodes=waits_for_nodes)
            return rows
        finally:
            if self._replica is not None and statement.writes:
                self._replica.wrote(parameters, rows, note)

    @internal
    async def read(
        self,
        work: Callable[[Source], Awaitable[T]],
        need: Callable[[Known], Need],
        *,
        primary: bool = False,
    ) -> T:
        """Does work that only reads: on the standby where it may, and else on the primary.

        All of it on one of them. What goes wrong on the standby (it is away, lags, or its replay
        is in the way) costs another try on the primary and no error.

        Args:
          work: Given what fetches; it may be done twice.
          need: Says what the answer must not be older than.
          primary: Whether the standby is not asked; what is seen is noted all the same.

        Raises:
          DatabaseError: The primary refused a statement.
        """
        alone = not self._distributed
        try:
            return await self._read(work, need, primary=primary)
        except Busy:
            if not alone or not self._distributed:
                raise
        return await work(self)  # it asked one server for what is on several since

    async def _read(
        self,
        work: Callable[[Source], Awaitable[T]],
        need: Callable[[Known], Need],
        *,
        primary: bool,
    ) -> T:
        # Where the coordinator's log ends says nothing of what other nodes have written.
        if self._replica is None or await self.is_distributed():
            return await work(self)
        needed = need(self._replica.known)
        if not primary:
            try:
                return await self._replica.read(work, needed)
            except NotHere as exc:
                calls.fell_back(exc.reason)
        if needed.scope is None:
            return await work(self)
        return await work(Learning(self, self._replica.known, needed))

    @internal
    async def ask(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        standing: tuple[str, list[object]] | None = None,
        scoped: bool = True,
        timeout_s: float | None = None,
        attempt: Attempt | None = None,
    ) -> list[asyncpg.Record]:
        """Runs one statement that reads like `fetch`, and again only if its connection was lost.

        Args:
          statement: Built once and kept.
          parameters: By the names of its bind parameters.
          standing: What the server is asked of itself along with it, as `Statement.fitting` says,
            and the arguments of that.
          scoped: Whether it is about rows, which are somebody's.
          timeout_s: Longest run in seconds; None is ``ADKPG_COMMAND_TIMEOUT_S``.
          attempt: Told how far it came.

        Raises:
          DatabaseError: The server refused it, or there is no connection.
        """
        arguments, gate = statement.arguments(parameters), None
        scope: tuple[str, ...] = ()
        if scoped and self.settings.row_level_security:
            scope = scopes.current().arguments
            gate = len(scope)
        if standing is None:
            sql = statement.text(self.schema, gate)
        else:
            sql = statement.fitting(self.schema, gate, standing[0])
            arguments = [*arguments, *standing[1]]
        arguments = [*arguments, *scope]
        return await self._again_if_lost(
            lambda attempt: self._fetch(attempt, sql, arguments, timeout_s), attempt
        )

    @internal
    async def ask_apart(
        self, statement: Statement[ParametersT], parameters: ParametersT
    ) -> list[asyncpg.Record]:
        """Runs one statement that reads, in no scope, on a connection outside of the pool.

        With an engine of the caller's it is one of its pool all the same.

        Raises:
          DatabaseError: The server refused it, or there is no connection.
        """
        await self.engine()
        if self._connector is None:
            return await self.ask(statement, parameters, scoped=False)
        with translated(self.url, Attempt(sent=True)):
            connection = await self._connector.connect()
            try:
                rows: list[asyncpg.Record] = await connection.fetch(
                    statement.text(self.schema), *statement.arguments(parameters)
                )
                return rows
            finally:
                connection.terminate()

    @internal
    def renew(self) -> None:
        """Lets nobody use the connections again that are open now, since others lead elsewhere."""
        self._dead_until = time.monotonic()

    @internal
    async def ask_together(
        self, work: Callable[[Any], Awaitable[T]], *, attempt: Attempt | None = None
    ) -> T:
        """Does work that reads in one transaction, and again only if its connection was lost.

        Args:
          work: Given the transaction.
          attempt: Told how far it came.

        Raises:
          DatabaseError: The server refused it, or there is no connection.
        """

        async def once(attempt: Attempt) -> T:
            async with self.transaction(attempt) as transaction:
                return await work(transaction)

        return await self._again_if_lost(once, attempt)

    async def _again_if_lost(
        self, once: Callable[[Attempt], Awaitable[T]], attempt: Attempt | None
    ) -> T:
        attempt = attempt or Attempt()
        try:
            return await once(attempt)
        except RetryableError:
            self._heed(attempt.fault)
            if attempt.fault not in (Fault.LOST, Fault.UNPREPARED):
                raise
        attempt.sent, attempt.fault = False, None
        return await once(attempt)

    async def _fetch(
        self, attempt: Attempt, sql: str, arguments: list[object], timeout_s: float | None
    ) -> list[asyncpg.Record]:
        async with self._connection(attempt) as connection:
            attempt.sent = True
            return await self._said(connection, sql, arguments, timeout_s)

    async def _said(
        self,
        connection: asyncpg.Connection,
        sql: str,
        arguments: list[object],
        timeout_s: float | None,
    ) -> list[asyncpg.Record]:
        if calls.is_open():
            with calls.statement(sql, self.place if self._is_standby else None):
                rows = await connection.fetch(sql, *arguments, timeout=timeout_s)
        else:
            rows = await connection.fetch(sql, *arguments, timeout=timeout_s)
        found: list[asyncpg.Record] = rows
        return found

    async def _run(
        self,
        attempt: Attempt,
        statement: Statement[Any],
        parameters: Any,
        scope: tuple[str, ...] | None,
        timeout_s: float | None,
    ) -> list[Any]:
        found: list[Any] = []
        arguments = statement.arguments(parameters)  # refused before a connection is borrowed
        async with self._connection(attempt) as connection:
            distributed = attempt.distributed = self._distributed
            gate = None if scope is None else len(scope)
            statement = statement.form(distributed=distributed)
            if distributed:
                called = statement.long or statement.writes_parts
            else:
                called = statement.long and not self._keeps_prepared
            if called:
                call = call_of(writes=statement.writes_parts)
                sql = call.text(self.schema, gate)
            else:
                call, sql = None, statement.text(self.schema, gate, distributed=distributed)
            for own in statement.split(parameters) if distributed else (parameters,):
                if call is not None:
                    given = prepared(statement, own, self.schema, distributed=distributed)
                    arguments = call.arguments(given)
                elif distributed:
                    arguments = statement.arguments(own)
                if scope is not None:
                    arguments = (call or statement).entering(arguments, scope)
                attempt.sent = True
                rows = await self._said(connection, sql, arguments, timeout_s)
                found += rows if call is None else rows_of(statement, rows[0]["answer"])
                attempt.partly = statement.writes
        return found

    @property
    def _keeps_prepared(self) -> bool:
        """Whether statements that this process prepares can be run again."""
        return self._connector is None or self._connector.keeps_prepared

    async def _tried(
        self,
        once: Callable[..., Awaitable[T]],
        *,
        races: bool = True,
        doubted: bool = False,
        waits_for_nodes: bool = True,
        attempt: Attempt | None = None,
    ) -> T:
        """Makes an idempotent call, and again while a fault passes.

        Args:
          once: The call.
          races: As for `transact`.
          doubted: Whether it is made again already since the tables may have changed.
          waits_for_nodes: As for `fetch`.
          attempt: Likewise.
        """
        attempt = attempt or Attempt()
        try:
            return await once(attempt)
        except RetryableError as exc:
            failure = exc
        except DatabaseError as exc:
            if doubted:
                self._require_as_before(exc)
                raise
            if not await self._doubts_tables(exc, attempt):
                raise
            return await self._tried(
                once, races=races, doubted=True, waits_for_nodes=waits_for_nodes
            )
        return await self._repeated(
            once, attempt, failure, races=races, waits_for_nodes=waits_for_nodes
        )

    async def _doubts_tables(self, exc: DatabaseError, attempt: Attempt) -> bool:
        """Whether a call failed of tables that are others now, so that it is made anew.

        A table may be there again, or all of them were distributed meanwhile; nothing was written.
        """
        state = getattr(exc.__cause__, "sqlstate", None)
        asked = self._distributed if attempt.distributed is None else attempt.distributed
        if state in NOT_DISTRIBUTED and not asked:
            self._verified = self._verified and self._distributed
            if await self.is_distributed():
                # A server process may send no function to another node any more, once Citus has
                # refused to plan what was sent to it.
                self.renew()
                return True
        return state in MISSING

    def _require_as_before(self, exc: DatabaseError) -> None:
        """Refuses what cannot be made anew as it is, since the tables are distributed meanwhile.

        That is a read, of which `read` may ask otherwise, and what failed once more.

        Raises:
          Busy: They are.
        """
        state = getattr(exc.__cause__, "sqlstate", None)
        if state in NOT_DISTRIBUTED and self._distributed:
            raise Busy(
                f"The tables in {self.url} were distributed meanwhile; try again.", written=False
            ) from exc

    async def _repeated(
        self,
        again: Callable[[Attempt, Fault], Awaitable[T]],
        attempt: Attempt,
        failure: RetryableError,
        *,
        races: bool = True,
        waits_for_nodes: bool = True,
    ) -> T:
        """Repeats what failed while its fault passes, for up to ``ADKPG_RETRY_TIMEOUT_S``.

        Args:
          again: The call.
          attempt: The one that failed.
          failure: What it raised.
          races: Whether what lost a race to others is repeated here, too.
          waits_for_nodes: As for `fetch`.

        Raises:
          RetryableError: The last failure; the time is up, or what passes is something else.
        """
        deadline = time.monotonic() + self.settings.retry_timeout_s
        pause_s = 0.0
        written = failure.written
        while True:
            fault = attempt.fault
            failure.written = written = None if written is None else failure.written
            if (
                fault is None
                or (fault is Fault.RACE and not races)
                or (fault is Fault.STANDBY and not self._seeks_primary)
                or (fault is Fault.NODE and not waits_for_nodes)
            ):
                raise failure
            self._heed(fault)
            if pause_s or fault is not Fault.LOST:  # else a new connection may be all it takes
                if time.monotonic() + pause_s > deadline:
                    raise failure
                await asyncio.sleep(max(pause_s, _SHORTEST_PAUSE_S) * random.uniform(0.5, 1))
            pause_s = min(max(2 * pause_s, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)
            if pause_s == _SAID_PAUSE_S and self.settings.retry_timeout_s > _WORTH_SAYING_S:
                logger.warning(
                    "A call is repeated for up to %g s: %s", self.settings.retry_timeout_s, failure
                )
            attempt = Attempt()
            calls.retried()
            try:
                return await again(attempt, fault)
            except RetryableError as exc:
                failure = exc

    def _heed(self, fault: Fault | None) -> None:
        """Doubts the other connections that a fault may have met, too."""
        if fault in (Fault.UNPREPARED, Fault.MOVED):
            self.renew()  # of MOVED: the server process may go on sending it to where the part was
        if fault is Fault.UNPREPARED and self._connector is not None:
            self._connector.doubt_prepared()
        if fault in (Fault.LOST, Fault.STANDBY):
            # Whatever ended this connection may have ended those that were idle for longer.
            self._doubted_at = time.monotonic()

    @internal
    async def fetch_one(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
        note: Note | None = None,
    ) -> asyncpg.Record | None:
        """Runs one statement like `fetch` and returns its first row, or None."""
        rows = await self.fetch(statement, parameters, timeout_s=timeout_s, note=note)
        return rows[0] if rows else None

    @internal
    async def require_coordinator(self) -> None:
        """Refuses a worker of a Citus cluster, which cannot change distributed tables as a whole.

        Raises:
          ConfigurationError: It leads to one; or ``ADKPG_DIRECT_URL`` to another database.
        """
        if await self.is_distributed():
            async with self._migrating() as engine:
                distribution.require_citus(await distribution.cluster_of(engine, self.schema))

    @internal
    async def run_ddl(self, sql: str, *, timeout_s: float) -> None:
        """Runs a data definition that takes no parameters, outside of any transaction.

        While a fault passes it runs again; so it says IF EXISTS or IF NOT EXISTS.

        Raises:
          ConfigurationError: ``ADKPG_DIRECT_URL`` leads to another database.
          DatabaseError: The server refused it, or it took longer than `timeout_s`.
        """
        direct = self._direct is not None

        async def once(attempt: Attempt, _: Fault | None = None) -> None:
            attempt.sent = True
            if direct:
                async with self._migrating(attempt) as engine, engine.connect() as connection:
                    driver: Any = (await connection.get_raw_connection()).driver_connection
                    await driver.execute(sql, timeout=timeout_s)
            else:
                async with self._connection(attempt) as pooled:
                    await pooled.execute(sql, timeout=timeout_s)

        await self._tried(once)

    @asynccontextmanager
    async def _migrating(self, attempt: Attempt | None = None) -> AsyncIterator[AsyncEngine]:
        """Yields an engine for what is done to tables as a whole, and disposes it.

        It leads to ``ADKPG_DIRECT_URL``, if there is one.
        """
        served = await self.engine()
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
        place = self.url if self._direct is None else self._direct.display
        try:
            with translated(place, attempt or Attempt(sent=True)):
                if self._direct is not None:
                    await migrations.require_same_database(served, engine)
                yield engine
        finally:
            await engine.dispose()

    @internal
    async def transact(
        self,
        work: Callable[["Transaction"], Awaitable[T]],
        *,
        races: bool = True,
        waits_for_nodes: bool = True,
        attempt: Attempt | None = None,
    ) -> T:
        """Does work in one READ COMMITTED transaction, and all of it again while a fault passes.

        Args:
          work: Given the transaction; idempotent, as it may have been committed before.
          races: Whether what lost a race to others is repeated here, too.
          waits_for_nodes: As for `fetch`.
          attempt: Likewise.

        Raises:
          DatabaseError: The server refused a statement or the commit.
        """

        async def once(attempt: Attempt, _: Fault | None = None) -> T:
            async with self.transaction(attempt) as transaction:
                return await work(transaction)

        return await self._tried(
            once, races=races, waits_for_nodes=waits_for_nodes, attempt=attempt
        )

    @internal
    @asynccontextmanager
    async def transaction(self, attempt: Attempt | None = None) -> AsyncIterator["Transaction"]:
        """Yields a READ COMMITTED transaction; rolls back on an exception. Repeats nothing.

        After a cancellation or a timeout nobody knows what the server is doing: the connection is
        closed without another word, and the server rolls back.

        Raises:
          DatabaseError: The server refused a statement or the commit.
        """
        attempt = attempt or Attempt()
        begin = _BEGIN
        if self.settings.row_level_security:
            begin += row_security.entering(self.schema, scopes.current().arguments)
        async with self._connection(attempt, begin=begin) as connection:
            attempt.distributed = self._distributed
            transaction = Transaction(
                connection,
                self.schema,
                place=self.place if self._is_standby else None,
                noted=self._replica is not None,
                distributed=self._distributed,
            )
            try:
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
            finally:
                if self._replica is not None:
                    for scope in transaction.written:
                        self._replica.wrote(scope, None, None)

    @asynccontextmanager
    async def _connection(
        self, attempt: Attempt, *, begin: str | None = None
    ) -> AsyncIterator[asyncpg.Connection]:
        """Yields a connection in no transaction, and gives it back in none.

        It is given back without an await: in a cancelled scope each one is cancelled again.

        Args:
          attempt: Kept up to date by the caller, for errors that say what was written.
          begin: Begins a transaction, which the caller ends; if it may not have, the connection is
            closed.
        """
        with translated(self.url, attempt):
            engine = self._pools.get() or await self.engine()
            if not self._verified:
                await self._require_tables(engine, attempt)
            pooled = await self._checked_out(engine, begin, attempt)
            connection: Any = pooled.driver_connection
            keep = True
            try:
                yield connection
            except (asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError) as exc:
                self._verified = keep = False
                with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                    question = migrations.UNDER_WAY
                    under_way = await connection.fetchval(question, timeout=_LONGEST_PING_S)
                    keep = True
                    if under_way:
                        raise self._being_changed(attempt) from exc
                raise
            except BaseException as exc:
                # The server's farewell may have arrived while it was idle, or it is a standby now.
                # What hangs would hang again on it; a node that hangs takes no cancellation either.
                cancelled = not isinstance(exc, Exception)
                broken = cancelled or isinstance(exc, (*_NO_LONGER_OF_USE, TimeoutError))
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
                    standby = doubtful and self._seeks_primary
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

    async def _require_tables(self, engine: AsyncEngine, attempt: Attempt) -> None:
        """Verifies the tables; what somebody else does to all of them now passes."""
        try:
            await self._verify(engine, upgrading=self._auto_upgrade)
        except SchemaError as exc:
            if await migrations.under_way(engine):
                raise self._being_changed(attempt) from exc
        else:
            return
        # It may have ended between the two looks.
        await self._verify(engine, upgrading=self._auto_upgrade)

    def _being_changed(self, attempt: Attempt) -> Busy:
        attempt.fault = Fault.AWAY
        return Busy(
            f"The tables in {self.url} are migrated or distributed just now; try again when that "
            "is done.",
            written=False,
        )

    async def _verify(self, engine: AsyncEngine, *, upgrading: bool) -> None:
        # It only reads: no BEGIN to wait for, and no ROLLBACK that would outlast a cancellation.
        engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        found, upgraded = await migrations.inspect(engine, self.schema), False
        try:
            migrations.verify(found, self.url, self._fresh_start)
            if found.citus:
                cluster = await distribution.cluster_of(engine, self.schema)
                self._distributed = cluster is not None and cluster.is_distributed
                if self._distributed:
                    await distribution.verify(
                        engine,
                        self.schema,
                        row_level_security=self.settings.row_level_security,
                    )
            if self.settings.row_level_security:
                await row_security.verify(engine, self.schema)
        except SchemaError:
            if not upgrading:
                raise
            await self.upgrade()
            upgraded = True
            if self.settings.row_level_security:
                await row_security.verify(engine, self.schema)
        self._verified = True
        if not self._introduced:
            self._introduced = True
            self._introduce(await migrations.inspect(engine, self.schema) if upgraded else found)

    def _introduce(self, found: migrations.Found) -> None:
        """Says once where this process works, and with what."""
        logger.info(
            "adkpg %s: %s, schema %s at revision %s, Postgres %d.%d, pgvector %s, embedder %s, at "
            "most %d connections per event loop%s",
            _own_version(),
            self.url,
            self.schema,
            found.revision,
            *divmod(found.postgres, 10_000),
            found.pgvector,
            " and ".join(self._embedders) or "none",
            self.pool_use()[2],
            ", row-level security" if self.settings.row_level_security else "",
        )

    async def _connect_template(self) -> AsyncEngine:
        self.require_named()
        assert self._address is not None
        target = self._address
        if self._server is not None:
            await asyncio.to_thread(self._server.start)
            # PGSSLMODE and PGTARGETSESSIONATTRS are meant for other servers.
            own = f"{self._server.url}&sslmode=disable&target_session_attrs=any"
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
        try:
            return create_async_engine(
                "postgresql+asyncpg://", async_creator=self._connector.connect, **options
            )
        except TypeError as exc:
            raise ConfigurationError(
                f"SQLAlchemy refused the engine options {sorted(self._engine_options)} ({exc}); "
                "correct them or leave them out."
            ) from exc

    def _connector_to(self, target: address.Address, **defaults: Any) -> Connector:
        return Connector(
            target,
            self.settings,
            password=self._password,
            defaults=defaults,
            options=self._engine_options.get("connect_args"),
        )


class UsesDatabase(Closes):
    """A service on a Database that it was given, or on one of its own, which closes with it.

    Args:
      database: A `Database` to share, or a URL.
      **options: For a `Database` of its own.
    """

    def __init__(self, database: Database | str | None, **options: Any) -> None:
        self._owns_database = not isinstance(database, Database)
        self._database = (
            database if isinstance(database, Database) else Database(database, **options)
        )

    @property
    def database(self) -> Database:
        """The database that this service writes to."""
        return self._database

    def __repr__(self) -> str:
        said = [repr(self._database)]
        said += [f"{name}={value!r}" for name, value in self._told().items()]
        return f"{type(self).__name__}({', '.join(said)})"

    def _told(self) -> dict[str, object]:
        """Returns what tells the service from others of its kind, for ``repr``."""
        return {}

    async def close(self) -> None:
        """Closes the Database if the service made it; idempotent."""
        if self._owns_database:
            await self._database.close()


class Keeper(Protocol):
    """Keeps personal data in this process."""

    def erased(self, app_name: str, user_id: str, session_id: str | None) -> None:
        """Drops what it keeps of a person, or of one session."""


class Transaction:
    """The statements of one open transaction.

    Args:
      connection: In the transaction.
      schema: Of the tables.
      place: Where it is, for spans, if the call does not say so.
      noted: Whether `written` is kept.
      distributed: Whether the tables are distributed by Citus.

    Attributes:
      is_distributed: Whether the tables are distributed by Citus.
      written: The scopes of the statements that may have changed something, as parameters.
    """

    def __init__(
        self,
        connection: asyncpg.Connection,
        schema: str,
        *,
        place: dict[str, str | int] | None = None,
        noted: bool = False,
        distributed: bool = False,
    ) -> None:
        self._connection = connection
        self._schema = schema
        self._place = place
        self._noted = noted
        self.is_distributed = distributed
        self.written: list[Mapping[str, object]] = []

    async def fetch(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
        standing: tuple[str, list[object]] | None = None,
    ) -> list[asyncpg.Record]:
        """Runs one statement within the transaction and returns its rows.

        With `standing` it asks the server of itself, too, as `Database.ask` does.
        """
        if self._noted and statement.writes:
            self.written.append({name: parameters[name] for name in _SCOPE if name in parameters})
        statement = statement.form(distributed=self.is_distributed)
        call = None
        if self.is_distributed and statement.writes_parts:
            call = call_of(writes=True)
        sql = (call or statement).text(self._schema, distributed=self.is_distributed)
        asked: list[object] = []
        if standing is not None:
            sql, asked = statement.fitting(self._schema, None, standing[0]), standing[1]
        found: list[Any] = []
        for own in statement.split(parameters) if self.is_distributed else (parameters,):
            if call is None:
                arguments = [*statement.arguments(own), *asked]
            else:
                arguments = call.arguments(prepared(statement, own, self._schema, distributed=True))
            if calls.is_open():
                with calls.statement(sql, self._place):
                    rows = await self._connection.fetch(sql, *arguments, timeout=timeout_s)
            else:
                rows = await self._connection.fetch(sql, *arguments, timeout=timeout_s)
            found += rows if call is None else rows_of(statement, rows[0]["answer"])
        return found

    async def command(self, statement: Statement[ParametersT], parameters: ParametersT) -> None:
        """Runs one statement, which on a cluster has another node do it, in a transaction there.

        Its rows are what nodes answered: success and result. What one refused is raised as if it
        had been asked itself, so that what passes is repeated.
        """
        for answer in await self.fetch(statement, parameters):
            if not answer["success"]:
                raise asyncpg.InternalServerError(answer["result"])


def _own_version() -> str:
    try:
        return version("adkpg")
    except PackageNotFoundError:  # a copy of the folder that no installer knows of
        return "(not installed)"


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
            "ADKPG_DIRECT_URL is embedded, before which there is no pooler; leave it out."
        )
    return direct


def _resolve(url: str | None, settings: Settings) -> address.Address | None:
    if url is not None and url.strip().rstrip("/") not in ("", "adkpg:"):
        return address.parse(url)
    if settings.database_url is None:
        return None
    return address.parse(settings.database_url.get_secret_value())
