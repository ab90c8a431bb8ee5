"""``adkpg memory config|jobs|index``: how an app's memories are kept."""

import json
from dataclasses import asdict
from typing import get_args

import click

from adkpg.cli.connection import database_url, run
from adkpg.cli.memory_options import app, as_json
from adkpg.cli.progress import bar
from adkpg.database import Database
from adkpg.memory.queue.jobs import Backlog, Jobs, Task
from adkpg.memory.service import PgVectorMemoryService
from adkpg.memory.write.configuration import set_text_search_config, text_search_config
from adkpg.terminal import cell, console, table


@click.command()
@click.argument("config", required=False, metavar="[CONFIG]")
@app
@click.option("--by-script", is_flag=True, help="Go by each text's script again.")
@as_json
@database_url
def config(
    config: str | None, app_name: str, by_script: bool, as_json: bool, database_url: str | None
) -> None:
    """Print or set the language of an app's words.

    It is a text search configuration of Postgres: german, french, simple. Without one, a text's
    script chooses, and ADKPG_TEXT_SEARCH_CONFIG where that says nothing. Setting one derives the
    words of all the app's memories anew in one transaction: searches go on, and whoever writes
    memories waits until it is done.

    \b
    Example:
      adkpg memory config --app my_agent
      adkpg memory config german --app my_agent
      adkpg memory config --by-script --app my_agent
    """
    if config is not None and by_script:
        raise click.UsageError("CONFIG and --by-script exclude each other.")

    async def go(database: Database) -> tuple[str | None, int | None]:
        if config is None and not by_script:
            return await text_search_config(database, app_name), None
        with bar("Deriving words") as shown:
            return config, await set_text_search_config(database, app_name, config, progress=shown)

    own, written = run(database_url, go)
    if as_json:
        click.echo(json.dumps({"config": own, "written": written}))
        return
    click.echo(own or "by script")
    if written is not None:
        click.echo(f"Memories with new words: {written}.")


@click.command()
@click.option("--app", "app_name", help="The app's name, with --user.")
@click.option("--user", "user_id", help="Only this user's.  [default: everybody's]")
@click.option("--revive", is_flag=True, help="First make due again what was given up.")
@as_json
@database_url
def jobs(
    app_name: str | None,
    user_id: str | None,
    revive: bool,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Show what is still to be done with memories.

    Memories wait to be embedded, and for facts to be drawn from them. Those that failed are tried
    again; dead ones were given up.

    \b
    Example:
      adkpg memory jobs
      adkpg memory jobs --app my_agent --user alice --revive
    """
    if (app_name is None) != (user_id is None):
        raise click.UsageError("--app and --user go together; leave both out for everybody's.")

    async def look(database: Database) -> tuple[int, list[Backlog]]:
        queues = [Jobs(database, task) for task in get_args(Task)]
        revived = sum([await queue.revive(app_name, user_id) for queue in queues if revive])
        return revived, [await queue.backlog(app_name, user_id) for queue in queues]

    revived, backlogs = run(database_url, look)
    if as_json:
        found = [asdict(backlog) for backlog in backlogs]
        click.echo(json.dumps({"revived": revived, "jobs": found}))
        return
    if revive:
        click.echo(f"Revived: {revived}.")
    shown = table("TASK", "WAITING", "FAILED", "DEAD", "ERROR")
    for backlog in backlogs:
        counts = (backlog.waiting, backlog.failed, backlog.dead)
        shown.add_row(backlog.task, *map(str, counts), cell(backlog.error or ""))
    console().print(shown)


@click.command()
@database_url
def index(database_url: str | None) -> None:
    """Index users with more than ADKPG_EXACT_LIMIT memories.

    Their searches by meaning then answer from an HNSW index; everybody else's are exact and need
    none. Searches go on meanwhile. Idempotent; needs the role that migrates.

    \b
    Example:
      adkpg memory index
    """

    async def build(database: Database) -> int:
        return await PgVectorMemoryService(database).index_large_scopes()

    click.echo(f"Vectors put into the index: {run(database_url, build)}.")
