"""Stored: what an app, a user or a session has, as records, page by page."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from adkpg import jsontext
from adkpg.artifacts import statements as artifact_statements
from adkpg.artifacts.records import CHUNK_BYTES
from adkpg.artifacts.store import ObjectStore
from adkpg.artifacts.stream import ArtifactStream
from adkpg.database import Database
from adkpg.memory.drafts import COLUMNS, Draft
from adkpg.queries import Query
from adkpg.tooling.transfer.reading import statements
from adkpg.tooling.transfer.records import (
    AppSettingsRecord,
    ArtifactRecord,
    ChunkRecord,
    MemoryRecord,
    SessionRecord,
    SharedState,
    TombstoneRecord,
)

_PAGE = 500
_EVENTS = 1_000
_FILES = 100
_CHUNKS = 8
_LOWEST = -(2**63)


class Stored:
    """What is stored of an app, of one of its users, or of one session.

    Each session is as of one moment, and so is each other record; all of them together are not.

    Args:
      database: Where.
      app_name: The app.
      user_id: One user; None is everybody, and what the app knows and shares.
      session_id: One session of the user.
      objects: The object store, from which files come as bytes; None names their objects alone.
    """

    def __init__(
        self,
        database: Database,
        *,
        app_name: str,
        user_id: str | None = None,
        session_id: str | None = None,
        objects: ObjectStore | None = None,
    ) -> None:
        self._database = database
        self._objects = objects
        self._app_name = app_name
        self._user_id = user_id
        self._session_id = session_id

    async def _page(
        self, of_app: Callable[..., Query[Any]], of_user: Callable[..., Query[Any]], **page: Any
    ) -> list[Any]:
        """Reads a page of what there is of the app, or of the user or the session."""
        if self._user_id is None:
            query = of_app(app_name=self._app_name, **page)
        else:
            query = of_user(
                app_name=self._app_name,
                user_id=self._user_id,
                session_id=self._session_id,
                **page,
            )
        return await self._database.run.fetch(query)

    async def settings(self) -> AppSettingsRecord | None:
        """Returns the app's settings; None if it has none, or one user is asked for."""
        if self._user_id is not None:
            return None
        row = await self._database.run.fetch_one(
            statements.select_settings(app_name=self._app_name)
        )
        if row is None:
            return None
        return AppSettingsRecord(
            app_name=self._app_name,
            text_search_config=row["text_search_config"],
            extract_facts=row["extract_facts"],
            model=None if row["model"] is None else (row["model"], row["dimensions"] or 0),
        )

    async def app_state(self) -> SharedState | None:
        """Returns the app's state; None if it has none, or one user is asked for."""
        if self._user_id is not None:
            return None
        row = await self._database.run.fetch_one(
            statements.select_app_state(app_name=self._app_name)
        )
        return None if row is None else self._shared(None, row)

    def _shared(self, user_id: str | None, row: Any) -> SharedState:
        return SharedState(
            app_name=self._app_name,
            user_id=user_id,
            state=jsontext.read_state(row["state"]),
            updated_at=row["updated_at"],
        )

    async def user_states(self) -> AsyncIterator[SharedState]:
        """Yields the users' states, by user."""
        if self._user_id is not None:
            for row in await self._database.run.fetch(
                statements.select_user_state(app_name=self._app_name, user_id=self._user_id)
            ):
                yield self._shared(row["user_id"], row)
            return
        first = ""
        while True:
            rows = await self._database.run.fetch(
                statements.select_user_states(
                    app_name=self._app_name, first_user=first, limit=_PAGE
                )
            )
            for row in rows:
                yield self._shared(row["user_id"], row)
            if len(rows) < _PAGE:
                return
            first = rows[-1]["user_id"] + "\x01"  # no id lies between them

    async def tombstones(self) -> AsyncIterator[TombstoneRecord]:
        """Yields the marks of deleted memories."""
        user, session, event = "", "", ""
        while True:
            rows = await self._page(
                statements.select_tombstones_of_app,
                statements.select_tombstones_of_user,
                after_user=user,
                after_session=session,
                after_event=event,
                limit=_PAGE,
            )
            for row in rows:
                yield TombstoneRecord(
                    app_name=self._app_name,
                    user_id=row["user_id"],
                    session_id=row["session_id"],
                    event_id=row["event_id"],
                    needed_at=row["needed_at"],
                )
            if len(rows) < _PAGE:
                return
            last = rows[-1]
            user, session, event = last["user_id"], last["session_id"], last["event_id"]

    async def sessions(self) -> AsyncIterator[SessionRecord | tuple[int, str]]:
        """Yields each session, and then its events as number and payload, in append order."""
        user, session = "", ""
        while True:
            rows = await self._page(
                statements.select_sessions_of_app,
                statements.select_sessions_of_user,
                after_user=user,
                after_session=session,
                limit=_PAGE,
            )
            async for record in self._with_events(rows):
                yield record
            if len(rows) < _PAGE:
                return
            user, session = rows[-1]["user_id"], rows[-1]["session_id"]

    async def _with_events(
        self, rows: Sequence[Any]
    ) -> AsyncIterator[SessionRecord | tuple[int, str]]:
        """Yields a page's sessions with their events, which are read for many sessions at once."""
        if not rows:
            return
        first, last = rows[0], rows[-1]
        after: tuple[str, str, int] = first["user_id"], first["session_id"], 0
        events: list[Any] = []
        at, more = 0, True
        for row in rows:
            yield SessionRecord(
                app_name=self._app_name,
                user_id=row["user_id"],
                session_id=row["session_id"],
                state=jsontext.read_state(row["state"]),
                created_at=row["created_at"],
                updated_at=row["updated_at"],
                revision=row["revision"],
                memory_position=row["memory_position"],
                initial_state=None
                if row["initial_state"] is None
                else jsontext.read_state(row["initial_state"]),
                ttl_s=row["ttl_s"],
                expires_at=row["expires_at"],
            )
            key = (row["user_id"], row["session_id"])
            while True:
                if at == len(events):
                    if not more:
                        break
                    events = await self._database.run.fetch(
                        statements.select_events(
                            app_name=self._app_name,
                            after_user=after[0],
                            after_session=after[1],
                            after_seq=after[2],
                            last_user=last["user_id"],
                            last_session=last["session_id"],
                            limit=_EVENTS,
                        )
                    )
                    at, more = 0, len(events) == _EVENTS
                    if not events:
                        break
                    after = events[-1]["user_id"], events[-1]["session_id"], events[-1]["seq"]
                event = events[at]
                place = (event["user_id"], event["session_id"])
                if _bytes(place) > _bytes(key):
                    break
                at += 1
                # Of a session that was created meanwhile there is no line; nor of what came later.
                if place == key and event["seq"] <= row["revision"]:
                    yield event["seq"], event["payload"]

    async def memories(self) -> AsyncIterator[MemoryRecord]:
        """Yields memories; what was drawn from others comes after all of those."""
        for derived in (False, True):
            user, position = "", _LOWEST
            while True:
                rows = await self._page(
                    statements.select_memories_of_app,
                    statements.select_memories_of_user,
                    derived=derived,
                    after_user=user,
                    after_position=position,
                    limit=_PAGE,
                )
                origins = await self._origins(rows) if derived else {}
                for row in rows:
                    yield MemoryRecord(
                        app_name=self._app_name,
                        user_id=row["user_id"],
                        position=row["position"],
                        draft=Draft(**{name: row[name] for name in COLUMNS}),
                        created_at=row["created_at"],
                        superseded_by=row["superseded_by"],
                        extracted_at=row["extracted_at"],
                        origins=tuple(origins.get((row["user_id"], row["memory_id"]), ())),
                    )
                if len(rows) < _PAGE:
                    break
                user, position = rows[-1]["user_id"], rows[-1]["position"]

    async def artifacts(self) -> AsyncIterator[ArtifactRecord | ChunkRecord]:
        """Yields each version of a file, and then its bytes in parts."""
        user, session, name, version = "", "", "", -1
        while True:
            rows = await self._page(
                statements.select_artifacts_of_app,
                statements.select_artifacts_of_user,
                after_user=user,
                after_session=session,
                after_name=name,
                after_version=version,
                limit=_FILES,
            )
            for row in rows:
                record = ArtifactRecord(app_name=self._app_name, **row)
                if record.location is not None and self._objects is not None:
                    yield replace(record, location=None)
                    stream = ArtifactStream(
                        self._database,
                        app_name=record.app_name,
                        user_id=record.user_id,
                        row=row,
                        version=None,
                        read_object=self._objects.read,
                    )
                    async for chunk in _cut(record, stream):
                        yield chunk
                    continue
                yield record
                async for chunk in self._chunks(record):
                    yield chunk
            if len(rows) < _FILES:
                return
            last = rows[-1]
            user, session = last["user_id"], last["session_id"]
            name, version = last["name"], last["version"]

    async def _chunks(self, record: ArtifactRecord) -> AsyncIterator[ChunkRecord]:
        chunk = 0
        while True:
            rows = await self._database.run.fetch(
                artifact_statements.select_chunks(
                    app_name=record.app_name,
                    user_id=record.user_id,
                    artifact_id=record.artifact_id,
                    first_chunk=chunk,
                    chunk_count=_CHUNKS,
                )
            )
            for row in rows:
                yield _chunk(record, chunk, row["data"])
                chunk += 1
            if len(rows) < _CHUNKS:
                return

    async def _origins(self, rows: Sequence[Any]) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for user_id, theirs in groupby(rows, key=lambda row: str(row["user_id"])):
            for row in await self._database.run.fetch(
                statements.select_origins(
                    app_name=self._app_name,
                    user_id=user_id,
                    memory_ids=[row["memory_id"] for row in theirs],
                )
            ):
                found.setdefault((user_id, row["memory_id"]), []).append(row["origin_id"])
        return found


async def _cut(record: ArtifactRecord, stream: AsyncIterable[bytes]) -> AsyncIterator[ChunkRecord]:
    """Yields a file's bytes in the parts that the database would have of it."""
    rest, chunk = b"", 0
    async for part in stream:
        rest += part
        while len(rest) >= CHUNK_BYTES:
            yield _chunk(record, chunk, rest[:CHUNK_BYTES])
            rest, chunk = rest[CHUNK_BYTES:], chunk + 1
    if rest:
        yield _chunk(record, chunk, rest)


def _chunk(record: ArtifactRecord, chunk: int, data: bytes) -> ChunkRecord:
    return ChunkRecord(
        app_name=record.app_name,
        user_id=record.user_id,
        artifact_id=record.artifact_id,
        chunk=chunk,
        data=data,
    )


def _bytes(key: tuple[str, str]) -> tuple[bytes, bytes]:
    return key[0].encode(), key[1].encode()
