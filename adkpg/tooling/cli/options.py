"""Options that several commands take: a scope, a page, filters, time spans."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from adkpg import Users

Command = TypeVar("Command", bound=Callable[..., Any])

KINDS = ("turn", "note", "document", "fact", "summary")
"""Those of `adkpg.memory.filters`, which takes long to import."""

MOST = 1_000_000_000
"""The largest number that an option takes: a statement can carry it."""

APP_WIDE = "--app-wide"
"""Stands for `adkpg.Users.APP_WIDE`."""
ALL_USERS = "--all-users"
"""Stands for `adkpg.Users.ALL`."""

_WORDS = {APP_WIDE: "what the app knows for all its users", ALL_USERS: "all users"}

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def span(value: str | timedelta) -> timedelta:
    """Reads an option's time span."""
    if isinstance(value, timedelta):
        return value
    written = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([smhdw])", value.strip())
    found = timedelta(seconds=float(written[1]) * _UNITS[written[2]]) if written else timedelta()
    if not found:
        raise click.BadParameter(f"{value!r} is not a time span; write 30d, 12h, 90m or 45s.")
    return found


def time(value: str | datetime) -> datetime:
    """Reads an option's time."""
    from adkpg.errors import InvalidInput
    from adkpg.timestamps import moment

    try:
        return moment("the time", value)
    except InvalidInput as exc:
        raise click.BadParameter(
            f"{value!r} is not a time in ISO 8601; write 2026-01-31 or 2026-01-31T12:00:00+00:00."
        ) from exc


app = click.option("--app", "app_name", required=True, help="The app's name.")
any_app = click.option("--app", "app_name", help="The app's name.  [default: all apps]")
user = click.option("--user", "user_id", required=True, help="The user's id.")
cursor = click.option(
    "--cursor", metavar="CURSOR", help="Continue after the page that printed this cursor."
)
full = click.option("--full", is_flag=True, help="Do not cut long texts to the terminal's width.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else.")


def whose(
    *others: str, missing: str | None = None, user: str = "The user's id."
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Returns the options that say whose rows a command is about, of which a call has one.

    The command gets ``user_id``: an id, or one of `adkpg.Users`.

    Args:
      others: Those beside --user: `APP_WIDE`, `ALL_USERS`.
      missing: The one of them that is meant if none is given; None: then the usage is wrong.
      user: The help of --user.
    """
    default = "" if missing is None else f"  [default: {_WORDS[missing]}]"

    def added(command: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(command)
        def read(user_id: str | None, **options: Any) -> None:
            flags = [each for each in others if options.pop(_parameter(each))]
            if user_id is None and not flags and missing is not None:
                flags = [missing]
            require_one("whose", ["--user", *others], (user_id is not None) + len(flags))
            command(user_id=_users(flags[0]) if user_id is None else user_id, **options)

        for each in reversed(others):
            words = f"{_WORDS[each][0].upper()}{_WORDS[each][1:]}."
            read = click.option(each, is_flag=True, help=words)(read)
        return click.option("--user", "user_id", help=user + default)(read)

    return added


def user_or_app(
    *, required: bool = False, user: str = "The user's id."
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Returns --user and --app-wide, for a command that gets None for what the app knows.

    Args:
      required: Whether one of them is to be given; else the app is meant without a user.
      user: The help of --user.
    """

    def added(command: Callable[..., Any]) -> Callable[..., None]:
        @whose(APP_WIDE, missing=None if required else APP_WIDE, user=user)
        @functools.wraps(command)
        def read(user_id: str | Users, **options: Any) -> None:
            command(user_id=user_id if isinstance(user_id, str) else None, **options)

        return read

    return added


def app_or_all(command: Callable[..., Any]) -> Callable[..., None]:
    """Adds --app and --all-apps, of which a call has one; the command gets None for all apps."""

    @click.option("--app", "app_name", help="The app's name.")
    @click.option("--all-apps", is_flag=True, help="All apps.")
    @functools.wraps(command)
    def read(app_name: str | None, *, all_apps: bool, **options: Any) -> None:
        require_one("of which app", ["--app", "--all-apps"], (app_name is not None) + all_apps)
        command(app_name=app_name, **options)

    return read


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

    @click.option(
        "--session",
        "session_ids",
        multiple=True,
        help="Only what was said in this session; repeatable.",
    )
    @click.option(
        "--kind",
        "kinds",
        multiple=True,
        type=click.Choice(KINDS),
        help="Only this kind; repeatable.",
    )
    @click.option("--topic", "topics", multiple=True, help="Only about this topic; repeatable.")
    @functools.wraps(command)
    def read(**options: Any) -> None:
        asked = {name: options.pop(name) for name in names}
        command(filters={name: value for name, value in asked.items() if value}, **options)

    return read


def require_one(what: str, names: list[str], given: int) -> None:
    """Refuses a call without one of some options, or with several.

    Raises:
      UsageError: The number of those that were given is not 1.
    """
    if given != 1:
        *first, last = names
        raise click.UsageError(f"Say {what}: give one of {', '.join(first)} and {last}.")


def _parameter(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _users(option: str) -> Users:
    from adkpg import Users

    return {APP_WIDE: Users.APP_WIDE, ALL_USERS: Users.ALL}[option]
