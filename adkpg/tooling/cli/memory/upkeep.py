"""``adkpg memory config|jobs|index``: how an app's memories are kept."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, get_args

import click

import adkpg
from adkpg.tooling.cli.answers import answer, say
from adkpg.tooling.cli.connection import connected, database_url, run
from adkpg.tooling.cli.options import ALL_USERS, APP_WIDE, any_app, app, as_json, whose
from adkpg.tooling.terminal import bar

if TYPE_CHECKING:
    from adkpg.memory.queue.jobs import Backlog


@click.command()
@click.argument("config", required=False, metavar="[CONFIG]")
@app
@click.option("--by-script", is_flag=True, help="Let each text's script choose again.")
@as_json
@database_url
def config(
    config: str | None, app_name: str, by_script: bool, as_json: bool, database_url: str | None
) -> None:
    """Print or set the language of an app's words.

    It is a text search configuration of Postgres: german, french, simple. Without one, a text's
    script chooses, or else ADKPG_TEXT_SEARCH_CONFIG. Setting one derives the words of all the app's
    memories again, in one transaction: searches continue, and writers of memories wait for it.

    \b
    Example:
      adkpg memory config --app my_agent
      adkpg memory config german --app my_agent
      adkpg memory config --by-script --app my_agent
    """
    if config is not None and by_script:
        raise click.UsageError("CONFIG and --by-script exclude each other.")

    async def go(database: adkpg.Database) -> tuple[str | None, int | None]:
        if config is None and not by_script:
            return await adkpg.text_search_config(database, app_name=app_name), None
        with bar("Deriving words") as shown:
            return config, await adkpg.set_text_search_config(
                database, app_name=app_name, config=config, progress=shown
            )

    own, written = run(database_url, go)
    sentence = own or "by script"
    if written is not None:
        sentence += f"\nMemories with new words: {written}."
    say(sentence, {"config": own, "written": written}, as_json=as_json)


@click.command()
@any_app
@whose(APP_WIDE, missing=ALL_USERS, user="The user's id, with --app.")
@click.option("--revive", is_flag=True, help="Queue the dead letters again.")
@as_json
@database_url
def jobs(
    app_name: str | None,
    user_id: str | adkpg.Users,
    revive: bool,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Show the queues of work on memories.

    Memories wait to be embedded, and turns for facts to be drawn from them. WAITING includes those
    that FAILED before and are retried. DEAD LETTERS failed too often and wait for --revive.

    \b
    Example:
      adkpg memory jobs
      adkpg memory jobs --app my_agent --user alice --revive
    """
    if isinstance(user_id, str) and app_name is None:
        raise click.UsageError("--user needs --app.")

    async def look(database: adkpg.Database) -> tuple[int, list[Backlog]]:
        from adkpg.memory.queue.jobs import WorkKind

        revived = 0
        backlogs = []
        for queue in [adkpg.Jobs(database, work=work) for work in get_args(WorkKind)]:
            if revive:
                revived += await queue.revive(app_name=app_name, user_id=user_id)
            backlogs.append(await queue.backlog(app_name=app_name, user_id=user_id))
        return revived, backlogs

    revived, backlogs = run(database_url, look)
    if revive and not as_json:
        click.echo(f"Revived: {revived}.")
    answer(
        {"revived": revived, "jobs": [asdict(backlog) for backlog in backlogs]},
        ("WORK", "WAITING", "FAILED", "DEAD LETTERS", "ERROR"),
        [(each.work, each.waiting, each.failed, each.dead, each.error or "") for each in backlogs],
        as_json=as_json,
        nothing="",
    )


@click.command()
@as_json
@connected
async def index(database: adkpg.Database, *, as_json: bool) -> None:
    """Index users with more than ADKPG_EXACT_LIMIT memories.

    Their searches by meaning then use an HNSW index, to which workers add later memories. Searches
    continue meanwhile. Idempotent; needs the role that migrates.

    \b
    Example:
      adkpg memory index
    """
    indexed = await adkpg.PgVectorMemoryService(database).index_large_scopes()
    say(f"Vectors put into the index: {indexed}.", {"indexed_vectors": indexed}, as_json=as_json)
