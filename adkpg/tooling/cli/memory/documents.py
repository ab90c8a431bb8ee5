"""``adkpg memory add``: documents that searches find alongside what users said."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

import adkpg
from adkpg.tooling.cli.answers import answer, fail, reader
from adkpg.tooling.cli.connection import connected
from adkpg.tooling.cli.options import app, as_json, user_or_app
from adkpg.tooling.terminal import bar

if TYPE_CHECKING:
    from adkpg.documents.files import File


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="FILE...")
@app
@user_or_app()
@click.option("--topic", "topics", multiple=True, help="A topic of these documents; repeatable.")
@as_json
@connected
async def add(
    database: adkpg.Database,
    names: tuple[str, ...],
    app_name: str,
    user_id: str | None,
    topics: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Add documents, or replace those of the same name.

    Markdown and plain text in UTF-8. A directory stands for the .md, .txt and .rst files below it.
    A document is named by its path as given here, so update it from the same directory. Pieces that
    the file no longer contains are deleted.

    \b
    Example:
      adkpg memory add handbook.md docs/ --app my_agent --topic policy
      adkpg memory add 'notes/**/*.txt' --app my_agent --user alice
    """
    from adkpg.documents.files import files, read

    chosen = files(names)
    documents = adkpg.documents.Documents(reader(database))
    reports = []
    failed = []
    with bar("Storing") as shown:
        for done, file in enumerate(chosen):
            shown(done, len(chosen))
            try:
                text, modified = await asyncio.to_thread(read, file.path), _modified(file)
            except adkpg.errors.InvalidInput as exc:
                failed.append(str(exc))
                continue
            reports.append(
                await documents.add(
                    app_name=app_name,
                    user_id=user_id,
                    source=file.source,
                    text=text,
                    topics=topics,
                    modified=modified,
                )
            )
    waiting = await _embed(database, app_name, user_id)
    added = [asdict(report) for report in reports]
    answer(
        {"documents": added, "waiting": waiting, "failed": failed},
        ("ADDED", "UNCHANGED", "REMOVED", "SOURCE"),
        [(each.added, each.unchanged, each.removed, each.source) for each in reports],
        as_json=as_json,
        nothing="No document was added.",
    )
    if failed:
        fail(failed)


def _modified(file: File) -> float:
    try:
        return file.path.stat().st_mtime
    except OSError as exc:
        raise adkpg.errors.InvalidInput(
            f"{file.path} went away ({exc.strerror}); add it again."
        ) from exc


async def _embed(database: adkpg.Database, app_name: str, user_id: str | None) -> int:
    """Embeds what was stored, under a bar; returns how much waits on, and says why."""
    from adkpg.keys import scope_user
    from adkpg.memory.vectors.vectors import Vectors

    async def waiting() -> int:
        queue = adkpg.Jobs(database, work="embed")
        whose = adkpg.Users.APP_WIDE if user_id is None else user_id
        return (await queue.backlog(app_name=app_name, user_id=whose)).waiting

    embedder = adkpg.PgVectorMemoryService(database).embedder
    if embedder is not None and (total := await waiting()):
        vectors = Vectors(database, embedder)
        try:
            await vectors.require_active(app_name)
            with bar("Embedding") as shown:
                done = 0
                shown(done, total)
                while stored := await vectors.embed_user(
                    app_name, scope_user(user_id), eager=True, batches=1
                ):
                    done += stored
                    shown(done, total)
        except (adkpg.errors.ModelError, adkpg.errors.ModelNotActive) as exc:
            click.echo(
                "Warning: the added documents are found by their words, but wait for vectors: "
                f"{exc} `adkpg worker` catches up.",
                err=True,
            )
    return await waiting()
