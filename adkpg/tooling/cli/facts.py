"""``adkpg facts``: whether facts are drawn from what users say."""

from __future__ import annotations

import click

import adkpg
from adkpg.tooling.cli.answers import reader, say
from adkpg.tooling.cli.connection import connected
from adkpg.tooling.cli.options import app, as_json


@click.group()
def facts() -> None:
    """Switch the extraction of facts on or off for an app.

    `adkpg worker --extract` draws them.

    \b
    Example:
      adkpg facts enable --app my_agent
      adkpg worker --extract gemini-3.5-flash
    """


@facts.command()
@app
@as_json
@connected
async def enable(database: adkpg.Database, app_name: str, *, as_json: bool) -> None:
    """Switch extraction on for an app.

    It takes effect in all processes that serve the app. Turns that are already remembered are
    queued too, unless extraction was on before. Idempotent.

    \b
    Example:
      adkpg facts enable --app my_agent
    """
    await _stored(database).enable(app_name)
    waiting = (await adkpg.Jobs(database, work="extract").backlog(app_name=app_name)).waiting
    sentence = f"Facts are drawn for app {app_name!r}; turns that wait for it: {waiting}."
    say(sentence, {"enabled": True, "waiting": waiting}, as_json=as_json)


@facts.command()
@app
@as_json
@connected
async def disable(database: adkpg.Database, app_name: str, *, as_json: bool) -> None:
    """Switch extraction off for an app.

    It takes effect in all processes that serve the app. Facts stay; queued turns leave the queue,
    and `enable` queues them again. Idempotent.

    \b
    Example:
      adkpg facts disable --app my_agent
    """
    await _stored(database).disable(app_name)
    say(f"No facts are drawn for app {app_name!r}.", {"enabled": False}, as_json=as_json)


def _stored(database: adkpg.Database) -> adkpg.facts.Facts:
    """Facts to be switched, without a model of any kind."""
    return adkpg.facts.Facts(reader(database))
