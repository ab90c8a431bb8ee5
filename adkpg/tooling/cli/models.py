"""``adkpg models``: the embedding models, and which one each app is searched with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

import click

import adkpg.tooling
from adkpg.tooling.cli.answers import answer, say
from adkpg.tooling.cli.connection import connected, database_url, run
from adkpg.tooling.cli.options import app, as_json
from adkpg.tooling.cli.removal import Removal, removes
from adkpg.tooling.terminal import show

DIMENSIONS = click.IntRange(1, 4_000)
"""Lengths of vectors that Postgres can index; `adkpg.tables` takes long to import."""

dimensions_of = click.option(
    "--dimensions",
    type=DIMENSIONS,
    help="Length of its vectors, if several models have the name.",
)


@click.group()
def models() -> None:
    """List, add, activate and drop embedding models.

    Vectors of several models are stored alongside each other. Each app is searched with one, its
    active model: the first embedding sets it, `adkpg reembed` changes it.

    \b
    Example:
      adkpg models list
    """


@models.command("list")
@click.option("--app", "app_name", help="Only the models that have vectors of this app.")
@as_json
@connected
async def list_(database: adkpg.Database, *, app_name: str | None, as_json: bool) -> None:
    """List the models, and how many vectors each has of every app.

    COVERED is the share of the app's memories that have a vector of the model.

    \b
    Example:
      adkpg models list
      adkpg models list --app my_agent --json | jq '.models[].name'
    """
    found = await adkpg.tooling.models.Models(database).list_models()
    nothing = "There are no models yet; the first embedding registers its own."
    if app_name is not None and found:
        of_app = (tuple(app for app in each.apps if app.app_name == app_name) for each in found)
        pairs = zip(found, of_app, strict=True)
        found = tuple(replace(model, apps=its) for model, its in pairs if its)
        nothing = f"No model has vectors of app {app_name!r}."
    value = {"models": [*map(_jsonable, found)]}
    answer(value, _COLUMNS, _rows(found), as_json=as_json, nothing=nothing)


@models.command()
@click.argument("name")
@click.option(
    "--dimensions",
    required=True,
    type=DIMENSIONS,
    help="Length of its vectors.",
)
@click.option(
    "--index",
    "with_index",
    is_flag=True,
    help="Build its index for users with more than ADKPG_EXACT_LIMIT memories; needs the role that "
    "migrates.",
)
@as_json
@connected
async def add(
    database: adkpg.Database, name: str, dimensions: int, *, with_index: bool, as_json: bool
) -> None:
    """Register a model, and build its index if asked.

    Services register theirs themselves; this command is for the index. Built before
    `adkpg reembed`, the index is complete when the app is switched. Idempotent.

    \b
    Example:
      adkpg models add text-embedding-3-large --dimensions 3072 --index
    """
    # Imported here, as no other command of these needs it.
    from adkpg.memory.vectors.index import require_owner

    models = adkpg.tooling.models.Models(database)
    if with_index:  # refused before anything is written
        await require_owner(database)
    await models.add(name, dimensions=dimensions)
    indexed = await models.index(name, dimensions=dimensions) if with_index else None
    sentence = f"Model {name!r} ({dimensions} dimensions) is registered."
    if indexed is not None:
        sentence += f"\nVectors put into its index: {indexed}."
    added = {"name": name, "dimensions": dimensions, "indexed_vectors": indexed}
    say(sentence, added, as_json=as_json)


@models.command()
@click.argument("name")
@app
@dimensions_of
@click.option(
    "--force",
    is_flag=True,
    help="Switch even if memories lack a vector of the model: they are queued, and found by "
    "words until then.",
)
@as_json
@connected
async def activate(
    database: adkpg.Database,
    name: str,
    app_name: str,
    dimensions: int | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Search an app with another model from now on.

    Without --force, the model must have a vector of every memory. The previous model has them after
    `adkpg reembed`, so you can go back.

    \b
    Example:
      adkpg models activate all-MiniLM-L6-v2-int8 --app my_agent
    """
    missing = await adkpg.tooling.models.Models(database).activate(
        name, app_name=app_name, dimensions=dimensions, force=force
    )
    queued = f" {missing} memories are queued to be embedded." if missing else ""
    sentence = f"App {app_name!r} is searched with model {name!r} now.{queued}"
    say(sentence, {"app_name": app_name, "model": name, "queued": missing}, as_json=as_json)


@models.command()
@click.argument("name")
@dimensions_of
@removes
@database_url
def drop(name: str, dimensions: int | None, database_url: str | None, **consent: bool) -> None:
    """Delete a model with its vectors and its index.

    Refused while an app is searched with it.

    \b
    Example:
      adkpg models drop all-MiniLM-L6-v2-int8 --dry-run
    """

    def remove(dry_run: bool) -> list[adkpg.tooling.models.Model]:
        async def go(database: adkpg.Database) -> list[adkpg.tooling.models.Model]:
            models = adkpg.tooling.models.Models(database)
            found = [
                model
                for model in await models.list_models()
                if model.name == name and dimensions in (None, model.dimensions)
            ]
            if not dry_run or not found:  # an unknown model is told by its own sentence
                await models.drop(name, dimensions=dimensions)
            return found

        return run(database_url, go)

    Removal(
        remove=remove,
        show=lambda found: show(_COLUMNS, _rows(found)),
        jsonable=lambda found: {"models": [*map(_jsonable, found)]},
        question=f"Delete model {name!r} with its vectors and its index?",
        nothing=f"There is no model {name!r}.",
    ).carry_out(**consent)


_COLUMNS = ("MODEL", "DIMENSIONS", "INDEX", "APP", "ACTIVE", "VECTORS", "COVERED")


def _rows(models: Iterable[adkpg.tooling.models.Model]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for model in models:
        own = (model.name, model.dimensions, "yes" if model.indexed else "")
        rows += [
            (
                *own,
                *(app.app_name, "yes" if app.active else "", app.vectors),
                f"{_share(app):.1%}" if app.memories else "",
            )
            for app in model.apps
        ] or [(*own, "", "", 0, "")]
    return rows


def _share(app: adkpg.tooling.models.Coverage) -> float:
    """The share of an app's memories that have a vector, in [0, 1]."""
    return app.vectors / app.memories if app.memories else 1.0


def _jsonable(model: adkpg.tooling.models.Model) -> dict[str, object]:
    apps = [{**asdict(app), "covered": _share(app)} for app in model.apps]
    return {
        "name": model.name,
        "dimensions": model.dimensions,
        "indexed": model.indexed,
        "vectors": sum(app.vectors for app in model.apps),
        "active_in": [app.app_name for app in model.apps if app.active],
        "apps": apps,
    }
