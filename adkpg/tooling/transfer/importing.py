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
from adkpg.tooling.transfer.kinds import KINDS
from adkpg.tooling.transfer.records import (
    AppSettingsRecord,
    AppState,
    ArtifactRecord,
    ChunkRecord,
    EventRecord,
    MemoryRecord,
    Note,
    Progress,
    Record,
    SessionRecord,
    TombstoneRecord,
    Unread,
    UserState,
)
from adkpg.tooling.transfer.report import ImportReport
from adkpg.tooling.transfer.sources.choice import Source, chosen
from adkpg.tooling.transfer.sources.selection import Selection
from adkpg.tooling.transfer.writing.artifacts import ArtifactWriter
from adkpg.tooling.transfer.writing.memories import MemoryWriter
from adkpg.tooling.transfer.writing.rows import RowWriter
from adkpg.tooling.transfer.writing.sessions import SessionWriter
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
    progress: Callable[[Progress], None] | None = None,
) -> ImportReport:
    """Brings sessions, events, states and tasks of elsewhere into the database.

    They are then what appending them here would have made of them. The source is read once, in as
    much memory for a million events as for a thousand. All that is new in a session is written, or
    nothing. Some hundred sessions share a transaction, in which digests of what is stored are
    compared with the source's. After a kill, or once the source has gone on, running it again
    writes what is missing. A session that is stored here with other events is reported and left
    alone; one that has gone on here stays so.

    Args:
      database: Where to; the source may be the same Postgres database.
      source: A URL or file of ADK's, a file that `adkpg export` wrote, or any live session service.
        ADK's are its DatabaseSessionService (SQLite, Postgres, MySQL or MariaDB, old schema and
        new), its SqliteSessionService, adk-js and adk-go, with the tasks that the A2A sdk keeps
        there or alone.
      app_name: One app alone, which tasks without an app are then of. A live service must be told
        which.
      user_id: One user alone; what belongs to all users of an app is left out and noted.
      since: Sessions and tasks that were updated at this time or later alone.
      source_timezone: The zone that the source's writer ran in, such as ``Europe/Vienna``, for
        times that were stored as local times without saying of where.
      source_schema: The Postgres schema of the source's tables, if several have such.
      remember: Gives what was said to the users' memory, too, by the database's policy.
      dry_run: Reads and compares, and writes nothing.
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
        await _Import(database, reading, selection, report, remember).run(progress)
        return report
    finally:
        await reading.close()


class _Import:
    """Reads a source, and gives each record to the writer of its kind."""

    def __init__(
        self,
        database: Database,
        source: Source,
        selection: Selection,
        report: ImportReport,
        remember: bool,
    ) -> None:
        self._source = source
        self._selection = selection
        self._report = report
        self._takes_events = False
        writing = not report.dry_run
        self._sessions = SessionWriter(database, report, writing=writing, remember=remember)
        self._states = StateWriter(database, report, writing=writing)
        self._memories = MemoryWriter(database, report, writing=writing)
        self._artifacts = ArtifactWriter(database, report, writing=writing)
        self._rows = {
            kind.record: RowWriter(database, report, kind, writing=writing)
            for kind in KINDS.values()
            if kind.is_copied
        }

    async def run(self, progress: Callable[[Progress], None] | None) -> None:
        """Reads all of it."""
        total = await self._source.total() if progress is not None else 0
        told, done = 0.0, 0
        async with self._sessions, aclosing(self._source.records()) as records:
            async for record, done in records:
                wanted = self._wants(record)
                if isinstance(record, SessionRecord):
                    await self._sessions.end()
                    self._takes_events = wanted
                if wanted:
                    await self._take(record)
                if progress is not None and time.monotonic() - told > _PROGRESS_S:
                    told = time.monotonic()
                    progress(Progress(done, total, self._report.events))
            await self._sessions.flush()
        await self._states.flush()
        await self._memories.flush()
        await self._artifacts.flush()
        for writer in self._rows.values():
            await writer.flush()
        if progress is not None:
            progress(Progress(total, total, self._report.events))

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
        if not wanted and user_id is None and self._selection.app_name in (None, app_name):
            self._report.note(
                f"The state, settings and knowledge that all users of app {app_name!r} share were "
                f"left out, because only user {self._selection.user_id!r} was asked for."
            )
        return wanted

    async def _take(self, record: Record) -> None:
        report = self._report
        if isinstance(record, Unread):
            report.miss(record)
        elif isinstance(record, Note):
            report.note(record.text)
        elif isinstance(record, EventRecord):
            report.events += 1
            await self._sessions.add(record)
        elif isinstance(record, SessionRecord):
            report.sessions += 1
            await self._sessions.begin(record)
        else:
            await self._sessions.end()  # no other writer waits for what it holds
            await self._take_other(record)

    async def _take_other(self, record: Record) -> None:
        report = self._report
        if isinstance(record, AppState | UserState):
            report.states += 1
            await self._states.add(record)
        elif isinstance(record, MemoryRecord):
            report.memories += 1
            await self._memories.add(record)
        elif isinstance(record, TombstoneRecord):
            report.tombstones += 1
            await self._memories.bury(record)
        elif isinstance(record, ArtifactRecord):
            report.artifacts += 1
            await self._artifacts.add(record)
        elif isinstance(record, ChunkRecord):
            await self._artifacts.add(record)
        elif isinstance(record, AppSettingsRecord):
            await self._memories.settle(record)
        else:
            report.rows += 1
            await self._rows[type(record)].add(record)
