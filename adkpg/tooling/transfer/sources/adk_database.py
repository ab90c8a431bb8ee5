"""The databases of ADK's session services, in its languages, read as a stream."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy.ext.asyncio import AsyncConnection

from adkpg.errors import ConfigurationError
from adkpg.settings import Settings
from adkpg.tooling.transfer.records import (
    AppState,
    EventRecord,
    Note,
    Record,
    SessionRecord,
    Unread,
    UserState,
)
from adkpg.tooling.transfer.sources import detection, statements
from adkpg.tooling.transfer.sources.clock import Clock, read_time
from adkpg.tooling.transfer.sources.events import FIELDS, KEYS, read_legacy, read_rows
from adkpg.tooling.transfer.sources.opening import Opened
from adkpg.tooling.transfer.sources.selection import Selection
from adkpg.tooling.transfer.sources.statements import Layout

_PAGE = 200
_LONGEST_OFFSET = timedelta(hours=15)
_UNNAMED = "unnamed"

_NEVER_HELD = {
    "v0": "ADK's schema v0 never held avg_logprobs, cache_metadata, environment_id, finish_reason, "
    "go_away, interaction_id, interaction_status, isolation_scope, live_session_id, "
    "live_session_resumption_update, logprobs_result, model_version, node_info, output, "
    "turn_complete_reason and voice_activity of events.",
    "transcriptions": "This database is of a release before 1.19: it never held transcriptions.",
    "metadata": "This database is of an early release: it never held custom, usage and citation "
    "metadata.",
    "go": "adk-go never held transcriptions, logprobs, model version, finish reason, compaction, "
    "rewind, auth configs and agent state of events.",
}

_NEEDS_A2A = "were left out, for want of a2a-sdk; run pip install 'adkpg[a2a]' and import again."
_NO_PUSH = (
    "The push notification configs of A2A were left out: adkpg sends no such notifications, so the "
    "peers have to subscribe to their tasks or get them."
)


class AdkDatabaseSource:
    """Reads a database of ADK's, which it never changes.

    Args:
      opened: The database.
      layout: How it is laid out.
      selection: What of it is wanted.
      zone: Where its writer ran, if that was given.
      elsewhere: Other Postgres schemas that have tasks of A2A.

    Attributes:
      name: What the report calls it.
    """

    def __init__(
        self,
        opened: Opened,
        layout: Layout,
        selection: Selection,
        zone: ZoneInfo | None,
        elsewhere: Sequence[str] = (),
    ) -> None:
        self._opened = opened
        self._layout = layout
        self._selection = selection
        self._zone = zone
        self._elsewhere = elsewhere
        self._of = (layout, selection.app_name, selection.user_id)
        self.name = opened.name

    async def close(self) -> None:
        """Closes its connections."""
        await self._opened.close()

    async def total(self) -> int:
        """Returns how many events and tasks there are to read."""
        counts = []
        if "events" in self._layout.columns:
            counts.append(statements.count_events(*self._of))
        if "tasks" in self._layout.columns:
            counts.append(statements.count_tasks(self._layout))
        async with self._opened.reading() as connection:
            return sum([(await connection.execute(each)).scalar_one() for each in counts])

    async def records(self) -> AsyncGenerator[tuple[Record, int]]:
        """Yields all that is wanted, as of one moment, and how many events and tasks were read.

        Raises:
          DatabaseError: The database cannot be reached, or refuses a statement.
        """
        for note in self._notes():
            yield Note(note), 0
        read = 0
        async with AsyncExitStack() as stack:
            connection = await stack.enter_async_context(self._opened.reading())
            if "sessions" in self._layout.columns:
                # MySQL streams one result at a time on a connection.
                second = connection
                if self._layout.dialect == "mysql":
                    second = await stack.enter_async_context(self._opened.reading())
                async with aclosing(self._sessions(connection, second)) as sessions:
                    async for record, read in sessions:
                        yield record, read
            if "tasks" in self._layout.columns:
                async with aclosing(self._tasks(connection, read)) as tasks:
                    async for found in tasks:
                        yield found

    async def _sessions(
        self, connection: AsyncConnection, second: AsyncConnection
    ) -> AsyncGenerator[tuple[Record, int]]:
        clock = await self._clock(connection)
        async with aclosing(self._shared(connection)) as shared:
            async for record in shared:
                yield record, 0
        read = 0
        async with aclosing(self._joined(connection, second, clock)) as joined:
            async for record, read in joined:
                yield record, read
        if clock.doubtful:
            yield (
                Note(
                    f"Nothing tells the zone of the times of {clock.doubtful} events for sure: "
                    "they were read as UTC or by the offset of the nearest sessions. If the "
                    "writer ran elsewhere, say --source-timezone."
                ),
                read,
            )

    async def _tasks(
        self, connection: AsyncConnection, read: int
    ) -> AsyncGenerator[tuple[Record, int]]:
        layout, now = self._layout, datetime.now(UTC)
        try:
            from adkpg.tooling.transfer.sources.tasks import read_task  # noqa: PLC0415 - of an extra
        except ImportError:
            count = (await connection.execute(statements.count_tasks(layout))).scalar_one()
            if count:
                yield Note(f"{count} tasks of A2A {_NEEDS_A2A}"), read
            return
        result = await connection.stream(statements.select_tasks(layout))
        async for rows in result.partitions(_PAGE):
            for row in rows:
                read += 1
                record = read_task(row, self._selection, now)
                if record is not None:
                    yield record, read

    def _notes(self) -> list[str]:
        layout = self._layout
        notes = [
            f"Tasks of A2A in schema {each!r} were left out; import again with --source-schema "
            f"{each}."
            for each in self._elsewhere
        ]
        if "push_notification_configs" in layout.columns:
            notes.append(_NO_PUSH)
        if not layout.legacy:
            return notes
        columns = layout.columns["events"]
        notes.append(_NEVER_HELD["go" if layout.writer == "go" else "v0"])
        if layout.writer == "python" and "input_transcription" not in columns:
            notes.append(_NEVER_HELD["transcriptions"])
        if layout.writer == "python" and "custom_metadata" not in columns:
            notes.append(_NEVER_HELD["metadata"])
        return notes

    async def _clock(self, connection: AsyncConnection) -> Clock:
        layout, clock = self._layout, Clock(self._zone)
        if layout.legacy and layout.writer == "python" and layout.dialect == "sqlite":
            result = await connection.stream(statements.select_newest(*self._of))
            async for rows in result.partitions(_PAGE):
                for row in rows:
                    clock.observe(row.newest, row.updated)
        return clock

    def _time(self, value: object) -> datetime | None:
        """A time of a row that is no event: UTC on SQLite and where newer releases wrote it."""
        local = self._layout.legacy and self._layout.dialect != "sqlite"
        return read_time(value, self._zone if local else None)

    async def _shared(self, connection: AsyncConnection) -> AsyncGenerator[Record]:
        for name in ("app_states", "user_states"):
            if name not in self._layout.columns:
                continue
            layout, app_name, user_id = self._of
            result = await connection.stream(
                statements.select_shared(layout, name, app_name, user_id)
            )
            async for rows in result.partitions(_PAGE):
                for row in rows:
                    owner = row.user_id if name == "user_states" else None
                    state, unread = _state(row.state, row.app_name, owner, None)
                    if unread is not None:
                        yield unread
                    time = self._time(row.update_time)
                    if owner is None:
                        yield AppState(app_name=row.app_name, state=state, updated_at=time)
                    else:
                        yield UserState(
                            app_name=row.app_name, user_id=owner, state=state, updated_at=time
                        )

    async def _joined(
        self, connection: AsyncConnection, second: AsyncConnection, clock: Clock
    ) -> AsyncGenerator[tuple[Record, int]]:
        """Yields sessions with their events: both come in the order of the keys' bytes."""
        layout, selection = self._layout, self._selection
        names: tuple[str, ...] = KEYS
        if layout.legacy:
            names += tuple(name for name in FIELDS if name in layout.columns["events"])
        else:
            names += ("event_data",)
        sessions = await connection.stream(statements.select_sessions(*self._of))
        events = await second.stream(statements.select_events(layout, names, *self._of[1:]))
        read = 0
        async with aclosing(self._events(events, clock)) as stream:
            ahead = await anext(stream, None)
            async for rows in sessions.partitions(_PAGE):
                for row in rows:
                    key = _bytes(row.app_name, row.user_id, row.id)
                    while ahead is not None and ahead[0] < key:
                        read += 1
                        yield _orphan(ahead[1]), read
                        ahead = await anext(stream, None)
                    record, found = self._session(row)
                    wanted = self._takes(record)
                    if wanted:
                        for each in found:
                            yield each, read
                        yield record, read
                    while ahead is not None and ahead[0] == key:
                        read += 1
                        if wanted:
                            for event in ahead[2]:
                                yield event, read
                        ahead = await anext(stream, None)
            while ahead is not None:
                read += 1
                if selection.since is None:
                    yield _orphan(ahead[1]), read
                ahead = await anext(stream, None)

    def _takes(self, record: SessionRecord) -> bool:
        """Whether a session is wanted; one whose time may be local is taken rather than missed."""
        since = self._selection.since
        if since is None or record.updated_at is None:
            return True
        local = self._layout.writer == "python" and self._layout.dialect != "sqlite"
        return record.updated_at + (_LONGEST_OFFSET if local else timedelta(0)) >= since

    def _session(self, row: Any) -> tuple[SessionRecord, list[Record]]:
        found: list[Record] = []
        state, unread = _state(row.state, row.app_name, row.user_id, row.id)
        if unread is not None:
            found.append(unread)
        session_id = row.id.strip() or _UNNAMED
        if session_id != row.id:
            found.append(
                Note(
                    f"Session {row.id!r} of user {row.user_id!r} of app {row.app_name!r} is called "
                    f"{session_id!r} here: spaces around an id are no part of it."
                )
            )
        record = SessionRecord(
            app_name=row.app_name,
            user_id=row.user_id,
            session_id=session_id,
            state=state,
            created_at=self._time(row.create_time),
            updated_at=self._time(row.update_time),
        )
        return record, found

    async def _events(
        self, result: Any, clock: Clock
    ) -> AsyncGenerator[tuple[tuple[bytes, ...], Any, list[Record]]]:
        """Yields the key of each event's session, its row, and what was made of it."""
        async for rows in result.partitions(_PAGE):
            for row, records in zip(rows, self._read(rows, clock), strict=True):
                partial = [each for each in records if not _is_partial(each)]
                yield _bytes(row.app_name, row.user_id, row.session_id), row, partial

    def _read(self, rows: Sequence[Any], clock: Clock) -> list[list[Record]]:
        if not self._layout.legacy:
            return [[each] for each in read_rows(rows)]
        found: list[list[Record]] = []
        for row in rows:
            event, missed = read_legacy(row, clock)
            found.append([event] if missed is None else [event, missed])
        return found


def _is_partial(record: Record) -> bool:
    return isinstance(record, EventRecord) and bool(record.event.partial)


def _orphan(row: Any) -> Unread:
    return Unread(
        reason="its session is not stored, so no call could read it.",
        app_name=row.app_name,
        user_id=row.user_id,
        session_id=row.session_id,
        event_id=row.id,
    )


def _state(
    text: Any, app_name: str, user_id: str | None, session_id: str | None
) -> tuple[dict[str, Any], Unread | None]:
    """Returns a state; a null or a scalar, which old versions left behind, is empty."""
    try:
        value = text if isinstance(text, dict) or text is None else json.loads(text)
    except (TypeError, ValueError, RecursionError) as exc:
        return {}, Unread(
            reason=f"its state is not JSON ({exc}); it was taken as empty.",
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            lost=False,
        )
    return value if isinstance(value, dict) else {}, None


def _bytes(*key: str) -> tuple[bytes, ...]:
    return tuple(each.encode(errors="surrogateescape") for each in key)


async def adk_database(
    opened: Opened,
    selection: Selection,
    *,
    settings: Settings,
    zone: ZoneInfo | None,
    schema: str | None,
) -> AdkDatabaseSource:
    """Returns a database of ADK's as a source, after a look at its tables.

    Args:
      opened: The database.
      selection: What of it is wanted.
      settings: Those of the database that is written to; its own schema is left out.
      zone: Where its writer ran, if that was given.
      schema: The Postgres schema of the tables; None finds the one that has them.

    Raises:
      ConfigurationError: It has neither tables of ADK's nor tasks, or of an unknown version, or in
        many schemas.
      DatabaseError: It cannot be reached.
    """
    async with opened.reading() as connection:
        rows = (await connection.execute(statements.select_columns(opened.dialect))).all()
        found = detection.tables_of(rows)
        elsewhere: list[str] = []
        if opened.dialect == "postgresql":
            path = (await connection.execute(statements.select_search_path())).scalars().all()
            place = _schema(opened.name, found, schema, path, settings.database_schema)
            if schema is None:
                elsewhere = [
                    each
                    for each in sorted(found)
                    if each != place and detection.has_tasks(found[each])
                ]
        else:
            place = next(iter(found), "")
        layout = detection.layout_of(
            opened.name,
            opened.dialect,
            place if opened.dialect == "postgresql" else None,
            found.get(place, {}),
        )
        if "adk_internal_metadata" in layout.columns:
            version = (
                (await connection.execute(statements.select_version(layout.schema)))
                .scalars()
                .first()
            )
            if version is None or str(version) != ("0" if layout.legacy else "1"):
                raise ConfigurationError(
                    f"{opened.name} has version {version!r} of ADK's schema, which this version of "
                    "adkpg does not read; upgrade adkpg."
                )
    return AdkDatabaseSource(opened, layout, selection, zone, elsewhere)


def _schema(
    name: str,
    found: dict[str, dict[str, dict[str, tuple[str, int | None]]]],
    asked: str | None,
    path: Sequence[str],
    own: str,
) -> str:
    """Returns the schema of ADK's tables: the one that was said, or is on the path, or has some.

    That of tasks alone counts where no schema has sessions.
    """
    if asked is not None:
        return asked
    others = {place: tables for place, tables in found.items() if place != own}
    having = [place for place, tables in others.items() if detection.is_of_adk(tables)]
    if not having:
        having = [place for place, tables in others.items() if detection.has_tasks(tables)]
    on_path = [place for place in path if place in having]
    if len(having) == 1 or on_path:
        return on_path[0] if on_path else having[0]
    if having:
        raise ConfigurationError(
            f"{name} has ADK's tables in several schemas ({', '.join(sorted(having))}); say which "
            "with --source-schema."
        )
    return "public"
