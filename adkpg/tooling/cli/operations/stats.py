"""``adkpg stats``: how much there is."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, get_args

import click

import adkpg.tooling
from adkpg.tooling.cli.connection import database_url, run
from adkpg.tooling.cli.options import MOST, as_json, span
from adkpg.tooling.terminal import show, show_tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adkpg.memory.queue.jobs import Backlog
    from adkpg.tooling.operations import Statistics, TableFigures

_UNITS = ("B", "kB", "MB", "GB", "TB")
_USERS, _SPAN = 10, timedelta(days=1)


@click.command()
@click.option(
    "--exact",
    is_flag=True,
    help="Also count the rows of apps and users.",
)
@click.option("--app", "app_name", help="With --exact: the app's name.  [default: all apps]")
@click.option(
    "--users",
    type=click.IntRange(1, MOST),
    help=f"With --exact: how many of the largest users are shown.  [default: {_USERS}]",
)
@click.option(
    "--since",
    "asked",
    type=span,
    metavar="SPAN",
    help="With --exact: rows from within this span count as new.  [default: 1d]",
)
@as_json
@database_url
def stats(
    app_name: str | None,
    users: int | None,
    asked: timedelta | None,
    database_url: str | None,
    *,
    exact: bool,
    as_json: bool,
) -> None:
    """Print the waiting work and the sizes of tables.

    Rows of tables are as Postgres' catalog estimates them, and empty tables are not listed. With
    --exact it also counts the rows of apps and users, and reads the keys of all sessions and
    memories for it.

    \b
    Example:
      adkpg stats
      adkpg stats --exact --app travel --since 7d --json
    """
    if not exact and (app_name, users, asked) != (None, None, None):
        raise click.UsageError("--app, --users and --since are options of counting; add --exact.")

    async def go(database: adkpg.Database) -> None:
        from adkpg.memory.queue.jobs import WorkKind

        counted = None
        if exact:
            counted = await adkpg.tooling.operations.statistics(
                database, app_name=app_name, users=users or _USERS, span=asked or _SPAN
            )
        queues = [adkpg.Jobs(database, work=work) for work in get_args(WorkKind)]
        backlogs = [await queue.backlog() for queue in queues]
        tables = await adkpg.tooling.operations.table_sizes(database)
        if as_json:
            jobs, sizes = [asdict(each) for each in backlogs], [asdict(each) for each in tables]
            click.echo(json.dumps({**_jsonable(counted), "jobs": jobs, "tables": sizes}))
            return
        if counted is not None:
            _print_counted(counted)
        _print(backlogs, tables)

    run(database_url, go)


def _jsonable(counted: Statistics | None) -> dict[str, Any]:
    if counted is None:
        return {}
    value = asdict(counted)
    return {"span_s": value.pop("span").total_seconds(), **value}


def _print(backlogs: Iterable[Backlog], tables: Iterable[TableFigures]) -> None:
    show(
        ("WORK", "WAITING", "FAILED", "DEAD LETTERS"),
        [(each.work, each.waiting, each.failed, each.dead) for each in backlogs],
    )
    click.echo()
    if tables:
        show_tables(
            ("TABLE", "ROWS", "SIZE", "INDEXES"),
            [
                (each.rows, (each.name, each.rows, _size(each.bytes), _size(each.index_bytes)))
                for each in tables
            ],
        )
    else:
        click.echo("The tables are distributed; their sizes: SELECT * FROM citus_tables;")


def _print_counted(found: Statistics) -> None:
    if not found.apps:
        click.echo("There is nothing yet.\n")
        return
    # Each is narrow enough for a terminal of 80 columns.
    show(
        ("APP", "USERS", "SESSIONS", "NEW", "EVENTS", "NEW", "SIZE", "FILES"),
        [
            (
                app.app_name,
                app.users,
                app.sessions,
                app.new_sessions,
                app.events,
                app.new_events,
                _size(app.payload_bytes),
                _size(app.file_bytes),
            )
            for app in found.apps
        ],
    )
    click.echo()
    show(
        ("APP", "MEMORIES", "NEW", "VECTORS", "WAITING", "DEAD LETTERS"),
        [
            (app.app_name, app.memories, app.new_memories, app.vectors, app.waiting, app.dead)
            for app in found.apps
        ],
    )
    click.echo()
    show(
        ("APP", "SESSIONS", "EVENTS", "SIZE", "MEMORIES", "VECTORS", "FILES", "USER"),
        [
            (
                user.app_name,
                user.sessions,
                user.events,
                _size(user.payload_bytes),
                user.memories,
                user.vectors,
                _size(user.file_bytes),
                "(the app's own)" if user.user_id is None else user.user_id,
            )
            for user in found.users
        ],
    )
    click.echo()


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1_000, unit + 1
    return (
        f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 99.5 else f"{size:.1f} {_UNITS[unit]}"
    )
