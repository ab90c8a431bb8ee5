"""``adkpg memory list|get|count|update|delete``: memories one by one."""

import json
from typing import Any

import click

from adkpg.cli.connection import database_url, run
from adkpg.cli.memory_options import app, as_json, filtered, json_object, user
from adkpg.cli.memory_rows import add_row, id_table, jsonable, text_of
from adkpg.cli.progress import bar
from adkpg.database import Database
from adkpg.documents.service import Documents
from adkpg.memory.filters import SearchFilters
from adkpg.memory.pages import MemoriesPage
from adkpg.memory.records import Memory
from adkpg.memory.service import PgVectorMemoryService
from adkpg.terminal import cell, console, printable, table

_PAGE = 500
_FACTS = ("id", "kind", "timestamp", "author", "source", "session_id", "event_id", "importance")
_MORE_FACTS = ("topics", "expires_at", "superseded_by", "artifacts", "custom_metadata")


@click.command("list")
@app
@user
@filtered
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(min=1),
    help="At most so many memories.",
)
@click.option("--after-cursor", metavar="CURSOR", help="Go on behind the page that printed this.")
@click.option("--all", "with_dead", is_flag=True, help="With those that expired or were replaced.")
@as_json
@database_url
def list_(
    app_name: str,
    user_id: str | None,
    filters: SearchFilters,
    limit: int,
    after_cursor: str | None,
    with_dead: bool,
    as_json: bool,
    database_url: str | None,
) -> None:
    """List memories, newest first.

    \b
    Example:
      adkpg memory list --app my_agent --user alice --kind fact --topic travel
      adkpg memory list --app my_agent --json | jq -r '.memories[].id'
    """

    async def read(database: Database) -> MemoriesPage:
        return await _reader(database).list_memories(
            app_name=app_name,
            user_id=user_id,
            filters=filters,
            limit=limit,
            after=after_cursor,
            live=not with_dead,
        )

    page = run(database_url, read)
    if as_json:
        listed = [jsonable(memory) for memory in page.memories]
        click.echo(json.dumps({"memories": listed, "next": page.next}))
        return
    shown = id_table("ID", "TIME", "KIND", "FROM", "MEMORY")
    for memory in page.memories:
        add_row(shown, memory)
    console().print(shown)
    if page.next is not None:
        click.echo(f"There are more: --after-cursor {page.next}")


@click.command()
@click.argument("memory_id", metavar="ID")
@app
@user
@as_json
@database_url
def get(
    memory_id: str, app_name: str, user_id: str | None, as_json: bool, database_url: str | None
) -> None:
    """Show a memory, also one that has expired.

    \b
    Example:
      adkpg memory get 3f2a --app my_agent --user alice
    """

    async def read(database: Database) -> Memory | None:
        return await _reader(database).get_memory(
            app_name=app_name, user_id=user_id, memory_id=memory_id
        )

    _show(_found(run(database_url, read), memory_id, app_name, user_id), as_json=as_json)


@click.command()
@app
@user
@filtered
@as_json
@database_url
def count(
    app_name: str,
    user_id: str | None,
    filters: SearchFilters,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Count memories.

    \b
    Example:
      adkpg memory count --app my_agent --user alice --after 2026-01-01
    """

    async def read(database: Database) -> int:
        return await _reader(database).count_memories(
            app_name=app_name, user_id=user_id, filters=filters
        )

    counted = run(database_url, read)
    click.echo(json.dumps({"memories": counted}) if as_json else counted)


@click.command()
@click.argument("memory_id", metavar="ID")
@app
@user
@click.option("--text", help="What it says from now on; it is embedded anew.")
@click.option("--topic", "topics", multiple=True, help="What it is about, instead of before.")
@click.option("--no-topics", is_flag=True, help="It is about nothing in particular.")
@click.option("--importance", type=click.FloatRange(0, 1), help="A factor of its score.")
@click.option("--expires-at", metavar="TIME", help="From when on it is not found (ISO 8601).")
@click.option(
    "--metadata",
    callback=json_object,
    metavar="JSON",
    help="Its custom metadata, instead of before.",
)
@as_json
@database_url
def update(
    memory_id: str,
    app_name: str,
    user_id: str | None,
    text: str | None,
    topics: tuple[str, ...],
    no_topics: bool,
    importance: float | None,
    expires_at: str | None,
    metadata: dict[str, Any] | None,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Change a memory; what is left out stays.

    \b
    Example:
      adkpg memory update 3f2a --app my_agent --user alice --importance 0.9 --topic travel
      adkpg memory update 3f2a --app my_agent --user alice --text "She moved to Porto."
    """
    if topics and no_topics:
        raise click.UsageError("--topic and --no-topics exclude each other.")

    async def write(database: Database) -> Memory | None:
        # Without a new text nothing is embedded, so no embedder is started.
        service = PgVectorMemoryService(database) if text is not None else _reader(database)
        return await service.update_memory(
            app_name=app_name,
            user_id=user_id,
            memory_id=memory_id,
            text=text,
            topics=list(topics) if topics or no_topics else None,
            importance=importance,
            expires_at=expires_at,
            custom_metadata=metadata,
        )

    _show(_found(run(database_url, write), memory_id, app_name, user_id), as_json=as_json)


@click.command()
@click.argument("memory_ids", nargs=-1, metavar="[ID]...")
@app
@user
@filtered
@click.option("--source", help="This document, all of its pieces.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@database_url
def delete(
    memory_ids: tuple[str, ...],
    app_name: str,
    user_id: str | None,
    filters: SearchFilters,
    source: str | None,
    yes: bool,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Delete memories by id, by filters, or a document.

    Expired ones that the filters meet go too, and facts and summaries that were drawn from what
    goes. Adding a session again does not bring its deleted memories back.

    \b
    Example:
      adkpg memory delete 3f2a 77c1 --app my_agent --user alice
      adkpg memory delete --app my_agent --user alice --before 2025-01-01 --yes
      adkpg memory delete --app my_agent --source docs/old.md
    """
    ways = [bool(memory_ids), bool(filters.asked), source is not None]
    if sum(ways) != 1:
        raise click.UsageError(
            "Say what to delete in one way: ids, filters, or --source; `adkpg forget` erases "
            "all of a user."
        )

    async def choose(database: Database) -> list[str]:
        service = _reader(database)
        if memory_ids:
            known = [
                await service.get_memory(app_name=app_name, user_id=user_id, memory_id=memory_id)
                for memory_id in dict.fromkeys(memory_ids)
            ]
            return [str(memory.id) for memory in known if memory is not None]
        return await _matching(service, app_name, user_id, filters)

    async def erase(database: Database) -> int:
        service = _reader(database)
        if source is not None:
            return await Documents(service).remove(
                app_name=app_name, user_id=user_id, source=source
            )
        with bar("Deleting") as shown:
            for done, memory_id in enumerate(chosen):
                shown(done, len(chosen))
                await service.delete_memory(app_name=app_name, user_id=user_id, memory_id=memory_id)
        return len(chosen)

    chosen = [] if source is not None else run(database_url, choose)
    what = printable(repr(source)) if source is not None else f"{len(chosen)} memories"
    if (chosen or source is not None) and not yes:
        click.confirm(f"Delete {what} of {_scope(app_name, user_id)}?", abort=True, err=True)
    deleted = run(database_url, erase)
    click.echo(json.dumps({"deleted": deleted}) if as_json else f"Deleted: {deleted}.")


def _reader(database: Database) -> PgVectorMemoryService:
    return PgVectorMemoryService(database, mode="text")


async def _matching(
    service: PgVectorMemoryService, app_name: str, user_id: str | None, filters: SearchFilters
) -> list[str]:
    found: list[str] = []
    after: str | None = None
    while True:
        page = await service.list_memories(
            app_name=app_name,
            user_id=user_id,
            filters=filters,
            limit=_PAGE,
            after=after,
            live=False,
        )
        found += [str(memory.id) for memory in page.memories]
        after = page.next
        if after is None:
            return found


def _scope(app_name: str, user_id: str | None) -> str:
    if user_id is None:
        return printable(f"the app-wide scope of app {app_name!r}")
    return printable(f"user {user_id!r} of app {app_name!r}")


def _found(memory: Memory | None, memory_id: str, app_name: str, user_id: str | None) -> Memory:
    if memory is None:
        raise click.ClickException(
            f"There is no memory {memory_id!r} of {_scope(app_name, user_id)}; `adkpg memory list` "
            "shows those that are stored."
        )
    return memory


def _show(memory: Memory, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(jsonable(memory)))
        return
    shown = table("FACT", "VALUE")
    for name in _FACTS:
        value = getattr(memory, name)
        if value is not None:
            shown.add_row(name, cell(value))
    for name in _MORE_FACTS:
        value = getattr(memory, name)
        if value:
            written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            shown.add_row(name, cell(written))
    shown.add_row("text", cell(text_of(memory)))
    console().print(shown)
