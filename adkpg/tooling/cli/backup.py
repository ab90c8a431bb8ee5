"""``adkpg backup`` and ``adkpg restore``: all of adkpg's tables, in one file of pg_dump's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import adkpg
from adkpg.tooling.cli.answers import say
from adkpg.tooling.cli.connection import database_url, run
from adkpg.tooling.cli.options import as_json
from adkpg.tooling.cli.removal import ask, removes
from adkpg.tooling.terminal import bar, show, show_tables

if TYPE_CHECKING:
    from adkpg.tooling.backup.archive import Archive


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--yes", is_flag=True, help="Overwrite FILE without a question.")
@as_json
@database_url
def backup(file: Path, database_url: str | None, *, yes: bool, as_json: bool) -> None:
    """Write all of adkpg's tables to one file.

    FILE holds the tables of one moment, in pg_dump's custom format; agents go on meanwhile. Only
    you may read it. The command needs a pg_dump as new as the server, on the PATH or of
    adkpg[embedded].

    \b
    Example:
      adkpg backup monday.dump
      adkpg restore monday.dump \\
        --database-url postgresql://ana:secret@localhost/empty
    """
    file = Path(os.path.abspath(file))
    if not file.parent.is_dir():
        raise click.ClickException(f"There is no folder {file.parent}; make it, or name another.")
    if file.exists() and not yes:
        ask(
            lambda: show(("FILE", "BYTES"), [(file, file.stat().st_size)]),
            "Overwrite this file?",
            as_json=as_json,
            done="overwritten",
        )

    async def write(database: adkpg.Database) -> Archive:
        from adkpg.tooling.backup.archive import back_up

        with bar("Writing tables") as shown:
            return await back_up(database, file, progress=shown)

    archive = run(database_url, write)
    size = file.stat().st_size
    if not as_json:
        _show(archive.rows)
    say(
        f"Written: {file}, {size} bytes, of revision {archive.revision}.",
        {"file": str(file), "bytes": size, **_jsonable(archive.revision, archive.rows)},
        as_json=as_json,
    )


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@removes
@database_url
def restore(
    file: Path, database_url: str | None, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Restore adkpg's tables from a backup.

    One transaction replaces the tables that are there: after any error nothing has changed. Tables
    of an older revision are migrated. The tables belong to the role that restores, and grants stay
    as they were.

    \b
    Example:
      adkpg restore monday.dump \\
        --database-url postgresql://ana:secret@localhost/empty
    """
    file = Path(os.path.abspath(file))
    if not file.is_file():
        raise click.ClickException(f"There is no file {file}; correct the name.")

    async def look(database: adkpg.Database) -> tuple[Archive, dict[str, int]]:
        from adkpg.tooling.backup.archive import read, replaced, require_restorable

        await require_restorable(database)
        archive = await read(database, file)
        return archive, await replaced(database, archive)

    archive, there = run(database_url, look)
    if dry_run:
        if not as_json:
            _show(archive.rows, there)
        value = {"dry_run": True, "drops": there, **_jsonable(archive.revision, archive.rows)}
        say("Nothing was restored.", value, as_json=as_json)
        return
    if there and not yes:
        ask(
            lambda: _show(archive.rows, there),
            "Drop these tables, and restore those of the file?",
            as_json=as_json,
        )

    async def write(database: adkpg.Database) -> dict[str, int]:
        from adkpg.tooling.backup import archive as archives

        with bar("Restoring rows") as shown:
            return await archives.restore(database, archive, progress=shown)

    rows = run(database_url, write)
    if not as_json:
        _show(rows)
    sentence = f"Restored: all rows of {file}, of revision {archive.revision}."
    value = {"dry_run": False, "drops": there, **_jsonable(archive.revision, rows)}
    say(sentence, value, as_json=as_json)


def _show(rows: Mapping[str, int], there: Mapping[str, int] | None = None) -> None:
    names = dict.fromkeys([*rows, *(there or ())])
    most = {name: max(rows.get(name, 0), (there or {}).get(name, 0)) for name in names}
    largest = sorted(names, key=lambda name: most[name], reverse=True)
    if there is None:
        show_tables(("TABLE", "ROWS"), [(most[name], (name, rows[name])) for name in largest])
        return
    show_tables(
        ("TABLE", "THERE", "IN THE FILE"),
        [(most[name], (name, there.get(name, ""), rows.get(name, ""))) for name in largest],
    )


def _jsonable(revision: str, rows: Mapping[str, int]) -> dict[str, Any]:
    return {"revision": revision, "rows": dict(rows)}
