"""``adkpg stats``: how much there is, and how fast it grows."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

import click

import adkpg
from adkpg.cli.connection import connected
from adkpg.cli.operations.elsewhere import apps
from adkpg.cli.options import MOST, as_json, span
from adkpg.terminal import show

if TYPE_CHECKING:
    from adkpg.operations import AppFigures, Statistics

_UNITS = ("B", "kB", "MB", "GB", "TB")


@click.command()
@click.option("--app", "app_name", help="The app's name.  [default: all apps]")
@click.option(
    "--users",
    default=10,
    show_default=True,
    type=click.IntRange(1, MOST),
    help="How many of the largest users are shown.",
)
@click.option(
    "--since",
    "asked",
    default="1d",
    show_default=True,
    type=span,
    metavar="SPAN",
    help="What came within this span is new.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Count everything one by one, however large the tables are.",
)
@as_json
@connected
async def stats(
    database: adkpg.Database,
    app_name: str | None,
    users: int,
    asked: timedelta,
    *,
    exact: bool,
    as_json: bool,
) -> None:
    """Print sizes and rates, by app and by largest user.

    Of tables above some 100 MB it reads samples: figures with a ~ are estimates, within some
    percent. With --exact it reads the keys of all sessions and memories.

    \b
    Example:
      adkpg stats
      adkpg stats --app travel --since 7d --json
      adkpg stats --exact
    """
    found = await adkpg.operations.statistics(
        database, app_name=app_name, users=users, span=asked, exact=exact
    )
    if as_json:
        value = asdict(found) | {"span": asked.total_seconds()}
        click.echo(json.dumps({"span_s": value.pop("span"), **value}))
        return
    _print(found, "" if found.apps or app_name is None else await apps(database, app_name))


def _print(found: Statistics, told: str) -> None:
    if not found.apps:
        click.echo(f"There is nothing yet.{told}")
    else:
        # Each is narrow enough for a terminal of 80 columns.
        show(
            ("APP", "USERS", "SESSIONS", "NEW", "EVENTS", "NEW", "SIZE", "FILES"),
            [
                (
                    app.app_name,
                    _about(app.users, app),
                    _about(app.sessions, app),
                    _about(app.new_sessions, app),
                    _about(app.events, app),
                    _about(app.new_events, app),
                    _about(_size(app.payload_bytes), app),
                    _size(app.file_bytes),
                )
                for app in found.apps
            ],
        )
        click.echo()
        show(
            ("APP", "MEMORIES", "NEW", "VECTORS", "WAITING", "DEAD"),
            [
                (
                    app.app_name,
                    _about(app.memories, app),
                    _about(app.new_memories, app),
                    _about(app.vectors, app),
                    app.waiting,
                    app.dead,
                )
                for app in found.apps
            ],
        )
        if any(app.estimated for app in found.apps):
            click.echo("~ is estimated from samples of large tables; --exact counts.")
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
    show(
        ("TABLE", "ROWS", "SIZE", "INDEXES"),
        [
            (each.name, each.rows, _size(each.bytes), _size(each.index_bytes))
            for each in found.tables
        ],
    )


def _about(figure: int | str, app: AppFigures) -> str:
    return f"~{figure}" if app.estimated and figure else str(figure)


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1_000, unit + 1
    return (
        f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 99.5 else f"{size:.1f} {_UNITS[unit]}"
    )
