"""Migrations: the schema's revisions, run through Alembic by library and command line alike.

Alembic's ``context`` and ``op`` belong to the process, and Postgres lets two processes create the
same tables at once; so one migration runs at a time, first in this process (a lock), then in the
database (an advisory lock). Both are polled: a blocked lock would stop the event loop here, and
hold a snapshot that ``CREATE INDEX CONCURRENTLY`` waits for there.
"""

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, column, func, select, table, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine

from adkpg.errors import (
    Busy,
    ConfigurationError,
    ExtensionMissing,
    SchemaMissing,
    SchemaOutOfDate,
)
from adkpg.pools import clone

_PACKAGE = Path(__file__).resolve().parent
_ALEMBIC = threading.Lock()
_LOCK_KEY = 0x61646B7067  # "adkpg"
_POLL_S = 0.05


def scripts() -> Path:
    """Returns the directory of the migration scripts: the wheel's, else the checkout's.

    Raises:
      ConfigurationError: The package was installed without its migrations.
    """
    for place in (_PACKAGE / "_alembic", _PACKAGE.parent / "alembic"):
        if (place / "env.py").is_file():
            return place
    raise ConfigurationError(f"adkpg's migrations are missing beside {_PACKAGE}; reinstall adkpg.")


def expected() -> str:
    """Returns the revision that this version of adkpg works with."""
    head = ScriptDirectory.from_config(_config("adkpg")).get_current_head()
    if head is None:
        raise ConfigurationError(f"There are no migrations in {scripts()}; reinstall adkpg.")
    return head


def verify(found: str | None) -> None:
    """Accepts only the revision this version works with.

    Raises:
      SchemaMissing: There are no tables yet.
      SchemaOutOfDate: They are at another revision; the message names both.
    """
    wanted = expected()
    if found is None:
        raise SchemaMissing(
            f"adkpg's tables do not exist in this database (expected revision {wanted}); "
            "run: adkpg db upgrade"
        )
    if found == wanted:
        return
    known = {
        script.revision for script in ScriptDirectory.from_config(_config("adkpg")).walk_revisions()
    }
    cure = "run: adkpg db upgrade" if found in known else "upgrade the adkpg package"
    raise SchemaOutOfDate(
        f"adkpg's tables are at revision {found}, but this version expects {wanted}; {cure}"
    )


async def current(engine: AsyncEngine, schema: str) -> str | None:
    """Returns the revision the database is at, or None if adkpg was never installed there."""

    def read(connection: Connection) -> str | None:
        context = MigrationContext.configure(connection, opts={"version_table_schema": schema})
        return context.get_current_revision()

    async with engine.connect() as connection:
        return await connection.run_sync(read)


async def upgrade(engine: AsyncEngine, schema: str, revision: str, timeout_s: float) -> None:
    """Migrates up to a revision; idempotent, and safe from many processes at once.

    Raises:
      ConfigurationError: There is no such revision.
      ExtensionMissing: The server has no pgvector, or this role may not create it.
      Busy: Another process held the migration lock for longer than `timeout_s`.
    """
    _require_named(revision)
    await _alone(
        engine, schema, timeout_s, lambda config: command.upgrade(config, revision), pgvector=True
    )


async def downgrade(engine: AsyncEngine, schema: str, revision: str, timeout_s: float) -> None:
    """Migrates down to a revision; ``base`` drops every table of adkpg and what they hold.

    Raises:
      ConfigurationError: There is no such revision.
      Busy: Another process held the migration lock for longer than `timeout_s`.
    """
    _require_named(revision)
    await _alone(engine, schema, timeout_s, lambda config: command.downgrade(config, revision))


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
    migrate: Callable[[Config], None],
    *,
    pgvector: bool = False,
) -> None:
    def run(connection: Connection) -> None:
        config = _config(schema)
        config.attributes["connection"] = connection
        migrate(config)

    async with (
        _process_lock(timeout_s),
        _database_lock(engine, timeout_s),
        engine.connect() as connection,
    ):
        if pgvector:
            await connection.run_sync(_require_pgvector)
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
