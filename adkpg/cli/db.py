"""``adkpg db``: the schema of the database."""

import os

import click

from adkpg import migrations
from adkpg.cli.connection import database_url, run
from adkpg.database import Database
from adkpg.embedded.directory import Directory, url_at
from adkpg.settings import Settings


@click.group()
def db() -> None:
    """Create, move and inspect adkpg's tables.

    \b
    Example:
      adkpg db upgrade
    """


@db.command()
@click.argument("revision", default="head", metavar="[REV]")
@database_url
def upgrade(revision: str, database_url: str | None) -> None:
    """Migrate the tables up to REV, by default to the newest.

    Idempotent, and safe to start in many processes at once.

    \b
    Example:
      adkpg db upgrade --database-url postgresql://user:password@localhost/agents
    """

    async def migrate(database: Database) -> str:
        await database.upgrade(revision)
        return await _where(database)

    click.echo(run(database_url, migrate))


@db.command()
@database_url
def current(database_url: str | None) -> None:
    """Print the revision of the tables, or `none`.

    \b
    Example:
      adkpg db current
    """
    click.echo(run(database_url, Database.current) or "none")


@db.command()
@database_url
def check(database_url: str | None) -> None:
    """Exit with 0 if the tables are up to date, else with 1.

    What to type next is then printed on stderr.

    \b
    Example:
      adkpg db check && python my_agent.py
    """
    run(database_url, Database.check)
    click.echo(f"adkpg's tables are at revision {migrations.expected()}, as expected.")


@db.command()
@click.argument("revision", metavar="REV")
@database_url
def downgrade(revision: str, database_url: str | None) -> None:
    """Migrate the tables down to REV.

    `base` drops them all with what they hold.

    \b
    Example:
      adkpg db downgrade base
    """

    async def migrate(database: Database) -> str:
        await database.downgrade(revision)
        return await _where(database)

    click.echo(run(database_url, migrate))


@db.command()
@click.argument("revision", default="head", metavar="[REV]")
def sql(revision: str) -> None:
    """Print the SQL of `upgrade`; never connects.

    It is what `upgrade` would run on an empty database, for those who review or run SQL by hand.

    \b
    Example:
      adkpg db sql > schema.sql
    """
    click.echo(migrations.sql(Settings().database_schema, revision), nl=False)


@db.command()
@database_url
def url(database_url: str | None) -> None:
    """Print the database's address; never connects.

    The password is replaced by ***. For the embedded server it is the address that psql takes
    while the server runs.

    \b
    Example:
      psql "$(adkpg db url --database-url embedded)"
    """
    address = Database(database_url).url
    if address == "embedded":
        address = url_at(Directory.at(Settings().embedded_dir, os.environ).socket_dir)
    click.echo(address)


async def _where(database: Database) -> str:
    revision = await database.current()
    if revision is None:
        return f"{database.url}: there are no tables of adkpg."
    return f"{database.url}: adkpg's tables are at revision {revision}."
