"""Archives: adkpg's tables in one file, as pg_dump's custom format has them, and back."""

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from adkpg.database import LOOK, Database, row_security
from adkpg.database.migrating import migrations
from adkpg.errors import ConfigurationError, SchemaError
from adkpg.tables import REGISTER, metadata
from adkpg.tooling.backup import statements
from adkpg.tooling.backup.process import Process, Processes
from adkpg.tooling.backup.programs import Programs
from adkpg.tooling.backup.script import Script
from adkpg.tooling.backup.vocabulary import own_functions

Progress = Callable[[int, int], None]

_VACUUM_TIMEOUT_S = 3_600.0
_LINES_SHOWN = 1_000
_OWN = frozenset(
    {REGISTER, migrations.EARLIER_REGISTER, *(each.name for each in metadata.sorted_tables)}
)
# What other roles, subscribers and disks have of the tables is of one server.
_LEFT_OUT = (
    *("--no-owner", "--no-privileges", "--no-publications", "--no-security-labels"),
    *("--no-tablespaces", "--no-table-access-method"),
)
_DUMPING = re.compile(rb"pg_dump: dumping contents of table")


@dataclass(frozen=True)
class Archive:
    """What a backup holds.

    Attributes:
      file: Where it is.
      revision: The tables'.
      rows: Number of rows by table, without the table of the revision.
      functions: The names of the functions.
    """

    file: Path
    revision: str
    rows: Mapping[str, int]
    functions: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Server:
    """A server, and the programs to work on it.

    Attributes:
      major: Its version.
      programs: Postgres's own, of its version or later.
      environment: Leads them to it.
      guarded: Whether the tables have row-level security.
    """

    major: int
    programs: Programs
    environment: Mapping[str, str]
    guarded: bool


async def back_up(database: Database, file: Path, *, progress: Progress) -> Archive:
    """Writes adkpg's tables to a file as they are at one moment; all others go on meanwhile.

    The file is read once more before it gets its name, so one that is there can be restored. It may
    be read by its owner alone.

    Args:
      database: Where the tables are, at whatever revision.
      file: Replaced, if it exists, once the backup is complete.
      progress: Told how many of how many tables are written.

    Raises:
      SchemaError: There are no tables.
      ConfigurationError: There is no pg_dump for this server; or the tables are distributed, and
        this is a worker's database.
      DatabaseError: It failed; the message ends with its words.
    """
    if await database.current() is None:
        raise SchemaError(
            f"There are no tables of adkpg in schema {database.schema} of {database.url}, so there "
            "is nothing to back up; correct the URL or ADKPG_DATABASE_SCHEMA."
        )
    await _require_whole(database)
    tables = await counted(database)
    server = await _server(database)
    with _replacing(file) as partial:
        dump = [
            server.programs.program("pg_dump"),
            *("--format=custom", "--no-password", "--verbose", *_LEFT_OUT),
            *(f"--schema={database.schema}", f"--file={partial}"),
        ]
        if await database.current() == migrations.expected():
            # Of another version's tables it is not known which are adkpg's.
            others = tables.keys() - _OWN
            dump += [f"--exclude-table={database.schema}.{_pattern(name)}" for name in others]
        if server.guarded:
            dump.append("--enable-row-security")  # in every scope, or pg_dump reads nothing

        def work(processes: Processes) -> None:
            with processes.take(
                Process(dump, environment=server.environment, errors=True)
            ) as running:
                for done, _ in enumerate(filter(_DUMPING.match, running.lines()), 1):
                    progress(done, len(tables))

        await Processes.run(work)
        archive = await read(database, partial)
        if migrations.knows(archive.revision):
            archive = await read(database, partial, runs=True)
    return replace(archive, file=file)


async def read(database: Database, file: Path, *, runs: bool = False) -> Archive:
    """Reads a backup to its end, and returns what it holds.

    Args:
      database: It names the schema, and the server whose programs read the file.
      file: Where it is.
      runs: Whether to refuse what a restore would.

    Raises:
      ConfigurationError: It is no backup of this schema, or holds what tables of adkpg do not need.
      DatabaseError: It cannot be read.
    """
    server = await _server(database)
    script = Script(database.schema, runs=runs)
    restore = [
        server.programs.program("pg_restore"),
        "--file=-",
        *_LEFT_OUT,
        str(file),
    ]

    def work(processes: Processes) -> None:
        with processes.take(Process(restore, speaks=True)) as running:
            script.read(running.lines())

    await Processes.run(work)
    if script.revision is None:
        raise ConfigurationError(
            f"The file {file} holds no backup of the schema {database.schema}; set "
            "ADKPG_DATABASE_SCHEMA to the schema that was backed up, or name another file."
        )
    rows = _without_revision(script.rows)
    return Archive(file, script.revision, rows, frozenset(script.functions))


async def require_restorable(database: Database) -> str:
    """Refuses a database whose tables a restore could not replace; changes nothing.

    Returns:
      The schema that pgvector is in, or would be, as SQL has it.

    Raises:
      ConfigurationError: They are distributed by Citus, or it is a worker's database; or it cannot
        hold tables of adkpg at all.
      SchemaError: This role may make nothing in the schema; or others have adkpg's names there.
      ExtensionMissing: There is no pgvector that adkpg can use, or this role may not create it.
      ReadOnly: The server takes no writes, or none of this role.
    """
    cluster = await database.installation.cluster()
    if cluster is None or (cluster.is_coordinator and not cluster.is_distributed):
        return await database.installation.room()
    what = (
        "is on a worker of a Citus cluster, where no tables can be created"
        if not cluster.is_coordinator
        else f"has tables in the schema {database.schema} that Citus distributes over nodes, and a "
        "backup holds tables of one server"
    )
    raise ConfigurationError(
        f"The database {database.url} {what}. Nothing was changed; restore into a database of the "
        "coordinator without distributed tables, such as an empty one, and run there: adkpg db "
        "distribute"
    )


async def restore(database: Database, archive: Archive, *, progress: Progress) -> dict[str, int]:
    """Makes adkpg's tables what a backup holds: all of it, or, after any error, nothing.

    One transaction drops adkpg's tables, restores, and counts the rows of each table. Then
    tables of an older revision are migrated, and all are vacuumed and analysed.

    Args:
      database: Where to; what others have in its schema stays.
      archive: As `read` returned it.
      progress: Told how many of how many rows are restored.

    Returns:
      How many rows there are now, by table.

    Raises:
      SchemaError: The backup is of a revision that this version does not know.
      ConfigurationError: There is no pg_restore for this server; or Citus distributes the tables.
      DatabaseError: It failed, and nothing was changed; the message ends with the server's words.
    """
    if not migrations.knows(archive.revision):
        raise SchemaError(
            f"The backup is of revision {archive.revision}, which this version of adkpg does not "
            "know; upgrade the adkpg package, or restore it with the version that wrote it."
        )
    await database.installation.require_held_role()
    pgvector = await require_restorable(database)
    (schema,) = await database.run.fetch(
        statements.select_schema(schema=database.schema), policy=LOOK
    )
    server = await _server(database)
    script = Script(database.schema, runs=True, pgvector=pgvector)
    programs = server.programs
    restore = [
        programs.program("pg_restore"),
        *("--file=-", *_LEFT_OUT, str(archive.file)),
    ]
    psql = [programs.program("psql"), "--no-psqlrc", "--quiet", "--no-password"]
    psql += ["--set=ON_ERROR_STOP=1", "--file=-"]

    def work(processes: Processes) -> None:
        with (
            processes.take(Process(psql, environment=server.environment, reads=True)) as runs,
            processes.take(Process(restore, speaks=True)) as running,
        ):
            begin = statements.begin(
                database.schema,
                pgvector,
                exists=schema["there"],
                tables=_OWN | archive.rows.keys(),
                functions=own_functions(database.schema) | archive.functions,
            )
            runs.write(begin.encode())
            for number, line in enumerate(script.lines(running.lines(), server_major=server.major)):
                runs.write(line)
                if number % _LINES_SHOWN == 0:
                    done = sum(_without_revision(script.rows).values())
                    progress(done, sum(archive.rows.values()))
            running.complete()  # without what commits, nothing is restored
            runs.write(statements.end(database.schema, script.rows).encode())

    await Processes.run(work)
    await database.upgrade()
    rows = await replaced(database, archive)
    for name in rows:
        await database.run.execute(
            statements.vacuum(database.schema, name), timeout_s=_VACUUM_TIMEOUT_S
        )
    return _without_revision(rows)


async def replaced(database: Database, archive: Archive) -> dict[str, int]:
    """Returns how many rows each table has that restoring a backup would drop; see `counted`."""
    names = _OWN | archive.rows.keys()
    return {name: rows for name, rows in (await counted(database)).items() if name in names}


async def counted(database: Database) -> dict[str, int]:
    """Returns how many rows each table of the schema has; none without tables.

    Raises:
      DatabaseUnavailable: There is no connection, or a node of a cluster is away.
      PermissionDenied: Policies hide rows from this role.
    """
    tables = await database.run.fetch(statements.select_tables(schema=database.schema), policy=LOOK)
    guarded = await database.installation.require_everybodys_rows()
    rows: dict[str, int] = {}
    for name in (each["name"] for each in tables):
        count = statements.count_rows(database.schema, name, guarded=guarded)
        timeout_s = database.settings.migration_timeout_s
        (found,) = await database.run.fetch(count, timeout_s=timeout_s, policy=LOOK)
        rows[name] = found["rows"]
    return rows


@contextmanager
def _replacing(file: Path) -> Iterator[Path]:
    """Yields a new file next to one, which takes its name once it is complete."""
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    os.close(descriptor)
    partial = Path(name)
    try:
        yield partial
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


async def _require_whole(database: Database) -> None:
    """Refuses a worker of a cluster: it knows no comments, statistics and HNSW indexes of tables.

    Raises:
      ConfigurationError: It is one.
    """
    cluster = await database.installation.cluster()
    if cluster is not None and cluster.is_distributed and not cluster.is_coordinator:
        raise ConfigurationError(
            f"The database {database.url} is on a worker of a Citus cluster, which does not know "
            "everything that belongs to the tables; name the coordinator in the database URL, "
            "and back them up through it."
        )


async def _server(database: Database) -> _Server:
    major = (await database.installation.found()).postgres // 10_000
    environment = await database.connections.environment()
    (strings,) = await database.run.fetch(statements.select_strings(), policy=LOOK)
    if not strings["standard"]:
        _add_options(environment, "-c standard_conforming_strings=on")
    guarded = await database.installation.require_everybodys_rows()
    if guarded:
        _add_options(environment, row_security.EVERY_SCOPE)
    programs = Programs.for_server(major, embedded=database.url == "embedded")
    return _Server(major, programs, environment, guarded)


def _pattern(name: str) -> str:
    """Returns a table's name as pg_dump takes it for that name alone."""
    quoted = name.replace('"', '""')
    return f'"{quoted}"'


def _add_options(environment: dict[str, str], options: str) -> None:
    environment["PGOPTIONS"] = f"{environment.get('PGOPTIONS', '')} {options}".lstrip()


def _without_revision(rows: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in rows.items() if name != REGISTER}
