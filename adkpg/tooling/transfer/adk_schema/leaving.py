"""Leaving: sessions, events and states into a database that ADK's own service reads."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy
from google.adk.sessions.database_session_service import DatabaseSessionService as AdkService
from sqlalchemy.ext.asyncio import AsyncConnection

from adkpg import jsontext
from adkpg.database import Database
from adkpg.errors import ConfigurationError
from adkpg.keys import require_storable
from adkpg.telemetry.calls import on, traced_function
from adkpg.timestamps import clamped
from adkpg.tooling.transfer import lines
from adkpg.tooling.transfer.adk_schema import statements
from adkpg.tooling.transfer.kinds import KINDS
from adkpg.tooling.transfer.reading.stored import Stored
from adkpg.tooling.transfer.records import AppState, SessionRecord, UserState
from adkpg.tooling.transfer.report import Listing
from adkpg.tooling.transfer.sources import detection
from adkpg.tooling.transfer.sources import statements as source_statements
from adkpg.tooling.transfer.sources.opening import Opened, opened

_BATCH = 500
_STEP = timedelta(microseconds=1)

# Of the last event: the time in its column, and its id, by which ADK orders events.
_Last = tuple[datetime, str]


@dataclass
class ExportReport:
    """What was written into a database of ADK's.

    Attributes:
      target: The database, without password.
      read: Sessions that were read.
      sessions: Sessions that are new there.
      events: Events that were written.
      known: Events that were there already.
      unwritten: What that database does not hold, with the reason.
    """

    target: str
    read: int = 0
    sessions: int = 0
    events: int = 0
    known: int = 0
    unwritten: Listing = field(default_factory=Listing)

    def as_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {**vars(self), "unwritten": vars(self.unwritten)}


@traced_function(on(""))
async def export_to_adk(
    database: Database,
    *,
    url: str,
    app_name: str,
    user_id: str | None = None,
    session_id: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> ExportReport:
    """Writes an app's sessions, events and states into a database of ADK's, in its schema v1.

    ADK's own DatabaseSessionService then reads them, on SQLite, Postgres, MySQL or MariaDB. Missing
    tables are made as ADK makes them. Running it again writes what is missing: events that are
    there stay, states become what is stored here. ADK orders events by a column of times, which
    gets the order of appending; the events' own times stay exact. Memories have no place there.

    Args:
      database: Where from.
      url: Where to, such as ``sqlite:///sessions.db``; it may be the same Postgres database.
      app_name: The app.
      user_id: One user alone.
      session_id: One session of the user alone.
      progress: Is told how many events were read so far.

    Raises:
      ConfigurationError: The URL cannot be read, or leads to tables of ADK's old schema.
      DatabaseError: The database cannot be reached, or refuses a statement.
      InvalidInput: An id cannot be stored.
    """
    require_storable(app_name=app_name, user_id=user_id, session_id=session_id)
    if user_id is None:
        database.run.require_every_scope()
    target = await opened(url, database.settings, writes=True)
    try:
        with target.explained():
            await _require_new_schema(target)
            await AdkService(db_engine=target.engine).prepare_tables()
            report = ExportReport(target.name)
            stored = Stored(database, app_name=app_name, user_id=user_id, session_id=session_id)
            await _Leaving(target, stored, report, progress).run(app_name, database)
            return report
    finally:
        await target.close()


async def _require_new_schema(target: Opened) -> None:
    async with target.engine.connect() as connection:
        rows = (await connection.execute(source_statements.select_columns(target.dialect))).all()
    for tables in detection.tables_of(rows).values():
        if detection.is_of_adk(tables) and detection.is_legacy(tables):
            raise ConfigurationError(
                f"{target.name} has tables of ADK's old schema (v0); name an empty database, or "
                "one of google-adk 1.22 or later."
            )


class _Leaving:
    def __init__(
        self,
        target: Opened,
        stored: Stored,
        report: ExportReport,
        progress: Callable[[int], None] | None,
    ) -> None:
        self._target = target
        self._stored = stored
        self._report = report
        self._progress = progress
        self._users: set[str] = set()
        self._read = 0

    async def run(self, app_name: str, database: Database) -> None:
        """Writes all of it."""
        # A user's export has no app state, but ADK needs a row of it.
        await self._share(app_name, None, None)
        async for line in Stored(database, app_name=app_name).lines(KINDS["app_state"]):
            await self._share(app_name, None, lines.record(lines.read(line)))
        async for line in self._stored.lines(KINDS["user_state"]):
            state: UserState = lines.record(lines.read(line))
            await self._share(app_name, state.user_id, state)
        session: SessionRecord | None = None
        rows: list[dict[str, Any]] = []
        last: _Last | None = None
        async for kind, line in self._stored.sessions():
            if kind == "session":
                if session is not None:
                    await self._write(session, rows, last)
                session, rows, last = lines.record(lines.read(line)), [], None
                self._report.read += 1
                if session.user_id not in self._users:
                    await self._share(app_name, session.user_id, None)
                continue
            rows.append(json.loads(line)["event"])
            self._read += 1
            if len(rows) == _BATCH and session is not None:
                last = await self._write(session, rows, last)
                rows = []
        if session is not None:
            await self._write(session, rows, last)

    async def _share(
        self, app_name: str, user_id: str | None, shared: AppState | UserState | None
    ) -> None:
        """Gives an app or a user the row that ADK needs, with our keys over those there."""
        ours = dict(shared.state) if shared is not None else {}
        place: dict[str, Any] = {"app_name": app_name}
        if user_id is None:
            found = statements.select_app_state(app_name)
            insert, change = statements.insert_app_state(), statements.update_app_state(app_name)
        else:
            self._users.add(user_id)
            place["user_id"] = user_id
            found = statements.select_user_state(app_name, user_id)
            insert = statements.insert_user_state()
            change = statements.update_user_state(app_name, user_id)
        updated = _naive(datetime.now(UTC) if shared is None else shared.updated_at)
        async with self._target.engine.connect() as connection:
            row = (await connection.execute(found)).first()
            if row is None:
                values = {**place, "state": ours, "update_time": updated}
                name = "the app's state" if user_id is None else f"the state of user {user_id!r}"
                if not await self._tried(connection, insert, values, name):
                    await connection.execute(insert, {**values, "state": {}})
            elif ours and dict(row.state or {}) != {**(row.state or {}), **ours}:
                values = {"state": {**(row.state or {}), **ours}, "update_time": updated}
                await self._tried(
                    connection, change, values, f"the state of {user_id or app_name!r}"
                )
            await connection.commit()

    async def _write(
        self, session: SessionRecord, rows: Sequence[dict[str, Any]], last: _Last | None
    ) -> _Last | None:
        """Writes some events of a session, which come after the last one, and returns theirs."""
        key = session.key
        events = []
        for event in rows:
            time = _naive(clamped(float(event["timestamp"])))
            if last is not None and (time, event["id"]) <= last:
                time = last[0] + _STEP
            last = (time, event["id"])
            events.append(
                {
                    "id": event["id"],
                    "app_name": session.app_name,
                    "user_id": session.user_id,
                    "session_id": session.session_id,
                    "invocation_id": event.get("invocation_id") or "",
                    "timestamp": time,
                    "event_data": event,
                }
            )
        async with self._target.engine.connect() as connection:
            updated = _naive(session.updated_at) if last is None else last[0]
            if not await self._session(connection, session, updated):
                return last
            if events:
                ids = [event["id"] for event in events]
                known = set(
                    (await connection.execute(statements.select_known(*key, ids))).scalars()
                )
                self._report.known += len(known)
                new = [event for event in events if event["id"] not in known]
                await self._events(connection, new)
            await connection.commit()
        if self._progress is not None:
            self._progress(self._read)
        return last

    async def _session(
        self, connection: AsyncConnection, session: SessionRecord, updated: datetime
    ) -> bool:
        """Writes a session's row; returns whether it is there."""
        key = session.key
        values = {"state": dict(session.state), "update_time": updated}
        row = (await connection.execute(statements.select_session(*key))).first()
        name = f"session {session.session_id!r} of user {session.user_id!r}"
        if row is not None:
            if updated < row.update_time.replace(tzinfo=None):
                return True  # of an earlier part, or it has gone on there
            return await self._tried(connection, statements.update_session(*key), values, name)
        written = await self._tried(
            connection,
            statements.insert_session(),
            {
                "app_name": session.app_name,
                "user_id": session.user_id,
                "id": session.session_id,
                "create_time": _naive(session.created_at),
                **values,
            },
            name,
        )
        self._report.sessions += written
        return written

    async def _events(self, connection: AsyncConnection, events: list[dict[str, Any]]) -> None:
        """Writes events at once, or one by one if that database refuses one."""
        if not events:
            return
        insert = statements.insert_events()
        try:
            async with connection.begin_nested():
                await connection.execute(insert, events)
            self._report.events += len(events)
        except sqlalchemy.exc.DBAPIError:
            for event in events:
                name = f"event {event['id']!r} of session {event['session_id']!r}"
                self._report.events += await self._tried(connection, insert, event, name)

    async def _tried(
        self, connection: AsyncConnection, statement: Any, values: dict[str, Any], name: str
    ) -> bool:
        try:
            async with connection.begin_nested():
                await connection.execute(statement, values)
        except sqlalchemy.exc.DBAPIError as exc:
            if exc.connection_invalidated:
                raise
            reason = " ".join(str(exc.orig).split()).rpartition("'>: ")[2][:300].rstrip(".")
            self._report.unwritten.add(f"{name}: {jsontext.storable(reason)}.")
            return False
        return True


def _naive(time: datetime | None) -> datetime:
    return (time or datetime.now(UTC)).astimezone(UTC).replace(tzinfo=None)
