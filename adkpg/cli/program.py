"""The program ``adkpg``: its groups of commands."""

import click

import adkpg
from adkpg.cli.db import db
from adkpg.cli.facts import facts
from adkpg.cli.failure import SentenceGroup
from adkpg.cli.forget import forget
from adkpg.cli.memory import memory
from adkpg.cli.models import models
from adkpg.cli.prune import prune
from adkpg.cli.reembed import reembed
from adkpg.cli.sessions import sessions
from adkpg.cli.worker import worker
from adkpg.demo.command import demo


@click.group(cls=SentenceGroup, context_settings={"max_content_width": 100})
@click.version_option(adkpg.__version__, package_name="adkpg")
def main() -> None:
    """Durable sessions and memory for ADK agents, on Postgres.

    The database is --database-url, else ADKPG_DATABASE_URL; the value `embedded` is the Postgres
    that comes with adkpg[embedded].

    \b
    Example:
      export ADKPG_DATABASE_URL=postgresql://user:password@localhost/agents
      adkpg db upgrade
    """


main.add_command(demo)
main.add_command(db)
main.add_command(sessions)
main.add_command(memory)
main.add_command(facts)
main.add_command(models)
main.add_command(reembed)
main.add_command(worker)
main.add_command(forget)
memory.add_command(prune)
