"""Connection: which database a command works on, and how it gets there."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

import adkpg

T = TypeVar("T")

database_url = click.option(
    "--database-url",
    metavar="URL",
    help="postgresql://user:password@host/database, or embedded.  [default: ADKPG_DATABASE_URL]",
)


def run(url: str | None, call: Callable[[adkpg.Database], Awaitable[T]]) -> T:
    """Opens the database, awaits one call on it, closes it and returns the call's result.

    Raises:
      ClickException: No database is named.
    """
    if url is None and adkpg.Settings().database_url is None:
        raise click.ClickException(
            "No database is named; set ADKPG_DATABASE_URL or give --database-url, such as "
            "postgresql://user:password@host/database or embedded."
        )

    async def opened() -> T:
        async with adkpg.Database(url) as database:
            return await call(database)

    return asyncio.run(opened())


def connected(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Adds --database-url to a command, which is awaited with the open database first."""

    @database_url
    @functools.wraps(command)
    def opened(database_url: str | None, **options: Any) -> None:
        run(database_url, lambda database: command(database, **options))

    return opened
