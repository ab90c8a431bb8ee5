"""Connection: which database a command works on, and how it gets there."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from adkpg.database import Database

T = TypeVar("T")

database_url = click.option(
    "--database-url",
    metavar="URL",
    help="postgresql://user:password@host/database, or embedded.  [default: ADKPG_DATABASE_URL]",
)


def run(url: str | None, call: Callable[[Database], Awaitable[T]]) -> T:
    """Opens the database, awaits one call on it, closes it and returns the call's result.

    Raises:
      AdkpgError: As the call does; the group turns it into a sentence.
    """

    async def opened() -> T:
        async with Database(url) as database:
            return await call(database)

    return asyncio.run(opened())
