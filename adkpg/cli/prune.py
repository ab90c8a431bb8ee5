"""``adkpg memory prune``: erases memories that expired, faded or are too many."""

import json
from dataclasses import asdict, fields
from datetime import timedelta

import click

from adkpg.cli.connection import database_url, run
from adkpg.database import Database
from adkpg.erasure import Pruned
from adkpg.erasure import prune as prune_memories
from adkpg.erasure.pruning import PRUNED_KINDS
from adkpg.memory.filters import KINDS
from adkpg.terminal import cell, console, table

_REASONS = [field.name for field in fields(Pruned) if field.name not in ("app_name", "user_id")]
_LONGEST_DAYS = 999_999


@click.command()
@click.option("--app", "app_name", help="Only this app's memories.")
@click.option("--user", "user_id", help="Only this user's memories.")
@click.option(
    "--older-than",
    "days",
    metavar="DAYS",
    type=click.FloatRange(0, _LONGEST_DAYS),
    help="What was said longer ago goes.",
)
@click.option(
    "--max-importance",
    type=click.FloatRange(0, 1),
    help="What is as unimportant as this goes; with --older-than only if it is old too.",
)
@click.option(
    "--max-memories",
    type=click.IntRange(min=0),
    help="Each user keeps so many, the most important and latest.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(KINDS),
    help="What those three rules are about; may be repeated.  [default: all but document]",
)
@click.option("--superseded", is_flag=True, help="Facts that others replaced go too.")
@click.option("--yes", is_flag=True, help="Erase; without it nothing is.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@database_url
def prune(
    app_name: str | None,
    user_id: str | None,
    days: float | None,
    max_importance: float | None,
    max_memories: int | None,
    kinds: tuple[str, ...],
    superseded: bool,
    yes: bool,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Erase expired, old, unimportant or surplus memories.

    Expired ones always go, others by the rules that are given. Shows what would go; erases it with
    --yes, in short transactions, together with the facts and summaries drawn from it.

    \b
    Example:
      adkpg memory prune
      adkpg memory prune --app my_agent --older-than 365 --max-importance 0.3
      adkpg memory prune --app my_agent --max-memories 5000 --yes
    """

    async def go(database: Database) -> list[Pruned]:
        return await prune_memories(
            database,
            app_name,
            user_id,
            older_than=None if days is None else timedelta(days=days),
            max_importance=max_importance,
            max_memories=max_memories,
            kinds=kinds or PRUNED_KINDS,
            superseded=superseded,
            dry_run=not yes,
        )

    pruned = run(database_url, go)
    if as_json:
        click.echo(json.dumps({"dry_run": not yes, "pruned": [asdict(each) for each in pruned]}))
        return
    if not pruned:
        click.echo("No memory is to go.")
        return
    shown = table("APP", "USER", *(reason.upper() for reason in _REASONS), "TOTAL")
    for each in pruned:
        shown.add_row(
            cell(each.app_name),
            cell("(app-wide)" if each.user_id is None else each.user_id),
            *(str(getattr(each, reason)) for reason in _REASONS),
            str(each.total),
        )
    console().print(shown)
    if not yes:
        click.echo("Nothing was erased; add --yes to erase this.")
