"""The program ``adkpg``: its groups of commands, and what it says when the library raises."""

from typing import Any

import click

import adkpg
from adkpg.tooling.cli.agents import api_server, run, web
from adkpg.tooling.cli.backup import backup, restore
from adkpg.tooling.cli.connection import hide_passwords
from adkpg.tooling.cli.console import console
from adkpg.tooling.cli.db import db
from adkpg.tooling.cli.demo import demo
from adkpg.tooling.cli.facts import facts
from adkpg.tooling.cli.forget import forget
from adkpg.tooling.cli.memory import memory
from adkpg.tooling.cli.models import models
from adkpg.tooling.cli.operations import apps, audit, doctor, stats
from adkpg.tooling.cli.reembed import reembed
from adkpg.tooling.cli.sessions import sessions
from adkpg.tooling.cli.transfer import export, import_
from adkpg.tooling.cli.worker import worker


class Program(click.Group):
    """A group whose commands answer adkpg's errors with their sentence on stderr and an exit code.

    The code is 2 if a value that was given is refused, else 1. Other exceptions are defects and
    keep their traceback.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the chosen command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as exc:
            if not isinstance(exc, adkpg.errors.AdkpgError):
                raise
            refused = isinstance(exc, adkpg.errors.InvalidInput)
            raise (click.UsageError if refused else click.ClickException)(str(exc)) from exc


@click.group(
    cls=Program,
    context_settings={"max_content_width": 100},
    commands=[
        demo,
        db,
        sessions,
        memory,
        facts,
        models,
        reembed,
        worker,
        doctor,
        stats,
        web,
        api_server,
        run,
        console,
        apps,
        audit,
        forget,
        import_,
        export,
        backup,
        restore,
    ],
    epilog="""\b
Conventions:
  --json             prints JSON on standard output, and nothing else.
  --limit, --cursor  list page by page; --cursor is given the `next_cursor`
                     of the page before.
  SPAN, TIME         are a span (30d, 12h, 2w, 90m) and a time in ISO 8601.
  --yes, --dry-run   A removal shows what it would delete, and asks. --yes
                     removes without a question, --dry-run only shows. Without
                     a terminal to ask on, only --yes removes.
  exit codes         0: done. 1: failed, with one sentence on standard error.
                     2: wrong usage, or a value is refused.
  retries            If the database is away, a command tries for 3 s, or
                     for ADKPG_RETRY_TIMEOUT_S if set. Commands that serve
                     or run agents try for 30 s.
""",
)
@click.version_option(adkpg.__version__, package_name="adkpg")
def main() -> None:
    """Durable sessions and memory for ADK agents, on Postgres.

    The database is --database-url, after the command, else ADKPG_DATABASE_URL; the value
    `embedded` is the Postgres that comes with adkpg[embedded].

    \b
    Example:
      export ADKPG_DATABASE_URL=postgresql://user:password@localhost/agents
      adkpg db upgrade
    """
    hide_passwords()
