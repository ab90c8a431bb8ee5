"""Options that several commands take: a scope, a page, filters, time spans."""

import functools
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

KINDS = ("turn", "note", "document", "fact", "summary")
"""Those of `adkpg.memory.filters`, which takes long to import."""

MOST = 1_000_000_000
"""The largest number that an option takes: a statement can carry it."""

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def span(value: str | timedelta) -> timedelta:
    """Reads an option's time span."""
    if isinstance(value, timedelta):
        return value
    written = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([smhdw])", value.strip())
    found = timedelta(seconds=float(written[1]) * _UNITS[written[2]]) if written else timedelta()
    if not found:
        raise click.BadParameter(f"{value!r} is no time span; write 30d, 12h, 90m or 45s.")
    return found


def time(value: str | datetime) -> datetime:
    """Reads an option's time."""
    from adkpg.errors import InvalidInput
    from adkpg.timestamps import moment

    try:
        return moment("the time", value)
    except InvalidInput as exc:
        raise click.BadParameter(
            f"{value!r} is no time in ISO 8601; write 2026-01-31 or 2026-01-31T12:00:00+00:00."
        ) from exc


app = click.option("--app", "app_name", required=True, help="The app's name.")
user = click.option("--user", "user_id", required=True, help="The user's id.")
user_or_app = click.option(
    "--user",
    "user_id",
    help="The user's id.  [default: what the app knows for all its users]",
)
cursor = click.option(
    "--cursor", metavar="CURSOR", help="Continue after the page that printed this cursor."
)
full = click.option("--full", is_flag=True, help="Do not cut long texts to the terminal's width.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else.")


def limit(noun: str, default: int = 20) -> Callable[[Command], Command]:
    """Returns the option that says how many things are listed at most."""
    return click.option(
        "--limit",
        default=default,
        show_default=True,
        type=click.IntRange(1, MOST),
        help=f"At most this many {noun}.",
    )


def filtered(command: Callable[..., Any]) -> Callable[..., None]:
    """Adds the filters' options to a command.

    It gets those that are given as ``filters``, the arguments of `adkpg.SearchFilters`.
    """
    names = ("session_ids", "kinds", "topics")

    @click.option("--session", "session_ids", multiple=True, help="Said in any of these sessions.")
    @click.option(
        "--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Of any of these kinds."
    )
    @click.option("--topic", "topics", multiple=True, help="About any of these.")
    @functools.wraps(command)
    def read(**options: Any) -> None:
        asked = {name: options.pop(name) for name in names}
        command(filters={name: value for name, value in asked.items() if value}, **options)

    return read
