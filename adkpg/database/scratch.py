"""Scratch: a database of its own, for what must not touch anybody's rows."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode

from adkpg.database import address
from adkpg.database.attempts import Attempt
from adkpg.database.connector import Connector
from adkpg.embedded import EmbeddedServer
from adkpg.settings import Settings

_NAMES = frozenset({"database", "dbname"})


@asynccontextmanager
async def scratch_database(url: str, settings: Settings, *, prefix: str) -> AsyncIterator[str]:
    """Yields the URL of an empty database on a server, which is dropped afterwards.

    Args:
      url: A database of the server, by a role that may create others; or ``embedded``.
      settings: For its connections.
      prefix: Its name begins so.

    Raises:
      PermissionDenied: The role may not create databases.
      DatabaseUnavailable: There is no connection.
      EmbeddedServerError: The embedded server cannot run here.
    """
    place = address.parse(url)
    if not place.embedded:
        async with _made(place, settings, prefix) as made:
            yield made
        return
    server = EmbeddedServer(settings.embedded_dir)
    await asyncio.to_thread(server.start)
    try:
        async with _made(address.parse(server.url), settings, prefix) as made:
            yield made
    finally:
        await asyncio.to_thread(server.stop)


@asynccontextmanager
async def _made(place: address.Address, settings: Settings, prefix: str) -> AsyncIterator[str]:
    name = f"{prefix}_{uuid.uuid4().hex[:12]}"
    await _say(place, settings, f'CREATE DATABASE "{name}"')
    try:
        yield renamed(place, name)
    finally:
        # Also if the caller was cancelled: nothing else would ever drop it.
        drop = asyncio.create_task(
            _say(place, settings, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        )
        try:
            await asyncio.shield(drop)
        except asyncio.CancelledError:
            await drop
            raise


async def _say(place: address.Address, settings: Settings, sql: str) -> None:
    with Attempt(place.display, sent=True):
        connection = await Connector(place, settings).connect()
        try:
            # Copying a template may wait for the disk longer than a statement may run.
            await connection.execute(sql, timeout=settings.migration_timeout_s)
        finally:
            await connection.close()


def renamed(place: address.Address, name: str) -> str:
    """Returns the URL of another database of the same server."""
    location, _, query = place.dsn.partition("?")
    kept = [each for each in query.split("&") if each and each.partition("=")[0] not in _NAMES]
    kept += [urlencode([(key, str(value))]) for key, value in place.options]
    authority = re.sub(r"^(postgresql://[^/]*).*$", r"\1", location)
    return f"{authority}/{name}" + (f"?{'&'.join(kept)}" if kept else "")
