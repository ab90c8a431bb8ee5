"""Connection: which database a command works on, and how it gets there."""

from __future__ import annotations

import asyncio
import functools
import getpass
import os
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

import adkpg

T = TypeVar("T")

# Up to the last @: a password may have one, too.
_PASSWORD = re.compile(r"(://[^/:@]*:)(.+)(?=@)|(password=)([^&]+)", re.DOTALL)

_RETRY_TIMEOUT_S = 3.0

database_url = click.option(
    "--database-url",
    metavar="URL",
    help="postgresql://user:password@host/database, or embedded.  [default: ADKPG_DATABASE_URL]",
)


def hide_passwords() -> None:
    """Blanks the passwords of database URLs in what ``ps`` shows of this process.

    Until this has run, other users of the machine can read them there. Only this account can read
    the variable ADKPG_DATABASE_URL.
    """
    hidden = [_PASSWORD.sub(_blanked, argument) for argument in sys.orig_argv]
    if hidden != sys.orig_argv:
        from setproctitle import setproctitle

        title = os.fsencode(" ".join(hidden))
        setproctitle(title.decode(errors="replace"))


def _blanked(found: re.Match[str]) -> str:
    before: str = found[1] or found[3]
    return before + "*" * (len(found[0]) - len(before))


def run(url: str | None, call: Callable[[adkpg.Database], Awaitable[T]]) -> T:
    """Opens the database, awaits one call on it, closes it and returns the call's result.

    Raises:
      ClickException: No database is named.
    """
    settings = adkpg.Settings()
    if url is None and settings.database_url is None:
        raise click.ClickException(
            "No database is named; set ADKPG_DATABASE_URL or give --database-url, such as "
            "postgresql://user:password@host/database or embedded."
        )

    if "retry_timeout_s" not in settings.model_fields_set:  # a person waits, and may have mistyped
        settings = settings.model_copy(update={"retry_timeout_s": _RETRY_TIMEOUT_S})

    async def opened() -> T:
        async with adkpg.Database(url, settings=settings) as database:
            return await call(database)

    # A command is an operator's.
    from adkpg.audit import acting_as

    with adkpg.every_scope(), acting_as(f"{_account()} (command line)"):
        return asyncio.run(opened())


def _account() -> str:
    """Returns the name of the account that runs this; of one without a name its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def connected(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Adds --database-url to a command, which is awaited with the open database first."""

    @database_url
    @functools.wraps(command)
    def opened(database_url: str | None, **options: Any) -> None:
        run(database_url, lambda database: command(database, **options))

    return opened
