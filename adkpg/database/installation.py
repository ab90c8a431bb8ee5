"""Installation: adkpg's tables in one schema of one database, checked, migrated, distributed."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine

from adkpg.database import grants, row_security
from adkpg.database.attempts import LOOK, Attempt, Attempts
from adkpg.database.cluster import distribution
from adkpg.database.cluster.errors import REFUSED
from adkpg.database.cluster.node import Cluster
from adkpg.database.cluster.routing import Routed
from adkpg.database.connections import Connections
from adkpg.database.driver import MISSING, Fault
from adkpg.database.migrating import migrations
from adkpg.database.sending import Direct, Sending
from adkpg.errors import Busy, DatabaseError, ExtensionMissing, SchemaError

logger = logging.getLogger(__name__)

_LONGEST_QUESTION_S = 5.0
_USERS_WRITE = {None: None, "app": False, "users": True}


class Installation:
    """adkpg's tables in one schema of one database.

    They are verified once, at the first use; again after a statement did not find one.

    Args:
      connections: To the database.
      auto_upgrade: Whether the first use migrates.
      is_standby: Whether they are read on a standby, of which the log says nothing at the start.

    Attributes:
      auto_upgrade: Whether the first use migrates.
      remembers: Whether a service's appends remember, for the line at the start.
    """

    def __init__(
        self, connections: Connections, *, auto_upgrade: bool, is_standby: bool = False
    ) -> None:
        self._connections = connections
        self._settings = connections.settings
        self._schema = connections.settings.database_schema
        self.auto_upgrade = auto_upgrade
        self._introduced = is_standby
        self._embedders: dict[str, None] = {}
        self.remembers = False
        self._verified = self._distributed = False
        self._direct, self._routed = Direct(self._schema), Routed(self._schema)

    @property
    def sending(self) -> Sending:
        """How statements are sent to the tables, for all that is known."""
        return self._routed if self._distributed else self._direct

    @property
    def known_as_distributed(self) -> bool:
        """Whether Citus distributes the tables, for all that is known."""
        return self._distributed

    def embeds_by(self, embedder: str) -> None:
        """Notes an embedder that a service asks, for the line at the start."""
        self._embedders[embedder] = None

    async def is_distributed(self) -> bool:
        """Whether Citus distributes the tables; asked once."""
        if not self._verified:
            async for attempt in self._attempts():
                with attempt:
                    await self.require(attempt)
                    break
        return self._distributed

    async def require(self, attempt: Attempt) -> None:
        """Verifies the tables at the first use, and migrates them if it is to.

        Raises:
          SchemaError: They are not there, or at another revision.
          Busy: They are being migrated or distributed just now.
        """
        if self._verified:
            return
        async with self._connections.looking(attempt) as engine:
            try:
                await self._verify(engine, upgrading=self.auto_upgrade)
            except SchemaError as exc:
                if await migrations.under_way(engine):
                    raise self._being_changed(attempt) from exc
            else:
                return
            # It may have ended between the two looks.
            await self._verify(engine, upgrading=self.auto_upgrade)

    async def missed(
        self, connection: asyncpg.Connection, attempt: Attempt, exc: asyncpg.PostgresError
    ) -> None:
        """Has the tables verified anew, since a statement did not find one.

        Raises:
          Busy: They are being migrated or distributed just now.
        """
        self._verified = False
        try:
            changing = await connection.fetchval(migrations.UNDER_WAY, timeout=_LONGEST_QUESTION_S)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            connection.terminate()  # it is lost, or in a transaction that failed
            return
        if changing:
            raise self._being_changed(attempt) from exc

    def doubted(self, failure: DatabaseError, attempt: Attempt, *, again: bool) -> bool:
        """Whether a call failed of tables that may be others now, so that it is made anew.

        A table may be there again, or all of them were distributed meanwhile; nothing was written.

        Args:
          failure: What the call raised.
          attempt: The one that failed.
          again: Whether the call is made anew already.

        Raises:
          Busy: The call fails anew of tables that are distributed now: the caller asks otherwise.
        """
        state = getattr(failure.__cause__, "sqlstate", None)
        if state in REFUSED and again and self._distributed:
            raise self._otherwise() from failure
        if again:
            return False
        if state in REFUSED and not attempt.distributed:
            self._verified = False
            return True
        return state in MISSING

    def require_as_before(self, attempt: Attempt) -> None:
        """Refuses to make a read anew as it is, since the tables are distributed meanwhile.

        It would ask one server for what is on several.

        Raises:
          Busy: They are; the caller asks otherwise.
        """
        if attempt.remade and self._distributed:
            raise self._otherwise()

    def _otherwise(self) -> Busy:
        return Busy(
            f"The tables in {self._connections.url} were distributed meanwhile; try again.",
            written=False,
        )

    async def upgrade(self, revision: str = "head") -> None:
        """Migrates up; see `Database.upgrade`."""
        settings, schema = self._settings, self._schema
        async with self._migrating() as engine:
            cluster = await distribution.cluster_of(engine, schema)
            distributed = cluster is not None and cluster.is_distributed
            if distributed and settings.row_level_security:
                distribution.refuse_row_level_security()
            if distributed:
                distribution.require_citus(cluster)
            distribution.require_coordinator(cluster)
            await migrations.upgrade(
                engine, schema, revision, settings.migration_timeout_s, self._fresh_start
            )
            if settings.row_level_security or await row_security.is_on(engine, schema):
                await row_security.switch_on(
                    engine, schema, users_write=_USERS_WRITE[settings.app_state_writers]
                )
            await grants.open_functions(engine, schema)
            if distributed:
                await distribution.distribute(
                    engine, schema, settings.migration_timeout_s, dry_run=False, tables_only=True
                )

    async def downgrade(self, revision: str) -> None:
        """Migrates down; see `Database.downgrade`."""
        self._verified = False
        async with self._migrating() as engine:
            cluster = await distribution.cluster_of(engine, self._schema)
            if cluster is not None and cluster.is_distributed:
                distribution.require_citus(cluster)
            await migrations.downgrade(
                engine,
                self._schema,
                revision,
                self._settings.migration_timeout_s,
                self._fresh_start,
            )

    async def distribute(self, *, dry_run: bool) -> list[str]:
        """Distributes the tables; see `Database.distribute`."""
        async with self._migrating() as engine:
            distribution.require_citus(await distribution.cluster_of(engine, self._schema))
            if self._settings.row_level_security or await row_security.is_on(engine, self._schema):
                distribution.refuse_row_level_security()
            found = await migrations.inspect(engine, self._schema)
            migrations.verify(found, self._connections.url, self._fresh_start)
            steps = await distribution.distribute(
                engine, self._schema, self._settings.migration_timeout_s, dry_run=dry_run
            )
        self._verified = False
        return [step.what for step in steps]

    async def current(self) -> str | None:
        """Returns the revision of the tables, or None if there are none."""
        async for attempt in self._attempts():
            with attempt:
                async with self._connections.looking(attempt) as engine:
                    return await migrations.current(engine, self._schema)
        raise AssertionError("an attempt returns or raises")

    async def check(self) -> None:
        """Verifies the tables, and migrates nothing; see `Database.check`."""
        async for attempt in self._attempts():
            with attempt:
                async with self._connections.looking(attempt) as engine:
                    await self._verify(engine, upgrading=False)
                return

    async def found(self) -> migrations.Found:
        """Returns the versions that are found in the database, whatever they are."""
        async for attempt in self._attempts():
            with attempt:
                async with self._connections.looking(attempt) as engine:
                    return await migrations.inspect(engine, self._schema)
        raise AssertionError("an attempt returns or raises")

    async def cluster(self) -> Cluster | None:
        """Returns what the database is to its cluster, whatever its tables are; None without."""
        with Attempt(self._connections.url, sent=True) as attempt:
            async with self._connections.looking(attempt) as engine:
                return await distribution.cluster_of(engine, self._schema)
        raise AssertionError("an attempt returns or raises")

    async def require_serving(self) -> None:
        """Raises as `check` does, unless the next call makes or migrates the tables itself."""
        try:
            await self.check()
        except ExtensionMissing:
            raise
        except SchemaError:
            if not self.auto_upgrade:
                raise
            found = await self.found()
            if found.taken or (found.revision is not None and not migrations.knows(found.revision)):
                raise

    async def room(self) -> str:
        """Makes sure that the tables could be made here; returns the schema of pgvector.

        Raises:
          AdkpgError: They could not; see `migrations.room`.
        """
        async with self._migrating() as engine:
            return await migrations.room(engine, self._schema)

    async def require_coordinator(self) -> None:
        """Refuses a worker of a Citus cluster, which cannot change distributed tables as a whole.

        Raises:
          ConfigurationError: It leads to one; or ``ADKPG_DIRECT_URL`` to another database.
        """
        if await self.is_distributed():
            async with self._migrating() as engine:
                distribution.require_citus(await distribution.cluster_of(engine, self._schema))

    async def require_held_role(self) -> None:
        """Refuses a role that passes policies, if there are to be any.

        Raises:
          ConfigurationError: Row-level security is on, and Postgres holds the role to none.
        """
        if self._settings.row_level_security:
            with Attempt(self._connections.url, sent=True) as attempt:
                async with self._connections.looking(attempt) as engine:
                    await row_security.verify_role(engine)

    async def require_everybodys_rows(self) -> bool:
        """Returns whether the tables have row-level security; refuses a role it hides rows from.

        Raises:
          PermissionDenied: They have, and this role may not enter the scope of all users.
        """
        with Attempt(self._connections.url, sent=True) as attempt:
            async with self._connections.looking(attempt) as engine:
                guarded = await row_security.is_on(engine, self._schema)
                if guarded:
                    await row_security.enter_every_scope(engine, self._schema)
        return guarded

    @asynccontextmanager
    async def _migrating(self) -> AsyncIterator[AsyncEngine]:
        with Attempt(sent=True) as attempt:
            async with self._connections.migrating(attempt) as engine:
                yield engine

    def _attempts(self) -> Attempts:
        return Attempts(self._connections, None, LOOK, self._settings.retry_timeout_s)

    @property
    def _fresh_start(self) -> str:
        if self._connections.server is not None:
            return (
                f"remove the folder {self._connections.server.directory} with all data in it, or "
                "set ADKPG_EMBEDDED_DIR to another one"
            )
        if self._schema == "public":  # others' tables would go with adkpg's
            return "set ADKPG_DATABASE_SCHEMA to a schema of adkpg's own, run adkpg db upgrade"
        return (
            f"run DROP SCHEMA {self._schema} CASCADE in {self._connections.url}, which drops all "
            "data in it, then: adkpg db upgrade"
        )

    def _being_changed(self, attempt: Attempt) -> Busy:
        attempt.fault = Fault.AWAY
        return Busy(
            f"The tables in {self._connections.url} are migrated or distributed just now; try "
            "again when that is done.",
            written=False,
        )

    async def _verify(self, engine: AsyncEngine, *, upgrading: bool) -> None:
        # It only reads: no BEGIN to wait for, and no ROLLBACK that would outlast a cancellation.
        engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        found, upgraded = await migrations.inspect(engine, self._schema), False
        guarded = self._settings.row_level_security
        try:
            migrations.verify(found, self._connections.url, self._fresh_start)
            if found.citus:
                await self._look_at_cluster(engine)
            if guarded:
                await row_security.verify(engine, self._schema)
        except SchemaError:
            if not upgrading:
                raise
            await self.upgrade()
            upgraded = True
            if found.citus:
                await self._look_at_cluster(engine)
            if guarded:
                await row_security.verify(engine, self._schema)
        self._verified = True
        if not self._introduced:
            self._introduced = True
            self._introduce(await migrations.inspect(engine, self._schema) if upgraded else found)

    async def _look_at_cluster(self, engine: AsyncEngine) -> None:
        """Finds out how statements are sent.

        Raises:
          SchemaError: The tables are distributed in part.
          ConfigurationError: They are, and there is to be row-level security.
        """
        cluster = await distribution.cluster_of(engine, self._schema)
        before, distributed = self._distributed, bool(cluster and cluster.kinds)
        if distributed:
            guarded = self._settings.row_level_security
            await distribution.verify(engine, self._schema, row_level_security=guarded)
            self._routed.users = await distribution.users_of_parts(engine, self._schema)
        self._distributed = distributed
        if distributed and not before:
            # A server process may send no function to another node any more, once Citus has refused
            # to plan what was sent to it.
            self._connections.renew()

    def _introduce(self, found: migrations.Found) -> None:
        """Says once where this process works, and with what."""
        logger.info(
            "adkpg %s: %s, schema %s at revision %s, Postgres %d.%d, pgvector %s, embedder %s, "
            "remembering %s, at most %d connections per event loop%s",
            _own_version(),
            self._connections.url,
            self._schema,
            found.revision,
            *divmod(found.postgres, 10_000),
            found.pgvector,
            " and ".join(self._embedders) or "none",
            "on" if self.remembers else "off",
            self._connections.use()[2],
            ", row-level security" if self._settings.row_level_security else "",
        )


def _own_version() -> str:
    try:
        return version("adkpg")
    except PackageNotFoundError:  # a copy of the folder that no installer knows of
        return "(not installed)"
