"""Database: one Postgres database with adkpg's tables, as users make it and services share it.

Its parts: `Connections` (where it leads, its pools), `Installation` (its tables), `Runner` (how a
statement runs) and `Replica` (what a standby may answer).
"""

from abc import ABC, abstractmethod
from typing import Any, NoReturn, Self, SupportsIndex

from sqlalchemy.ext.asyncio import AsyncEngine

from adkpg.database import address
from adkpg.database.connections import Connections
from adkpg.database.connector import Password
from adkpg.database.installation import Installation
from adkpg.database.keepers import Keepers
from adkpg.database.replicas.replica import Replica
from adkpg.database.runner import Runner
from adkpg.errors import ConfigurationError
from adkpg.interface.internal import internal
from adkpg.outages.breaker import Breakers
from adkpg.outages.cancellation import uninterrupted
from adkpg.outages.heart import Heart
from adkpg.remember.policy import Remember, RememberPolicy, policy_of
from adkpg.settings import Settings


class Closes(ABC):
    """Closes at the end of ``async with``."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Gives up what it holds; idempotent."""

    def __copy__(self) -> Self:
        """Returns itself: connections are not copied."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Returns itself, as a deep copy of what holds it, such as ADK's context, shares it."""
        return self

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        """Refuses to be pickled, because connections stay in their process.

        Raises:
          TypeError: Always.
        """
        raise TypeError(
            f"{type(self).__name__} has connections, which cannot move to another process; make "
            "another Database with the same arguments there."
        )


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
      breakers: Those of the embedders and extractors that its services ask.
      heart: Gives signs of life of the runs that have their turn.
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
        if engine is not None and url is not None:
            raise ConfigurationError(
                "Database was given an engine and also a URL, password or engine options; give one."
            )
        target = None if engine is not None else _resolve(url, self.settings)
        if auto_upgrade is None:
            auto_upgrade = self.settings.auto_upgrade
        self.connections = Connections(
            target,
            self.settings,
            engine=engine,
            password=password,
            engine_options=engine_options,
        )
        embedded = self.connections.server is not None
        self.installation = Installation(self.connections, auto_upgrade=auto_upgrade or embedded)
        self.installation.remembers = self.captures
        self.run = Runner(self.connections, self.installation)
        self.place = self.connections.place
        self.breakers = Breakers()
        self.keepers = Keepers()
        self.heart = Heart()
        self.standby: Runner | None = None
        if read_url is None and self.settings.read_url is not None and not embedded:
            read_url = self.settings.read_url.get_secret_value()
        if read_url is not None:
            self.standby = _standby(read_url, self.settings, password, engine_options)
            self.run.replica = Replica(
                self.run,
                self.standby,
                lag_s=self.settings.read_lag_s,
                timeout_s=self.settings.read_timeout_s,
            )
            self.keepers.add(self.run.replica.seen)

    @property
    def url(self) -> str:
        """The database's address without password, or ``embedded``; empty if none is named."""
        return self.connections.url

    @property
    def schema(self) -> str:
        """The Postgres schema that holds adkpg's tables."""
        return self.settings.database_schema

    @property
    def auto_upgrade(self) -> bool:
        """Whether the first use migrates: as asked for, and always on the embedded server."""
        return self.installation.auto_upgrade

    @property
    def policy(self) -> RememberPolicy | None:
        """Decides what becomes memory, for every service; None: all that services are given."""
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
                "This Database already has another policy; give the policy once, best as "
                "Database(remember=...)."
            )
        self._policy, self._policy_said = policy, True

    def __repr__(self) -> str:
        named = self.connections.is_named
        return f"Database({self.url!r})" if named else "Database(<none is named>)"

    async def engine(self) -> AsyncEngine:
        """Returns the running loop's engine, and starts the embedded server if it is that one.

        For your own SQL alongside adkpg's; the schema is not checked. Do not dispose it.
        """
        return await self.connections.engine()

    async def check(self) -> None:
        """Raises unless the tables are at the revision this version expects.

        Raises:
          SchemaError: There are no tables yet; the message names the command.
          SchemaError: They are at another revision; the message names both.
          ExtensionMissing: pgvector is missing, too old, or not in the search_path.
        """
        await self.installation.check()

    async def current(self) -> str | None:
        """Returns the revision of the tables in the database, or None if there are none."""
        return await self.installation.current()

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
        try:
            await self.installation.upgrade(revision)
        finally:
            self._changed_everything()

    async def downgrade(self, revision: str) -> None:
        """Migrates the schema down; ``base`` drops every table of adkpg with what it holds.

        Raises:
          ConfigurationError: There is no such revision; or Citus distributes the tables, and it is
            a worker's database.
          Busy: Another migration runs for too long.
          DatabaseUnavailable: There is no connection.
        """
        try:
            await self.installation.downgrade(revision)
        finally:
            self._changed_everything()

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
        return await self.installation.distribute(dry_run=dry_run)

    async def close(self) -> None:
        """Closes the connections of every loop, and this process's share of an embedded server.

        A call that is under way ends with `DatabaseUnavailable`. Idempotent; a closed Database
        opens again at its next use. A cancelled caller waits for the end, too: for what is given
        up, five seconds.
        """
        await uninterrupted(self._close())

    async def _close(self) -> None:
        await self.run.close()
        if self.standby is not None:
            await self.standby.close()

    def _changed_everything(self) -> None:
        """Lets no standby show what was there before a migration."""
        if self.run.replica is not None:
            self.run.replica.wrote({})


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


def _resolve(url: str | None, settings: Settings) -> address.Address | None:
    if url is not None and url.strip().rstrip("/") not in ("", "adkpg:"):
        return address.parse(url)
    if settings.database_url is None:
        return None
    return address.parse(settings.database_url.get_secret_value())


def _standby(
    url: str, settings: Settings, password: Password | None, engine_options: dict[str, Any]
) -> Runner:
    """Returns what runs statements on a standby; the primary answers in its place."""
    try:
        target = address.parse(url, to_read=True)
    except ConfigurationError as exc:
        raise ConfigurationError(f"ADKPG_READ_URL, or read_url, is wrong: {exc}") from None
    if target.embedded:
        raise ConfigurationError(
            "ADKPG_READ_URL is embedded, which has no standby; name one, or leave it out."
        )
    own: dict[str, Any] = {
        "read_url": None,
        "direct_url": None,
        "connect_timeout_s": min(settings.connect_timeout_s, settings.read_timeout_s),
        "retry_timeout_s": 0.0,  # the primary answers in its place, and operators are told soon
    }
    connections = Connections(
        target,
        settings.model_copy(update=own),
        password=password,
        engine_options=engine_options,
    )
    installation = Installation(connections, auto_upgrade=False, is_standby=True)
    return Runner(connections, installation, is_standby=True)
