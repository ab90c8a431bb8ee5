"""``adkpg models``: the embedding models, and which one each app is searched with."""

import json
from dataclasses import asdict

import click

from adkpg.cli.connection import database_url, run
from adkpg.database import Database
from adkpg.models.service import Coverage, Model, Models
from adkpg.terminal import cell, console, printable, table

dimensions_of = click.option(
    "--dimensions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Length of its vectors, if several models have the name.",
)


@click.group()
def models() -> None:
    """List, add, activate and drop embedding models.

    Vectors of several models are stored side by side; each app is searched with one, the active
    model, which its first embedding sets. `adkpg reembed` changes it.

    \b
    Example:
      adkpg models list
    """


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@database_url
def list_(as_json: bool, database_url: str | None) -> None:
    """List the models, and what each has of every app.

    COVERED is the share of the app's memories that have a vector of the model.

    \b
    Example:
      adkpg models list
      adkpg models list --json | jq '.models[].name'
    """
    found = run(database_url, lambda database: Models(database).list())
    if as_json:
        click.echo(json.dumps({"models": [_jsonable(model) for model in found]}))
        return
    if not found:
        click.echo("There are no models yet; the first embedding registers its own.")
        return
    shown = table("MODEL", "DIMENSIONS", "INDEX", "APP", "ACTIVE", "VECTORS", "COVERED")
    for model in found:
        own = (cell(model.name), str(model.dimensions), "yes" if model.indexed else "")
        if not model.apps:
            shown.add_row(*own, "", "", "0", "")
        for app in model.apps:
            active = "yes" if app.active else ""
            share = "" if app.memories == 0 else f"{_share(app):.1%}"
            shown.add_row(*own, cell(app.app_name), active, str(app.vectors), share)
    console().print(shown)


@models.command()
@click.argument("name")
@click.option(
    "--dimensions",
    required=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Length of its vectors, 1 to 4000.",
)
@click.option(
    "--index",
    "with_index",
    is_flag=True,
    help="Build its index for users with more than ADKPG_EXACT_LIMIT memories; needs the role that "
    "migrates.",
)
@database_url
def add(name: str, dimensions: int, with_index: bool, database_url: str | None) -> None:
    """Register a model, and build its index if asked.

    Services register theirs by themselves; only the index needs this. Built before
    `adkpg reembed`, it is complete when the app is switched. Idempotent.

    \b
    Example:
      adkpg models add text-embedding-3-large --dimensions 3072 --index
    """

    async def register(database: Database) -> int | None:
        models = Models(database)
        await models.add(name, dimensions)
        return await models.index(name, dimensions=dimensions) if with_index else None

    indexed = run(database_url, register)
    click.echo(printable(f"Model {name!r} ({dimensions} dimensions) is registered."))
    if indexed is not None:
        click.echo(f"Vectors put into its index: {indexed}.")


@models.command()
@click.argument("name")
@click.option("--app", "app_name", required=True, help="The app's name.")
@dimensions_of
@click.option(
    "--force",
    is_flag=True,
    help="Also if memories lack a vector of it: they are queued, and found by words until then.",
)
@database_url
def activate(
    name: str, app_name: str, dimensions: int | None, force: bool, database_url: str | None
) -> None:
    """Search an app with another model from now on.

    For a model that has a vector of every memory, as the one before has after `adkpg reembed`.

    \b
    Example:
      adkpg models activate all-MiniLM-L6-v2-int8 --app my_agent
    """
    missing = run(
        database_url,
        lambda database: Models(database).activate(
            name, app_name=app_name, dimensions=dimensions, force=force
        ),
    )
    queued = f" {missing} memories are queued to be embedded." if missing else ""
    click.echo(printable(f"App {app_name!r} is searched with model {name!r} now.{queued}"))


@models.command()
@click.argument("name")
@dimensions_of
@database_url
def drop(name: str, dimensions: int | None, database_url: str | None) -> None:
    """Delete a model with its vectors and its index.

    Refused while an app is searched with it.

    \b
    Example:
      adkpg models drop all-MiniLM-L6-v2-int8
    """
    dropped = run(database_url, lambda database: Models(database).drop(name, dimensions=dimensions))
    click.echo(printable(f"Model {name!r} is dropped, with {dropped} vectors."))


def _share(app: Coverage) -> float:
    """The share of an app's memories that have a vector, in [0, 1]."""
    return app.vectors / app.memories if app.memories else 1.0


def _jsonable(model: Model) -> dict[str, object]:
    apps = [{**asdict(app), "covered": _share(app)} for app in model.apps]
    return {
        "name": model.name,
        "dimensions": model.dimensions,
        "indexed": model.indexed,
        "vectors": sum(app.vectors for app in model.apps),
        "active_in": [app.app_name for app in model.apps if app.active],
        "apps": apps,
    }
