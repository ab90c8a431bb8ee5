"""Migrations: the schema's revisions, run through Alembic by library and command line alike.

Alembic's ``context`` and ``op`` belong to the process, and Postgres lets two processes create the
same tables simultaneously; so one migration runs at a time, first in this process (a lock), then
in the database (an advisory lock). Both are polled: a blocked lock would stop the event loop here,
and hold a snapshot that ``CREATE INDEX CONCURRENTLY`` waits for there.
"""

import asyncio
import io
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, column, func, select, table, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine

from adkpg.database.pools import clone
from adkpg.errors import (
    Busy,
    ConfigurationError,
    ExtensionMissing,
    SchemaMissing,
    SchemaOutOfDate,
)

_PACKAGE = Path(__file__).resolve().parents[1]
_ALEMBIC = threading.Lock()
_LOCK_KEY = 0x61646B7067  # "adkpg"
_POLL_S = 0.05
_OLDEST_PGVECTOR = (0, 8)  # the first with iterative scans of its index


def scripts() -> Path:
    """Returns the directory of the migration scripts: the wheel's, else the checkout's.

    Raises:
      ConfigurationError: The package was installed without its migrations.
    """
    for place in (_PACKAGE / "_alembic", _PACKAGE.parent / "alembic"):
        if (place / "env.py").is_file():
            return place
    raise ConfigurationError(f"adkpg's migrations are missing next to {_PACKAGE}; reinstall adkpg.")


def expected() -> str:
    """Returns the revision that this version of adkpg works with."""
    head = ScriptDirectory.from_config(_config("adkpg")).get_current_head()
    if head is None:
        raise ConfigurationError(f"There are no migrations in {scripts()}; reinstall adkpg.")
    return head


def knows(revision: str) -> bool:
    """Whether there is a migration to this revision, and so from it to the newest."""
    scripts = ScriptDirectory.from_config(_config("adkpg"))
    return any(script.revision == revision for script in scripts.walk_revisions())


@dataclass(frozen=True)
class Found:
    """The state of adkpg in a database.

    Attributes:
      revision: Of the tables; None if there are none.
      pgvector: Its version; None if it is not installed.
      pgvector_schema: The Postgres schema that it is installed in.
      visible: Whether the search_path finds its types.
      role: Whose search_path that is.
    """

    revision: str | None
    pgvector: str | None
    pgvector_schema: str | None
    visible: bool
    role: str


def verify(found: Found, fresh_start: str) -> None:
    """Accepts only the revision this version works with, and a pgvector that it can use.

    Args:
      found: As `inspect` returned it.
      fresh_start: How to start over in this database, for messages.

    Raises:
      SchemaMissing: There are no tables yet.
      SchemaOutOfDate: They are at another revision; the message names both.
      ExtensionMissing: pgvector is missing, too old, or not in the search_path.
    """
    wanted = expected()
    if found.revision is None:
        raise SchemaMissing(
            f"adkpg's tables do not exist in this database (expected revision {wanted}); "
            "run: adkpg db upgrade"
        )
    _require_known(found.revision, fresh_start)
    if found.revision != wanted:
        raise SchemaOutOfDate(
            f"adkpg's tables are at revision {found.revision}, but this version expects {wanted}; "
            "run: adkpg db upgrade"
        )
    _require_usable(found)


def _require_known(revision: str, fresh_start: str) -> None:
    """Refuses a revision that no migration of this version starts from."""
    known = {
        script.revision for script in ScriptDirectory.from_config(_config("adkpg")).walk_revisions()
    }
    if revision in known:
        return
    wanted = expected()
    found = f"adkpg's tables are at revision {revision}, but this version expects {wanted}"
    number = re.match("[0-9]+", revision)
    if number is not None and number[0] <= wanted[: len(number[0])]:
        raise SchemaOutOfDate(
            f"{found}; an unreleased adkpg made them, and nothing migrates them: {fresh_start}"
        )
    raise SchemaOutOfDate(f"{found}; upgrade the adkpg package")


def _require_usable(found: Found) -> None:
    """Refuses a pgvector that statements fail with."""
    if found.pgvector is None:
        raise ExtensionMissing(
            "This database lost the extension pgvector; let an administrator run "
            "CREATE EXTENSION vector in it."
        )
    if tuple(map(int, re.findall("[0-9]+", found.pgvector)[:2])) < _OLDEST_PGVECTOR:
        raise ExtensionMissing(
            f"pgvector {found.pgvector} is too old, adkpg needs "
            f"{'.'.join(map(str, _OLDEST_PGVECTOR))} or later; install it on the server, then run "
            "ALTER EXTENSION vector UPDATE in this database."
        )
    if not found.visible:
        raise ExtensionMissing(
            f"pgvector is in the schema {found.pgvector_schema}, which the search_path of role "
            f"{found.role} leaves out; run ALTER ROLE {found.role} SET search_path = "
            f'"$user", public, {found.pgvector_schema}'
        )


async def inspect(engine: AsyncEngine, schema: str) -> Found:
    """Returns what `verify` looks at."""
    async with engine.connect() as connection:
        return await connection.run_sync(_inspect, schema)


def _inspect(connection: Connection, schema: str) -> Found:
    pgvector, pgvector_schema, visible, role = connection.execute(_PGVECTOR).one()
    return Found(_revision(connection, schema), pgvector, pgvector_schema, visible, role)


def _revision(connection: Connection, schema: str) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table_schema": schema})
    return context.get_current_revision()


async def current(engine: AsyncEngine, schema: str) -> str | None:
    """Returns the revision the database is at, or None if adkpg was never installed there."""
    async with engine.connect() as connection:
        return await connection.run_sync(_revision, schema)


async def upgrade(
    engine: AsyncEngine, schema: str, revision: str, timeout_s: float, fresh_start: str
) -> None:
    """Migrates up to a revision; idempotent, and safe from many processes simultaneously.

    Raises:
      ConfigurationError: There is no such revision.
      ExtensionMissing: The server has no pgvector that adkpg can use, or this role may not create
        it.
      SchemaOutOfDate: The tables are at a revision that nothing migrates.
      Busy: Another process held the migration lock for longer than `timeout_s`.
    """
    _require_named(revision)

    def migrate(config: Config, connection: Connection) -> None:
        _require_pgvector(connection)
        _require_usable(_inspect(connection, schema))
        connection.commit()
        command.upgrade(config, revision)

    await _alone(engine, schema, timeout_s, fresh_start, migrate)


async def downgrade(
    engine: AsyncEngine, schema: str, revision: str, timeout_s: float, fresh_start: str
) -> None:
    """Migrates down to a revision; ``base`` drops every table of adkpg and what they hold.

    Raises:
      ConfigurationError: There is no such revision.
      Busy: Another process held the migration lock for longer than `timeout_s`.
    """
    _require_named(revision)

    def migrate(config: Config, connection: Connection) -> None:
        command.downgrade(config, revision)

    await _alone(engine, schema, timeout_s, fresh_start, migrate)


def sql(schema: str, revision: str = "head") -> str:
    """Returns the SQL that `upgrade` would run on an empty database; never connects.

    Raises:
      ConfigurationError: There is no such revision.
    """
    _require_named(revision)
    with _ALEMBIC:
        config = _config(schema)
        config.output_buffer = output = io.StringIO()
        try:
            command.upgrade(config, revision, sql=True)
        except CommandError as exc:
            raise ConfigurationError(
                f"Alembic has no SQL for {revision!r} ({exc}); leave the revision out for the "
                "newest."
            ) from exc
        return output.getvalue()


def _require_named(revision: str) -> None:
    # Alembic answers an empty one with a bare AssertionError.
    if not revision:
        raise ConfigurationError(
            "The revision is empty; name one that is not, such as head, the newest."
        )


def _config(schema: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    config.attributes["schema"] = schema
    return config


async def _alone(
    engine: AsyncEngine,
    schema: str,
    timeout_s: float,
    fresh_start: str,
    migrate: Callable[[Config, Connection], None],
) -> None:
    def run(connection: Connection) -> None:
        revision = _revision(connection, schema)
        if revision is not None:
            _require_known(revision, fresh_start)
        connection.commit()
        config = _config(schema)
        config.attributes["connection"] = connection
        migrate(config, connection)

    async with (
        _process_lock(timeout_s),
        _database_lock(engine, timeout_s),
        engine.connect() as connection,
    ):
        try:
            await connection.run_sync(run)
        except CommandError as exc:
            raise ConfigurationError(
                f"Alembic refused the migration: {exc}; `adkpg db current` shows the revision."
            ) from exc


@asynccontextmanager
async def _process_lock(timeout_s: float) -> AsyncIterator[None]:
    await _polled(lambda: _ready(_ALEMBIC.acquire(blocking=False)), timeout_s)
    try:
        yield
    finally:
        _ALEMBIC.release()


@asynccontextmanager
async def _database_lock(engine: AsyncEngine, timeout_s: float) -> AsyncIterator[None]:
    # A pool of its own: with one connection per pool, the migration would wait for its guard.
    guard = clone(engine).execution_options(isolation_level="AUTOCOMMIT")
    try:
        async with guard.connect() as connection:
            await _polled(
                lambda: connection.scalar(select(func.pg_try_advisory_lock(_LOCK_KEY))), timeout_s
            )
            try:
                yield
            finally:
                await connection.scalar(select(func.pg_advisory_unlock(_LOCK_KEY)))
    finally:
        await guard.dispose()


async def _ready(value: bool) -> bool:
    return value


async def _polled(attempt: Callable[[], Awaitable[bool | None]], timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            while not await attempt():
                await asyncio.sleep(_POLL_S)
    except TimeoutError as exc:
        raise Busy(
            f"Another migration of this database still ran after {timeout_s:g} s; wait for it, or "
            "raise ADKPG_MIGRATION_TIMEOUT_S.",
            written=False,
        ) from exc


_AVAILABLE = (
    select(func.count())
    .select_from(table("pg_available_extensions"))
    .where(column("name") == "vector")
)
_INSTALLED = (
    select(func.count()).select_from(table("pg_extension")).where(column("extname") == "vector")
)


_PGVECTOR = text(
    "SELECT e.extversion, quote_ident(n.nspname), to_regtype('halfvec') IS NOT NULL,"
    " quote_ident(current_user)"
    " FROM (VALUES (1)) AS one LEFT JOIN pg_extension e ON e.extname = 'vector'"
    " LEFT JOIN pg_namespace n ON n.oid = e.extnamespace"
)


def _require_pgvector(connection: Connection) -> None:
    """Creates the extension, or says in a sentence why it cannot be."""
    if connection.scalar(_INSTALLED):
        return
    if not connection.scalar(_AVAILABLE):
        raise ExtensionMissing(
            "This Postgres server has no pgvector; install it there (for example Debian's package "
            "postgresql-18-pgvector, or the image pgvector/pgvector:pg18), then run: "
            "adkpg db upgrade"
        )
    try:
        connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        connection.commit()
    except ProgrammingError as exc:
        raise ExtensionMissing(
            "This role may not create the extension pgvector; let an administrator run "
            "CREATE EXTENSION vector in this database, then run: adkpg db upgrade"
        ) from exc
