"""Importing: from a source, record by record, in batches that can be repeated."""

import time
from collections.abc import Callable
from contextlib import aclosing
from datetime import date
from pathlib import Path

from google.adk.sessions.base_session_service import BaseSessionService

from adkpg.database import Database
from adkpg.keys import APP_WIDE, require_storable
from adkpg.telemetry.calls import on, traced_function
from adkpg.timestamps import moment
from adkpg.tooling.transfer.records import (
    AppSettingsRecord,
    ArtifactRecord,
    ChunkRecord,
    EventRecord,
    MemoryRecord,
    Note,
    Progress,
    Record,
    SessionRecord,
    SharedState,
    TombstoneRecord,
    Unread,
)
from adkpg.tooling.transfer.report import ImportReport
from adkpg.tooling.transfer.sources.choice import Source, chosen
from adkpg.tooling.transfer.sources.selection import Selection
from adkpg.tooling.transfer.writing.artifacts import ArtifactWriter
from adkpg.tooling.transfer.writing.memories import MemoryWriter
from adkpg.tooling.transfer.writing.sessions import Mode, SessionWriter
from adkpg.tooling.transfer.writing.states import StateWriter

_PROGRESS_S = 0.2


@traced_function(on(""))
async def import_from(
    database: Database,
    *,
    source: str | Path | BaseSessionService,
    app_name: str | None = None,
    user_id: str | None = None,
    since: date | str | float | None = None,
    source_timezone: str | None = None,
    source_schema: str | None = None,
    remember: bool = False,
    dry_run: bool = False,
    verify: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> ImportReport:
    """Brings sessions, events and states of elsewhere into the database.

    They are then what appending them here would have made of them. It takes as much memory for a
    million events as for a thousand, and writes some hundred sessions in a transaction; after a
    kill, or once the source has gone on, running it again writes what is missing. A session that is
    stored here with other events is reported and left alone; one that has gone on here stays so.

    Args:
      database: Where to; the source may be the same Postgres database.
      source: A URL or file of ADK's (its DatabaseSessionService in SQLite, Postgres, MySQL or
        MariaDB, old schema and new, its SqliteSessionService, adk-js, adk-go), a file that
        `adkpg export` wrote, or any live session service.
      app_name: One app alone. A live service must be told which.
      user_id: One user alone; what belongs to all users of an app is left out and noted.
      since: Sessions that were updated at this time or later alone.
      source_timezone: The zone that the source's writer ran in, such as ``Europe/Vienna``, for
        times that were stored as local times without saying of where.
      source_schema: The Postgres schema of the source's tables, if several have such.
      remember: Gives what was said to the users' memory, too, by the database's policy.
      dry_run: Reads and compares, and writes nothing.
      verify: Reads the source once more afterwards, and compares every session with what is stored.
      progress: Is told now and then how far it is.

    Returns:
      What was done, what differs, and what could not be read and why.

    Raises:
      ConfigurationError: The source cannot be read at all, or is none of these.
      InvalidInput: A file is no export, or of a newer version; a time cannot be read.
      ScopeMissing: Row-level security is on, and the context's scope is a user's.
      DatabaseError: The server refused a statement; running it again goes on.
    """
    database.run.require_every_scope()
    require_storable(app_name=app_name, user_id=user_id)
    selection = Selection(app_name, user_id, None if since is None else moment("since", since))
    reading = await chosen(
        source,
        selection,
        settings=database.settings,
        source_timezone=source_timezone,
        source_schema=source_schema,
    )
    try:
        report = ImportReport(source=reading.name, dry_run=dry_run)
        mode = Mode.COUNT if dry_run else Mode.WRITE
        second = verify and not dry_run
        await _Pass(database, reading, selection, report, mode, remember, progress).run(
            1 + second, 0
        )
        if second:
            await _Pass(database, reading, selection, report, Mode.VERIFY, False, progress).run(
                2, 1
            )
        return report
    finally:
        await reading.close()


class _Pass:
    """Reads a source once."""

    def __init__(
        self,
        database: Database,
        source: Source,
        selection: Selection,
        report: ImportReport,
        mode: Mode,
        remember: bool,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._source = source
        self._selection = selection
        self._takes_events = False
        self._report = report
        self._counts = mode is not Mode.VERIFY
        self._progress = progress
        self._sessions = SessionWriter(database, report, mode=mode, remember=remember)
        self._states = StateWriter(database, report, mode=mode)
        self._memories = MemoryWriter(database, report, mode=mode)
        self._artifacts = ArtifactWriter(database, report, mode=mode)

    async def run(self, passes: int, number: int) -> None:
        """Reads all of it; it is one of so many passes."""
        total = await self._source.total() if self._progress is not None else 0
        told = events = done = 0.0
        async with aclosing(self._source.records()) as records:
            async for record, done in records:
                events += isinstance(record, EventRecord)
                await self._take(record)
                if self._progress is not None and time.monotonic() - told > _PROGRESS_S:
                    told = time.monotonic()
                    self._tell(int(number * total + done), passes * total, int(events))
        await self._sessions.end()
        await self._sessions.flush()
        await self._states.flush()
        await self._memories.flush()
        await self._artifacts.flush()
        self._tell((number + 1) * total, passes * total, int(events))

    def _tell(self, done: int, total: int, events: int) -> None:
        if self._progress is not None:
            self._progress(Progress(done, total, events, comparing=not self._counts))

    def _wants(self, record: Record) -> bool:
        """Whether a record is of what was asked for, whatever the source yields."""
        if isinstance(record, EventRecord):
            return self._takes_events
        if isinstance(record, Unread | Note):
            return True
        app_name, user_id = record.app_name, getattr(record, "user_id", None)
        if user_id == APP_WIDE:
            user_id = None
        wanted = self._selection.takes(app_name, user_id)
        if isinstance(record, SessionRecord):
            self._takes_events = wanted
        if not wanted and user_id is None and self._selection.app_name in (None, app_name):
            self._report.note(
                f"What all users of app {app_name!r} share (its state, settings and knowledge) was "
                f"left out, because user {self._selection.user_id!r} alone was asked for."
            )
        return wanted

    async def _take(self, record: Record) -> None:
        report = self._report
        if not self._wants(record):
            return
        if isinstance(record, EventRecord):
            report.events += self._counts
            await self._sessions.add(record)
        elif isinstance(record, SessionRecord):
            report.sessions += self._counts
            await self._sessions.begin(record)
        elif isinstance(record, SharedState):
            report.states += self._counts
            await self._states.add(record)
        elif isinstance(record, MemoryRecord):
            report.memories += self._counts
            await self._memories.add(record)
        elif isinstance(record, TombstoneRecord):
            report.tombstones += self._counts
            await self._memories.bury(record)
        elif isinstance(record, (ArtifactRecord, ChunkRecord)):
            report.artifacts += self._counts and isinstance(record, ArtifactRecord)
            await self._artifacts.add(record)
        elif isinstance(record, AppSettingsRecord):
            await self._memories.settle(record)
        elif isinstance(record, Unread) and self._counts:
            report.miss(record)
        elif isinstance(record, Note):
            report.note(record.text)
