"""Choice: which source a URL, a file or a service is."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

from google.adk.sessions.base_session_service import BaseSessionService

from adkpg.database.address import EMBEDDED
from adkpg.errors import ConfigurationError
from adkpg.settings import Settings
from adkpg.tooling.transfer.records import Record
from adkpg.tooling.transfer.sources.adk_database import adk_database
from adkpg.tooling.transfer.sources.clock import zone_of
from adkpg.tooling.transfer.sources.export_file import ExportFile
from adkpg.tooling.transfer.sources.opening import opened
from adkpg.tooling.transfer.sources.selection import Selection
from adkpg.tooling.transfer.sources.service import ServiceSource

_SQLITE = b"SQLite format 3\0"


class Source(Protocol):
    """What can be read from its beginning to its end, once.

    Attributes:
      name: What it is, without passwords.
    """

    name: str

    async def close(self) -> None:
        """Gives up what it holds."""

    async def total(self) -> int:
        """Returns how much there is to read, in its own unit; 0 if unknown."""

    def records(self) -> AsyncGenerator[tuple[Record, int]]:
        """Yields its records, and how much was read.

        Shared states, marks and memories may come anywhere; a session's events follow it.
        """


async def chosen(
    source: str | Path | BaseSessionService,
    selection: Selection,
    *,
    settings: Settings,
    source_timezone: str | None = None,
    source_schema: str | None = None,
) -> Source:
    """Returns the source that is meant, opened as far as it takes to know what it is.

    Args:
      source: A URL, a file, or a live session service.
      selection: What of it is wanted.
      settings: Those of the database that is written to; its own tables are no source.
      source_timezone: The zone of times that say none.
      source_schema: The Postgres schema of the source's tables.

    Raises:
      ConfigurationError: It cannot be read, or is no source.
    """
    zone = zone_of(source_timezone)
    if isinstance(source, BaseSessionService):
        return ServiceSource(source, selection)
    text = str(source)
    if not text.strip():
        raise ConfigurationError("The source is empty; name a file or the URL of a database.")
    if "://" not in text and text != EMBEDDED and not await asyncio.to_thread(_is_sqlite, text):
        return ExportFile(Path(text), selection, settings)
    async with AsyncExitStack() as unread:
        database = await opened(text, settings)
        unread.push_async_callback(database.close)
        found = await adk_database(
            database, selection, settings=settings, zone=zone, schema=source_schema
        )
        unread.pop_all()
    return found


def _is_sqlite(name: str) -> bool:
    """Whether a file is one of SQLite's.

    Raises:
      ConfigurationError: There is no such file.
    """
    if Path(name).is_fifo():
        raise ConfigurationError(
            f"{name} is a pipe, which cannot be looked at before it is read, nor read again if the "
            "import is stopped; write it to a file first."
        )
    try:
        with Path(name).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except FileNotFoundError as exc:
        raise ConfigurationError(
            f"There is no file {name}; name one, or a URL such as sqlite:///sessions.db or "
            "postgresql://user:password@host/database."
        ) from exc
    except OSError as exc:
        raise ConfigurationError(f"{name} cannot be read ({exc.strerror}).") from exc
