"""``adkpg memory list|delete``: memories one by one."""

from __future__ import annotations

from typing import Any, TypedDict

import click

import adkpg
from adkpg.tooling.cli.answers import COLUMNS, answer, jsonable, reader, row
from adkpg.tooling.cli.connection import connected, database_url, run
from adkpg.tooling.cli.options import (
    app,
    as_json,
    cursor,
    filtered,
    full,
    limit,
    user_or_app,
)
from adkpg.tooling.cli.removal import Removal, removes
from adkpg.tooling.terminal import bar, printable, show

_PAGE = 500


class _Place(TypedDict):
    app_name: str
    user_id: str | None


@click.command("list")
@app
@user_or_app()
@filtered
@limit("memories")
@cursor
@click.option(
    "--all", "with_dead", is_flag=True, help="Include those that expired or were replaced."
)
@full
@as_json
@connected
async def list_(
    database: adkpg.Database,
    app_name: str,
    user_id: str | None,
    filters: dict[str, Any],
    limit: int,
    cursor: str | None,
    *,
    with_dead: bool,
    full: bool,
    as_json: bool,
) -> None:
    """List memories, newest first.

    \b
    Example:
      adkpg memory list --app my_agent --user alice --kind fact --topic travel
      adkpg memory list --app my_agent --app-wide --json | jq -r '.memories[].id'
    """
    page = await reader(database).list_memories(
        app_name=app_name,
        user_id=user_id,
        filters=adkpg.SearchFilters(**filters),
        limit=limit,
        cursor=cursor,
        live=not with_dead,
    )
    answer(
        {"memories": [*map(jsonable, page.items)], "next_cursor": page.next_cursor},
        COLUMNS,
        [*map(row, page.items)],
        as_json=as_json,
        nothing=f"No such memory of {_scope(app_name, user_id)} is stored.",
        full=full,
    )


@click.command()
@click.argument("memory_ids", nargs=-1, metavar="[ID]...")
@app
@user_or_app(required=True)
@filtered
@click.option("--source", help="Delete all pieces of this document.")
@removes
@database_url
def delete(
    memory_ids: tuple[str, ...],
    app_name: str,
    user_id: str | None,
    filters: dict[str, Any],
    source: str | None,
    database_url: str | None,
    **consent: bool,
) -> None:
    """Delete memories by id, by filters, or a document.

    A search shows memories that say the same as one hit. Deleting one by its id deletes them all.
    Filters delete only the memories that they find, expired ones included. Facts and summaries that
    were drawn from a deleted memory are deleted with it. Adding a session again does not bring its
    deleted memories back.

    \b
    Example:
      adkpg memory delete note-1 note-2 --app my_agent --user alice
      adkpg memory delete --app my_agent --user alice --topic travel --yes
      adkpg memory delete --app my_agent --app-wide --source docs/old.md --dry-run
    """
    if sum([bool(memory_ids), bool(filters), source is not None]) != 1:
        raise click.UsageError(
            "Choose memories in one way: ids, filters, or --source; `adkpg forget` erases all of "
            "a user."
        )
    place: _Place = {"app_name": app_name, "user_id": user_id}
    chosen: list[adkpg.Memory] = []

    async def choose(database: adkpg.Database) -> None:
        memory = reader(database)
        if memory_ids:
            found = [
                same
                for memory_id in memory_ids
                for same in await memory.same_as(**place, memory_id=memory_id)
            ]
            chosen.extend({each.id: each for each in found}.values())
            return
        named = adkpg.SearchFilters(**filters)
        asked = named if source is None else adkpg.SearchFilters(kinds=("document",))
        cursor: str | None = None
        while True:
            page = await memory.list_memories(
                **place, filters=asked, limit=_PAGE, cursor=cursor, live=False
            )
            chosen.extend(each for each in page.items if source in (None, each.source))
            cursor = page.next_cursor
            if cursor is None:
                return

    async def erase(database: adkpg.Database) -> None:
        memory = reader(database)
        if source is not None:
            await adkpg.documents.Documents(memory).delete(**place, source=source)
            return
        with bar("Deleting") as shown:
            for start in range(0, len(chosen), _PAGE):
                shown(start, len(chosen))
                ids = [str(each.id) for each in chosen[start : start + _PAGE]]
                await memory.delete_exactly(**place, memory_ids=ids)

    def remove(dry_run: bool) -> list[adkpg.Memory]:
        # The memories that were shown are deleted, none that came meanwhile.
        if not chosen:
            run(database_url, choose)
        if chosen and not dry_run:
            run(database_url, erase)
        return chosen

    Removal(
        remove=remove,
        show=lambda memories: show(COLUMNS, map(row, memories)),
        jsonable=lambda memories: {"deleted": [each.id for each in memories]},
        question=f"Delete these memories of {_scope(app_name, user_id)}?",
        nothing=f"Nothing to delete of {_scope(app_name, user_id)}.",
    ).carry_out(**consent)


def _scope(app_name: str, user_id: str | None) -> str:
    if user_id is None:
        return printable(f"app {app_name!r} itself")
    return printable(f"user {user_id!r} of app {app_name!r}")
