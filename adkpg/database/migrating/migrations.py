"""Migrations: the schema's revisions, run through Alembic by library and command line alike.

Alembic's ``context`` and ``op`` belong to the process, and Postgres lets two processes create the
same tables simultaneously. So one migration runs at a time. In this process a lock sees to that; in
the database an advisory lock of a transaction does, which a second connection keeps open. It ends
with its connection, also where a pooler lies between, and being idle it holds no snapshot that
``CREATE INDEX CONCURRENTLY`` would wait for. Both are polled, as a blocked lock would stop the
event loop here.

A revision is one transaction. It waits for locks that others hold only briefly, since every later
transaction waits for it, and then begins again.
"""

import asyncio
import io
import logging
import random
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple, TypeVar

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from alembic.util import CommandError
from sqlalchemy import Connection, column, event, func, select, table, text
from sqlalchemy.exc import DBAPIError, PendingRollbackError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.schema import CreateSchema

from adkpg.database.cluster import node as cluster
from adkpg.database.pooler import is_direct
from adkpg.database.pools import clone
from adkpg.errors import (
    Busy,
    ConfigurationError,
    DatabaseUnavailable,
    ExtensionMissing,
    ReadOnly,
    SchemaError,
)
from adkpg.tables import FUNCTIONS, REGISTER, TRIGGERED, metadata

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_PACKAGE = Path(__file__).resolve().parents[2]
_ALEMBIC = threading.Lock()
_LOCK_KEY = 0x61646B7067  # "adkpg"
UNDER_WAY = (
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted"  # noqa: S608 - numbers
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    f" AND classid = {_LOCK_KEY >> 32} AND objid = {_LOCK_KEY & 0xFFFFFFFF})"
)
"""Whether a process migrates or distributes this database's tables now, on this server."""

_POLL_S = 0.05
_LONGEST_LOCK_WAIT = "300ms"  # and so long all others may have to wait behind a migration
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
# A line of functions: text, since a call would cost each write.
_IS_FIND_TABLES = re.compile(r"^( *)\{find_tables\}$", re.MULTILINE)
_FIND_TABLES = """\
-- Tables are found where the caller says that they are, since a schema can be renamed; and not
-- among those that another client of a pooler left in pg_temp.
IF strpos(current_setting('search_path'), home || ',') <> 1
   OR right(current_setting('search_path'), 7) <> 'pg_temp' THEN
    PERFORM set_config('search_path', concat_ws(
        ', ', home, nullif(current_setting('search_path'), ''), 'pg_temp'
    ), true);
END IF;"""
_FORBIDDEN = "42501"
_NO_SCHEMA = "3F000"
_IN_THE_WAY = {"55P03", "40P01"}
EARLIER_REGISTER = "alembic_version"
"""Where unreleased versions noted the revision: a name that is others', too."""

ENCODING = "UTF8"
"""The encoding of databases that hold every text; SQL_ASCII would take it, and find no word."""

_NAMED = 5  # in a message
_OLDEST_POSTGRES = 15
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


def function(name: str, schema: str) -> str:
    """Returns the SQL that creates one of `adkpg.tables.FUNCTIONS` in a schema."""
    written = (scripts() / "functions" / f"{name}.sql").read_text("utf-8")
    written = _IS_FIND_TABLES.sub(lambda at: indent(_FIND_TABLES, at[1]), written)
    return written.replace("{schema}", f'"{schema}"')


def expected() -> str:
    """Returns the revision that this version of adkpg works with."""
    head = ScriptDirectory.from_config(_config("adkpg")).get_current_head()
    if head is None:
        raise ConfigurationError(f"There are no migrations in {scripts()}; reinstall adkpg.")
    return head


def knows(revision: str | None) -> bool:
    """Whether there is a migration to this revision, and so from it to the newest."""
    scripts = ScriptDirectory.from_config(_config("adkpg"))
    return any(script.revision == revision for script in scripts.walk_revisions())


def works_with(scripts: ScriptDirectory, revision: str) -> str:
    """Returns the revisions whose code works with the tables of one: ``oldest..revision``.

    A revision script with ``additive = True`` leaves everything in place that its predecessor's
    code reads and writes.
    """
    script = scripts.get_revision(revision)
    while getattr(script.module, "additive", False) and isinstance(script.down_revision, str):
        script = scripts.get_revision(script.down_revision)
    return f"{script.revision}..{revision}"


@dataclass(frozen=True)
class Found:
    """The state of adkpg in a database.

    Attributes:
      revision: The tables'; None if there are none.
      works_with: The oldest revision whose code works with the tables; None if it is not noted.
      postgres: The server's version as a number, such as 180006.
      pgvector: Its version; None if it is not installed.
      pgvector_schema: The Postgres schema that it is installed in.
      visible: Whether the search_path finds its types.
      usable: Whether the role may use its schema.
      role: Whose search_path that is.
      citus: Whether the extension Citus is installed.
      encoding: The database's.
      client_encoding: This connection's.
      schema: Where the tables are looked for.
      taken: What has their names there already, if they are not there.
    """

    revision: str | None
    works_with: str | None
    postgres: int
    pgvector: str | None
    pgvector_schema: str | None
    visible: bool
    usable: bool
    role: str
    citus: bool = False
    encoding: str = ENCODING
    client_encoding: str = ENCODING
    schema: str = "adkpg"
    taken: tuple[str, ...] = ()


def verify(found: Found, place: str, fresh_start: str) -> None:
    """Accepts only tables that this version works with, and a server and pgvector that it can use.

    Args:
      found: As `inspect` returned it.
      place: The database's address without password, for messages.
      fresh_start: How to start over in this database, for messages.

    Raises:
      ConfigurationError: The server is too old, or an encoding is not UTF8.
      SchemaError: There are no tables yet, or others have their names.
      SchemaError: They are at another revision; the message names both.
      ExtensionMissing: pgvector is missing, too old, or not in the search_path.
    """
    wanted = expected()
    require_supported(found)
    if found.revision is None:
        _require_free(found)
        raise SchemaError(
            f"adkpg's tables do not exist in {place} (expected revision {wanted}); run: "
            "adkpg db upgrade"
        )
    if not _is_later_and_works(found):
        _require_known(found.revision, fresh_start)
        if found.revision != wanted:
            raise SchemaError(
                f"adkpg's tables in {place} are at revision {found.revision}, but this version "
                f"expects {wanted}; run: adkpg db upgrade"
            )
    _require_usable(found)


def _is_later_and_works(found: Found) -> bool:
    """Whether a later version of adkpg made the tables so that this one works with them, too."""
    return not knows(found.revision) and knows(found.works_with)


def _require_known(revision: str, fresh_start: str) -> None:
    """Refuses a revision that no migration of this version starts from."""
    if knows(revision):
        return
    wanted = expected()
    found = f"adkpg's tables are at revision {revision}, but this version expects {wanted}"
    number = re.match("[0-9]+", revision)
    if number is not None and number[0] <= wanted[: len(number[0])]:
        raise SchemaError(
            f"{found}; an unreleased adkpg made them, and no migration leads from them: export "
            f"the data with that version (adkpg export), {fresh_start}, and last: adkpg import"
        )
    raise SchemaError(f"{found}; upgrade the adkpg package")


def require_supported(found: Found) -> None:
    """Refuses a server or a database that cannot hold adkpg's tables.

    Raises:
      ConfigurationError: The server is too old, or an encoding is not UTF8.
    """
    if found.postgres < _OLDEST_POSTGRES * 10_000:
        raise ConfigurationError(
            f"The server is Postgres {found.postgres // 10_000}, and adkpg needs "
            f"{_OLDEST_POSTGRES} or later; connect to a newer server, or upgrade this one."
        )
    if found.encoding != ENCODING:
        raise ConfigurationError(
            f"The database's encoding is {found.encoding}, and adkpg needs {ENCODING}; create "
            f"another with CREATE DATABASE ... ENCODING '{ENCODING}' TEMPLATE template0, and "
            "connect to that one."
        )
    if found.client_encoding != ENCODING:
        raise ConfigurationError(
            f"The connection's client_encoding is {found.client_encoding}, and adkpg needs "
            f"{ENCODING}; leave client_encoding out of the database URL or the engine's "
            "server_settings."
        )


def _require_free(found: Found) -> None:
    """Refuses a schema where others have adkpg's names, as ADK's own tables have."""
    if found.taken:
        others = "adkpg" if found.schema != "adkpg" else "adkpg_agents"
        raise SchemaError(
            f"The schema {found.schema} has {_some(found.taken)} already, which adkpg did not "
            f"make; set ADKPG_DATABASE_SCHEMA to a schema of adkpg's own, such as {others}."
        )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    shown = [*names[:_NAMED], *([f"{more} more"] if more > 0 else [])]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


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
            f"{'.'.join(map(str, _OLDEST_PGVECTOR))} or later; install it on the server "
            f"({_package(found)}), then run ALTER EXTENSION vector UPDATE in this database."
        )
    if not found.usable:
        raise ExtensionMissing(
            f"Role {found.role} may not use the schema {found.pgvector_schema}, where pgvector is; "
            f"let its owner run GRANT USAGE ON SCHEMA {found.pgvector_schema} TO {found.role}."
        )
    if not found.visible:
        raise ExtensionMissing(
            f"pgvector is in the schema {found.pgvector_schema}, which the search_path of role "
            f"{found.role} leaves out; run ALTER ROLE {found.role} SET search_path = "
            + ", ".join(dict.fromkeys(('"$user"', "public", found.pgvector_schema or "public")))
        )


async def inspect(engine: AsyncEngine, schema: str) -> Found:
    """Returns what `verify` looks at."""
    async with engine.connect() as connection:
        return await connection.run_sync(_inspect, schema)


def _inspect(connection: Connection, schema: str) -> Found:
    registers, *found = connection.execute(_FOUND, {"schema": schema}).one()
    note: dict[str, str] = {}
    if registers:
        # As an object, since an earlier adkpg's table has not all of the columns.
        version = table(registers[0], schema=schema).alias()
        row = select(func.to_jsonb(version.table_valued()))
        note = connection.scalars(row).one_or_none() or {}
    revision: str | None = note.get("version_num")
    oldest, _, noted_for = (note.get("works_with") or "").partition("..")
    taken: list[str] = []
    if revision is None:
        names = _names()
        others = connection.scalars(_TAKEN, {"schema": schema, **names}).all()
        taken = sorted(others, key=lambda name: (name not in names["tables"], name))
    works_with = oldest if noted_for == revision else None
    looked_at = Found(revision, works_with, *found)
    return replace(looked_at, schema=schema, taken=tuple(taken))


def _names() -> dict[str, list[str]]:
    """Returns how the tables, their indexes and the functions are called that a migration makes."""
    tables = [each.name for each in metadata.sorted_tables]
    relations = [*tables]
    for each in metadata.sorted_tables:
        relations += [str(index.name) for index in each.indexes]
        relations += [str(constraint.name) for constraint in each.constraints]
    return {"tables": tables, "relations": relations, "functions": [*FUNCTIONS, *TRIGGERED]}


async def current(engine: AsyncEngine, schema: str) -> str | None:
    """Returns the revision the database is at, or None if adkpg was never installed there."""
    return (await inspect(engine, schema)).revision


async def under_way(engine: AsyncEngine) -> bool:
    """Whether a process migrates or distributes this database's tables now, on this server."""
    async with engine.connect() as connection:
        return bool(await connection.scalar(text(UNDER_WAY)))


async def require_same_database(served: AsyncEngine, direct: AsyncEngine) -> None:
    """Raises unless both lead to one database, or to nodes of one Citus cluster's.

    Raises:
      ConfigurationError: They do not.
      DatabaseUnavailable: The cluster's coordinator, which alone tells clusters apart, is away.
    """
    engines = (served, direct)
    found = [await _identity(engine) for engine in engines]
    if found[0] != found[1] and all(each.group is not None for each in found):
        # Nodes know each other by names, which another cluster's may have, too.
        found = [await _of_coordinator(*each) for each in zip(engines, found, strict=True)]
    if found[0] != found[1]:
        raise ConfigurationError(
            "ADKPG_DIRECT_URL leads to another database than the database URL; correct it, or "
            "leave it out."
        )


class _Identity(NamedTuple):
    """Which database it is.

    Attributes:
      system: The server's data directory.
      oid: The database's in it; of a cluster's coordinator, None.
      name: The database's.
      group: The group of a node of Citus: 0 is the coordinator; without Citus, None.
    """

    system: int
    oid: int | None
    name: str
    group: int | None


async def _identity(engine: AsyncEngine) -> _Identity:
    async with engine.connect() as connection:
        system, oid, name, citus = (await connection.execute(_IDENTITY)).one()
        group = await connection.scalar(cluster.GROUP) if citus else None
    return _Identity(system, oid, name, group)


async def _of_coordinator(engine: AsyncEngine, node: _Identity) -> _Identity:
    """Returns which database the coordinator of a node has, by the node's own account."""
    system = node.system
    if node.group:
        async with engine.connect() as connection:
            success, result = (await connection.execute(_COORDINATOR)).one()
        if not success:
            raise DatabaseUnavailable(
                f"The coordinator of the Citus cluster cannot be asked ({result}); check that it "
                "runs, and try again.",
                written=False,
            )
        system = int(result)
    # Nodes call the databases of a cluster by one name.
    return _Identity(system, None, node.name, 0)


async def upgrade(
    engine: AsyncEngine, schema: str, revision: str, timeout_s: float, fresh_start: str
) -> None:
    """Migrates up to a revision; idempotent, and safe from many processes simultaneously.

    Tables that a later version made, and that this one works with, are left as they are.

    Raises:
      ConfigurationError: There is no such revision, the server is too old, or an encoding is
        not UTF8.
      ExtensionMissing: The server has no pgvector that adkpg can use, or this role may not create
        it.
      ReadOnly: The server takes no writes, or none of this role.
      SchemaError: This role may make nothing in the schema, or not the schema.
      SchemaError: The tables are at a revision that nothing migrates, or others have their names.
      Busy: Others were in the way for longer than `timeout_s`.
    """
    _require_named(revision)

    def prepare(connection: Connection) -> list[str]:
        found = _inspect(connection, schema)
        require_supported(found)
        if found.revision is not None:
            if revision == "head" and _is_later_and_works(found):
                return []
            _require_known(found.revision, fresh_start)
        _require_free(found)
        scripts = ScriptDirectory.from_config(_config(schema))
        ahead = [script.revision for script in scripts.iterate_revisions(revision, found.revision)]
        if ahead or found.pgvector is None:
            _make_room(connection, found)
        else:
            _require_usable(found)
        connection.commit()
        return ahead[::-1]

    async with alone(engine, timeout_s) as turn:
        for step in await turn.run(prepare):
            await turn.run(partial(_move, schema, command.upgrade, step))


async def room(engine: AsyncEngine, schema: str) -> str:
    """Makes sure that tables could be made in a schema, and leaves everything as it is.

    Returns:
      The schema that pgvector is in, or would be, as SQL has it.

    Raises:
      ConfigurationError: The server is too old, or an encoding is not UTF8.
      ReadOnly: The server takes no writes, or none of this role.
      ExtensionMissing: There is no pgvector that adkpg can use, or this role may not create it.
      SchemaError: This role may make nothing in the schema, or not the schema.
    """

    def attempt(connection: Connection) -> str:
        try:
            found = _inspect(connection, schema)
            require_supported(found)
            return _make_room(connection, found)
        finally:
            connection.rollback()

    async with engine.connect() as connection:
        return await connection.run_sync(attempt)


def _make_room(connection: Connection, found: Found) -> str:
    """Makes what the tables need, in this transaction; returns the schema of pgvector."""
    role, database, standby, read_only = connection.execute(_WRITER).one()
    if read_only and not standby:  # a standby refuses by itself
        raise ReadOnly(
            f"The transactions of role {role} in database {database} are read-only; run ALTER ROLE "
            f"{role} IN DATABASE {database} SET default_transaction_read_only = off, or leave that "
            "setting out of the database URL.",
            written=False,
        )
    if found.pgvector is None:
        _create_pgvector(connection, found)
        found = _inspect(connection, found.schema)
    _require_usable(found)
    if lacking := connection.scalars(_LACKING).all():
        raise ExtensionMissing(
            f"Role {role} may not use the {' and the '.join(lacking)}; let their owner run "
            + " and ".join(f"GRANT USAGE ON {each} TO {role}" for each in lacking)
            + ", then run: adkpg db upgrade"
        )
    require_schema(connection, found.schema)
    assert found.pgvector_schema is not None
    return found.pgvector_schema


async def downgrade(
    engine: AsyncEngine, schema: str, revision: str, timeout_s: float, fresh_start: str
) -> None:
    """Migrates down to a revision; ``base`` drops every table of adkpg and what they hold.

    Raises:
      ConfigurationError: There is no such revision.
      SchemaError: The tables are at a revision that nothing migrates.
      Busy: Others were in the way for longer than `timeout_s`.
    """
    _require_named(revision)

    def prepare(connection: Connection) -> list[str]:
        found = _inspect(connection, schema)
        connection.commit()
        scripts = ScriptDirectory.from_config(_config(schema))
        if found.revision is None:
            scripts.get_revision(revision)
            return []
        _require_known(found.revision, fresh_start)
        undone = scripts.iterate_revisions(found.revision, revision, select_for_downgrade=True)
        return [str(script.down_revision or "base") for script in undone]

    async with alone(engine, timeout_s) as turn:
        for step in await turn.run(prepare):
            await turn.run(partial(_move, schema, command.downgrade, step))


def _move(
    schema: str, move: Callable[[Config, str], None], revision: str, connection: Connection
) -> None:
    config = _config(schema)
    config.attributes["connection"] = connection
    move(config, revision)
    logger.info("Schema %s was migrated to revision %s.", schema, revision)


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


class _Turn:
    """The one migration that runs now.

    Args:
      connection: Where it runs.
      guard: Where the lock is held that keeps others out.
      deadline: Until when it may wait for others.
    """

    def __init__(
        self, connection: AsyncConnection, guard: asyncpg.Connection, deadline: "_Deadline"
    ) -> None:
        self._connection = connection
        self._guard = guard
        self._deadline = deadline

    async def run(self, work: Callable[[Connection], _T]) -> _T:
        """Runs work that one transaction does or nothing, again until no lock is in its way."""
        pause_s = _SHORTEST_PAUSE_S
        while True:
            await self._guard.execute("SELECT")  # raises if the lock is lost
            try:
                return await self._connection.run_sync(work)
            except (CommandError, RevisionError) as exc:
                raise ConfigurationError(
                    f"Alembic refused the migration: {exc}; `adkpg db current` shows the revision."
                ) from exc
            except PendingRollbackError as exc:  # Alembic went on with a connection that was lost
                raise exc.__context__ or exc from None
            except DBAPIError as exc:
                if getattr(exc.orig, "sqlstate", None) not in _IN_THE_WAY:
                    raise
                await self._connection.rollback()
                if self._deadline.left_s < pause_s:
                    raise Busy(
                        "Other transactions held locks on adkpg's tables for "
                        f"{self._deadline.timeout_s:g} s; end those that have been open for long "
                        "(pg_stat_activity shows them), or raise ADKPG_MIGRATION_TIMEOUT_S.",
                        written=False,
                    ) from exc
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


class _Deadline:
    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._at = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        return self._at - time.monotonic()


@asynccontextmanager
async def alone(engine: AsyncEngine, timeout_s: float) -> AsyncIterator[_Turn]:
    """Yields the turn of the one migration that runs now.

    Raises:
      Busy: Another one runs for longer than `timeout_s`.
    """
    deadline = _Deadline(timeout_s)
    own = clone(engine)  # else, with one connection per pool, it would wait for its guard
    try:
        async with (
            _process_lock(deadline),
            _database_lock(engine, deadline) as guard,
            own.connect() as connection,
        ):
            yield _Turn(await _unhurried(connection), guard, deadline)
    finally:
        await own.dispose()


@asynccontextmanager
async def _process_lock(deadline: _Deadline) -> AsyncIterator[None]:
    await _polled(lambda: _ready(_ALEMBIC.acquire(blocking=False)), deadline)
    try:
        yield
    finally:
        _ALEMBIC.release()


@asynccontextmanager
async def _database_lock(
    engine: AsyncEngine, deadline: _Deadline
) -> AsyncIterator[asyncpg.Connection]:
    async with engine.connect() as connection:
        # The driver's own, since SQLAlchemy would leave a portal open, and with it its snapshot.
        guard: Any = (await connection.get_raw_connection()).driver_connection

        async def attempt() -> bool:
            await guard.execute(_BEGIN)
            if await guard.execute(_TRY_LOCK) == "SELECT 1":
                return True
            await guard.execute("ROLLBACK")
            return False

        try:
            await _polled(attempt, deadline)
            await guard.execute(_NO_TIMEOUTS.format(local="true"))
            yield guard
        finally:
            with suppress(asyncpg.InterfaceError, asyncpg.PostgresError, OSError):
                await guard.execute("ROLLBACK")  # else the lock ends with the connection


async def _unhurried(connection: AsyncConnection) -> AsyncConnection:
    """Lets a migration's transactions run for long, whatever the role's settings are.

    Through a pooler a setting must end with its transaction, else others would inherit it; so what
    cannot be in one, building an index, keeps the role's.
    """
    await connection.execution_options(isolation_level="READ COMMITTED")
    driver: Any = (await connection.get_raw_connection()).driver_connection
    if await is_direct(driver):
        await driver.execute(_NO_TIMEOUTS.format(local="false"))

    def begun(transaction: Connection) -> None:
        if transaction.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            transaction.exec_driver_sql(_NO_TIMEOUTS.format(local="true"))
            transaction.execute(select(func.set_config("lock_timeout", _LONGEST_LOCK_WAIT, True)))

    event.listen(connection.sync_connection, "begin", begun)
    return connection


async def _ready(value: bool) -> bool:
    return value


async def _polled(attempt: Callable[[], Awaitable[bool]], deadline: _Deadline) -> None:
    try:
        async with asyncio.timeout(deadline.left_s):
            while not await attempt():
                await asyncio.sleep(_POLL_S)
    except TimeoutError as exc:
        raise Busy(
            f"Another migration of this database still ran after {deadline.timeout_s:g} s; wait "
            "for it, or raise ADKPG_MIGRATION_TIMEOUT_S.",
            written=False,
        ) from exc


_AVAILABLE = (
    select(func.count())
    .select_from(table("pg_available_extensions"))
    .where(column("name") == "vector")
)
# An earlier register is adkpg's if memory_lexemes lies beside it: only adkpg has that table.
_FOUND = text(
    "SELECT ARRAY(SELECT c.relname::text FROM pg_class c JOIN pg_namespace s"  # noqa: S608 - own names
    f" ON s.oid = c.relnamespace WHERE s.nspname = :schema AND (c.relname = '{REGISTER}'"
    f" OR c.relname = '{EARLIER_REGISTER}' AND EXISTS (SELECT FROM pg_class beside"
    " WHERE beside.relnamespace = s.oid AND beside.relname = 'memory_lexemes'))"
    f" ORDER BY c.relname <> '{REGISTER}'),"
    " current_setting('server_version_num')::int,"
    " e.extversion, quote_ident(n.nspname), to_regtype('halfvec') IS NOT NULL,"
    " coalesce(has_schema_privilege(n.oid, 'USAGE'), true),"
    " quote_ident(current_user),"
    " EXISTS (SELECT FROM pg_extension WHERE extname = 'citus'),"
    " current_setting('server_encoding'), current_setting('client_encoding')"
    " FROM (VALUES (1)) AS one LEFT JOIN pg_extension e ON e.extname = 'vector'"
    " LEFT JOIN pg_namespace n ON n.oid = e.extnamespace"
)
_TAKEN = text(
    "SELECT c.relname::text FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace"
    " WHERE s.nspname = :schema AND c.relname = ANY (:relations)"
    " UNION SELECT t.typname::text FROM pg_type t JOIN pg_namespace s ON s.oid = t.typnamespace"
    " WHERE s.nspname = :schema AND t.typname = ANY (:tables)"
    " UNION SELECT p.proname::text FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace"
    " WHERE s.nspname = :schema AND p.proname = ANY (:functions)"
)
_WRITER = text(
    "SELECT quote_ident(current_user), quote_ident(current_database()), pg_is_in_recovery(),"
    " current_setting('transaction_read_only')::bool"
)
_LACKING = text(
    "SELECT 'TYPE ' || to_regtype('halfvec')::text"
    " WHERE NOT has_type_privilege(to_regtype('halfvec'), 'USAGE')"
    " UNION ALL SELECT 'LANGUAGE plpgsql' WHERE NOT has_language_privilege('plpgsql', 'USAGE')"
)
_MAKER = text(
    "SELECT quote_ident(current_user), s.oid IS NOT NULL,"
    " has_schema_privilege(s.oid, 'CREATE') AND has_schema_privilege(s.oid, 'USAGE')"
    " FROM (VALUES (1)) AS one LEFT JOIN pg_namespace s ON s.nspname = :schema"
)
_IDENTITY = text(
    "SELECT (pg_control_system()).system_identifier, oid, datname::text,"
    " EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
    " FROM pg_database WHERE datname = current_database()"
)
_COORDINATOR = text(
    "SELECT success, result FROM run_command_on_coordinator("
    "'SELECT system_identifier FROM pg_control_system()')"
)
# Those that this version of Postgres has.
_NO_TIMEOUTS = (
    "SELECT set_config(name, '0', {local}) FROM pg_settings WHERE name IN"
    " ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout',"
    " 'idle_session_timeout', 'lock_timeout')"
)
# READ COMMITTED: a stricter transaction would keep the snapshot of its first statement.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_TRY_LOCK = f"SELECT FROM (SELECT pg_try_advisory_xact_lock({_LOCK_KEY}) AS got) AS lock WHERE got"


def require_schema(connection: Connection, schema: str) -> None:
    """Creates the schema if it is missing, or says in a sentence why it cannot be."""
    role, there, may = connection.execute(_MAKER, {"schema": schema}).one()
    if there and not may:
        raise SchemaError(
            f"Role {role} may make nothing in the schema {schema}; let its owner run GRANT USAGE, "
            f"CREATE ON SCHEMA {schema} TO {role}, then run: adkpg db upgrade"
        )
    if there:
        return
    try:
        connection.execute(CreateSchema(schema, if_not_exists=True))
    except ProgrammingError as exc:
        if getattr(exc.orig, "sqlstate", None) != _FORBIDDEN:
            raise
        raise SchemaError(
            f"Role {role} may not create the schema {schema}; let an administrator run "
            f"CREATE SCHEMA {schema} AUTHORIZATION {role}, then run: adkpg db upgrade"
        ) from exc


def _package(found: Found) -> str:
    """Says where pgvector comes from for the server's own version."""
    major = found.postgres // 10_000
    return (
        f"the package postgresql-{major}-pgvector of PostgreSQL's apt repository, or the image "
        f"pgvector/pgvector:pg{major}"
    )


def _create_pgvector(connection: Connection, found: Found) -> None:
    """Creates the extension, or says in a sentence why it cannot be."""
    if not connection.scalar(_AVAILABLE):
        raise ExtensionMissing(
            f"This server, Postgres {found.postgres // 10_000}, has no pgvector; install it there "
            f"({_package(found)}), then run: adkpg db upgrade"
        )
    try:
        connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
    except DBAPIError as exc:
        connection.rollback()
        role, database = connection.execute(text("SELECT current_user, current_database()")).one()
        if getattr(exc.orig, "sqlstate", None) == _NO_SCHEMA:
            raise ExtensionMissing(
                f"The search_path of role {role} names no schema, so pgvector has none to be in; "
                f'run ALTER ROLE {role} SET search_path = "$user", public'
            ) from exc
        if not isinstance(exc, ProgrammingError):
            raise
        raise ExtensionMissing(
            f"Role {role} may not create the extension pgvector in database {database}; let an "
            "administrator run CREATE EXTENSION vector there, then run: adkpg db upgrade"
        ) from exc
