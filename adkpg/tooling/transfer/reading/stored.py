"""Stored: what an app, a user or a session has, as lines of JSON, page by page."""

import base64
import json
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any

from adkpg.artifacts import statements as artifact_statements
from adkpg.artifacts.records import CHUNK_BYTES
from adkpg.artifacts.store import ObjectStore
from adkpg.artifacts.stream import ArtifactStream
from adkpg.database import Database
from adkpg.errors import ConfigurationError
from adkpg.jsontext import mapped, unescape
from adkpg.tooling.transfer import lines
from adkpg.tooling.transfer.kinds import KINDS, Kind
from adkpg.tooling.transfer.reading import statements

_PAGE = 500
_EVENTS = 1_000
_CHUNKS = 8


class Stored:
    """What is stored of an app, of one of its users, or of one session.

    Each session is as of one moment, and so is each other line; all of them together are not.

    Args:
      database: Where.
      app_name: The app.
      user_id: One user; None is all users, and what the app knows and shares.
      session_id: One session of the user.
      objects: The object store, from which files come as bytes.
      named: Whether files of an object store are named alone.
    """

    def __init__(
        self,
        database: Database,
        *,
        app_name: str,
        user_id: str | None = None,
        session_id: str | None = None,
        objects: ObjectStore | None = None,
        named: bool = False,
    ) -> None:
        self._database = database
        self._objects = objects
        self._named = named
        self._app_name = app_name
        self._user_id = user_id
        self._session_id = session_id

    async def everything(self) -> AsyncIterator[tuple[str, str]]:
        """Yields the type of each line, and the line; sessions come last, with their events."""
        for kind in KINDS.values():
            if kind.within is None and kind.type not in ("artifact", "session"):
                async for line in self.lines(kind):
                    yield kind.type, line
        async for each in self._artifacts():
            yield each
        async for each in self.sessions():
            yield each

    async def lines(self, kind: Kind) -> AsyncIterator[str]:
        """Yields the lines of a kind; none of what all users share, if one user is asked for."""
        async for rows in self._pages(kind):
            for row in rows:
                yield _spelled(kind, row["line"])

    async def _pages(self, kind: Kind) -> AsyncIterator[Sequence[Any]]:
        if self._user_id is not None and not kind.rule.personal:
            return
        for part in kind.parts:
            after: list[object] | None = None
            while True:
                rows = await self._database.run.fetch(
                    statements.select_lines(
                        kind,
                        part,
                        app_name=self._app_name,
                        user_id=self._user_id,
                        session_id=self._session_id,
                        after=after,
                        limit=_PAGE,
                    )
                )
                if rows:
                    yield rows
                if len(rows) < _PAGE or not kind.order:
                    break
                after = [rows[-1][name] for name in kind.order]

    async def sessions(self) -> AsyncIterator[tuple[str, str]]:
        """Yields each session's line, and then those of its events, in append order."""
        kind = KINDS["session"]
        async for rows in self._pages(kind):
            async for each in self._with_events(kind, rows):
                yield each

    async def _with_events(self, kind: Kind, rows: Sequence[Any]) -> AsyncIterator[tuple[str, str]]:
        """Yields a page's sessions with their events, which are read for many sessions at once."""
        first, last = rows[0], rows[-1]
        after: tuple[str, str, int] = first["user_id"], first["session_id"], 0
        events: list[Any] = []
        at, more = 0, True
        for row in rows:
            line = _spelled(kind, row["line"])
            yield kind.type, line
            revision = json.loads(line)["revision"]
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
                if place == key and event["seq"] <= revision:
                    yield "event", lines.unbroken(event["line"])

    async def _artifacts(self) -> AsyncIterator[tuple[str, str]]:
        """Yields each version of a file, and then its bytes in parts.

        Raises:
          ConfigurationError: A file is in an object store, and none is given.
        """
        async for line in self.lines(KINDS["artifact"]):
            file = json.loads(line)
            if file["location"] is None:
                parts = self._chunks(file)
            elif self._named:
                yield "artifact", line
                continue
            elif self._objects is None:
                raise ConfigurationError(
                    f"The bytes of file {file['name']!r} are in an object store; set "
                    "ADKPG_ARTIFACT_STORE to its value when the artifact was saved, or export "
                    "the names of objects alone (objects=False, --no-objects)."
                )
            else:
                parts = _cut(self._stream(file, self._objects))
                line = lines.written({**file, "location": None})
            yield "artifact", line
            number = 0
            async for data in parts:
                chunk = {
                    "type": "artifact_chunk",
                    "app_name": self._app_name,
                    "user_id": file["user_id"],
                    "artifact_id": file["artifact_id"],
                    "chunk": number,
                    "data": base64.b64encode(data).decode(),
                }
                yield "artifact_chunk", lines.written(chunk)
                number += 1

    def _stream(self, file: dict[str, Any], objects: ObjectStore) -> ArtifactStream:
        return ArtifactStream(
            self._database,
            app_name=self._app_name,
            user_id=file["user_id"],
            row=file,
            version=None,
            read_object=objects.read,
        )

    async def _chunks(self, file: dict[str, Any]) -> AsyncIterator[bytes]:
        first = 0
        while True:
            rows = await self._database.run.fetch(
                artifact_statements.select_chunks(
                    app_name=self._app_name,
                    user_id=file["user_id"],
                    artifact_id=file["artifact_id"],
                    first_chunk=first,
                    chunk_count=_CHUNKS,
                )
            )
            for row in rows:
                yield row["data"]
            if len(rows) < _CHUNKS:
                return
            first += _CHUNKS


async def _cut(stream: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yields a file's bytes in the parts that the database would have of it."""
    rest = b""
    async for part in stream:
        rest += part
        while len(rest) >= CHUNK_BYTES:
            yield rest[:CHUNK_BYTES]
            rest = rest[CHUNK_BYTES:]
    if rest:
        yield rest


def _spelled(kind: Kind, line: str) -> str:
    """Returns a line without the escapes of what jsonb refuses."""
    if "\\u001a" not in line or not kind.escaped:
        return lines.unbroken(line)
    value = json.loads(line)
    return lines.written(value | {name: mapped(value[name], unescape) for name in kind.escaped})


def _bytes(key: tuple[str, str]) -> tuple[bytes, bytes]:
    return key[0].encode(), key[1].encode()
