"""``adkpg memory add|sources``: documents that are found beside what users said."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from adkpg.cli.connection import database_url, run
from adkpg.cli.memory_options import app, as_json, json_object, user
from adkpg.cli.memory_rows import id_table, time_of
from adkpg.cli.progress import bar
from adkpg.database import Database
from adkpg.documents.files import File, files, read
from adkpg.documents.service import Documents, Report, Source
from adkpg.errors import EmbeddingError, InvalidInput, ModelNotActive
from adkpg.keys import scope_user
from adkpg.memory.queue.jobs import Jobs
from adkpg.memory.service import PgVectorMemoryService
from adkpg.terminal import cell, console, printable

_LOOK_S = 0.2


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="FILE...")
@app
@user
@click.option("--topic", "topics", multiple=True, help="What they are about; may be repeated.")
@click.option(
    "--importance",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="A factor of their scores, 1 at 0.5.",
)
@click.option("--metadata", callback=json_object, metavar="JSON", help="Kept with each piece.")
@as_json
@database_url
def add(
    names: tuple[str, ...],
    app_name: str,
    user_id: str | None,
    topics: tuple[str, ...],
    importance: float,
    metadata: dict[str, Any] | None,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Add documents, or replace those of the same name.

    Markdown and plain text in UTF-8, cut into pieces at headings, paragraphs and sentences. A
    directory stands for the .md, .txt and .rst files below it. A document's name is its path as it
    is given here, so add it from the same directory again: pieces that have not changed keep their
    vectors, what the file no longer says goes.

    \b
    Example:
      adkpg memory add handbook.md docs/ --app my_agent --topic policy
      adkpg memory add 'notes/**/*.txt' --app my_agent --user alice
    """
    chosen = files(names)
    failed: list[str] = []

    async def store(database: Database) -> tuple[list[Report], int]:
        documents = Documents(PgVectorMemoryService(database, mode="text"))
        reports = []
        with bar("Storing") as shown:
            for done, file in enumerate(chosen):
                shown(done, len(chosen))
                try:
                    text = await asyncio.to_thread(read, file.path)
                except InvalidInput as exc:
                    failed.append(str(exc))
                    continue
                reports.append(
                    await documents.add(
                        app_name=app_name,
                        user_id=user_id,
                        source=file.source,
                        text=text,
                        topics=topics,
                        importance=importance,
                        metadata=metadata,
                        modified=_modified(file),
                    )
                )
        return reports, await _embed(database, app_name, user_id)

    reports, waiting = run(database_url, store)
    if as_json:
        added = [asdict(report) for report in reports]
        click.echo(json.dumps({"documents": added, "waiting": waiting, "failed": failed}))
    elif reports:
        shown = id_table("SOURCE", "ADDED", "UNCHANGED", "REMOVED")
        for report in reports:
            counts = (report.added, report.unchanged, report.removed)
            shown.add_row(cell(report.source), *map(str, counts))
        console().print(shown)
    for sentence in failed:
        click.echo(f"Error: {printable(sentence)}", err=True)
    if failed:
        raise click.exceptions.Exit(1)


@click.command()
@app
@user
@click.option(
    "--limit",
    default=1000,
    show_default=True,
    type=click.IntRange(min=1),
    help="At most so many documents.",
)
@click.option("--after-source", default="", metavar="NAME", help="Those behind this one.")
@as_json
@database_url
def sources(
    app_name: str,
    user_id: str | None,
    limit: int,
    after_source: str,
    as_json: bool,
    database_url: str | None,
) -> None:
    """List documents by name, with their pieces.

    \b
    Example:
      adkpg memory sources --app my_agent
    """

    async def read_sources(database: Database) -> list[Source]:
        documents = Documents(PgVectorMemoryService(database, mode="text"))
        return list(
            await documents.list(
                app_name=app_name, user_id=user_id, limit=limit, after=after_source
            )
        )

    listed = run(database_url, read_sources)
    if as_json:
        click.echo(json.dumps({"sources": [asdict(each) for each in listed]}))
        return
    shown = id_table("SOURCE", "PIECES", "TIME")
    for each in listed:
        shown.add_row(cell(each.source), str(each.chunks), cell(time_of(each.time)))
    console().print(shown)


def _modified(file: File) -> float:
    try:
        return file.path.stat().st_mtime
    except OSError as exc:
        raise InvalidInput(f"{file.path} went away ({exc.strerror}); add it again.") from exc


async def _embed(database: Database, app_name: str, user_id: str | None) -> int:
    """Embeds what was stored, under a bar; returns how much waits on, and says why."""
    scope = scope_user(user_id)
    memory = PgVectorMemoryService(database)
    queue = Jobs(database, "embed")
    total = (await queue.backlog(app_name, scope)).waiting
    if memory.embedder is not None and total:
        try:
            await memory.required_vectors().require_active(app_name)
            with bar("Embedding") as shown:
                embedding = asyncio.create_task(
                    memory.embed_pending(app_name=app_name, user_id=scope)
                )
                await _watched(embedding, queue, app_name, scope, shown, total)
        except (EmbeddingError, ModelNotActive) as exc:
            click.echo(
                f"Warning: what was added is found by its words, but waits for vectors: {exc} "
                "`adkpg worker` catches up.",
                err=True,
            )
    return (await queue.backlog(app_name, scope)).waiting


async def _watched(
    work: asyncio.Task[int],
    queue: Jobs,
    app_name: str,
    scope: str,
    shown: Callable[[int, int], None],
    total: int,
) -> None:
    try:
        while not work.done():
            shown(max(total - (await queue.backlog(app_name, scope)).waiting, 0), total)
            await asyncio.wait({work}, timeout=_LOOK_S)
    finally:
        work.cancel()
    await work
