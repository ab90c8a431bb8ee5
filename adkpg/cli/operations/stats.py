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
    from adkpg.operations import Statistics

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
@as_json
@connected
async def stats(
    database: adkpg.Database,
    app_name: str | None,
    users: int,
    asked: timedelta,
    *,
    as_json: bool,
) -> None:
    """Print sizes and rates, by app and by largest user.

    Counts the sessions and memories one by one: on a large database, ask now and then.

    \b
    Example:
      adkpg stats
      adkpg stats --app travel --since 7d --json
    """
    found = await adkpg.operations.statistics(database, app_name=app_name, users=users, span=asked)
    if as_json:
        value = asdict(found) | {"span": asked.total_seconds()}
        click.echo(json.dumps({"span_s": value.pop("span"), **value}))
        return
    _print(found, "" if found.apps or app_name is None else await apps(database, app_name))


def _print(found: Statistics, told: str) -> None:
    if not found.apps:
        click.echo(f"There is nothing yet.{told}")
    else:
        show(
            (
                "APP",
                "USERS",
                "SESSIONS",
                "NEW",
                "EVENTS",
                "NEW",
                "SIZE",
                "MEMORIES",
                "NEW",
                "VECTORS",
                "FILES",
                "WAITING",
                "DEAD",
            ),
            [
                (
                    app.app_name,
                    app.users,
                    app.sessions,
                    app.new_sessions,
                    app.events,
                    app.new_events,
                    _size(app.payload_bytes),
                    app.memories,
                    app.new_memories,
                    app.vectors,
                    _size(app.file_bytes),
                    app.waiting,
                    app.dead,
                )
                for app in found.apps
            ],
        )
        click.echo()
        show(
            ("APP", "USER", "SESSIONS", "EVENTS", "SIZE", "MEMORIES", "VECTORS", "FILES"),
            [
                (
                    user.app_name,
                    "(the app's own)" if user.user_id is None else user.user_id,
                    user.sessions,
                    user.events,
                    _size(user.payload_bytes),
                    user.memories,
                    user.vectors,
                    _size(user.file_bytes),
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


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1_000, unit + 1
    return (
        f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 99.5 else f"{size:.1f} {_UNITS[unit]}"
    )
