"""DatabaseArtifactService: files that agents save, next to their sessions and memories."""

import asyncio
import io
import logging
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, Any
from uuid import uuid4

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.platform import time as platform_time
from google.genai import types

from adkpg.artifacts import records, statements
from adkpg.artifacts.claim import hold
from adkpg.artifacts.place import Place, place, scope
from adkpg.artifacts.store import ObjectStore, location_of
from adkpg.artifacts.stream import ArtifactStream, following
from adkpg.artifacts.sweep import remove_objects
from adkpg.database import Database, Transaction, UsesDatabase
from adkpg.errors import (
    AdkpgError,
    ArtifactGone,
    DatabaseError,
    DiskFull,
    InvalidArtifact,
    SessionNotFound,
)
from adkpg.keys import ScopeKey
from adkpg.limits import page_rows
from adkpg.outages.cancellation import uninterrupted
from adkpg.pages import Page, cursor_of, place_of
from adkpg.telemetry.calls import on, traced
from adkpg.timestamps import clamped

logger = logging.getLogger(__name__)

_TOGETHER = 16
"""Chunks that travel in one round trip: 4 MB."""

_DEPTH = 5  # of references, as in ADK's own services
_ERASED = -1  # no version: the save lost to an erasure
_TOMBSTONE = "application/octet-stream"


@dataclass(frozen=True)
class StoredArtifact:
    """One version of a file, without its bytes.

    Attributes:
      session_id: The session that it belongs to; None if it is the user's own.
      filename: Its name.
      size: Bytes of the file, or of its text as UTF-8.
      version: What ADK is told of it.
    """

    session_id: str | None
    filename: str
    size: int
    version: ArtifactVersion


@traced(
    save_artifact=on("artifacts"),
    save_stream=on("artifacts"),
    load_artifact=on("artifacts"),
    open_artifact=on("artifacts"),
    list_artifact_keys=on("artifacts"),
    delete_artifact=on("artifacts"),
    list_versions=on("artifacts"),
    list_artifact_versions=on("artifacts"),
    get_artifact_version=on("artifacts"),
    list_artifacts_page=on("artifacts"),
)
class DatabaseArtifactService(UsesDatabase, BaseArtifactService):
    """A complete ADK artifact service on Postgres.

    Versions count from 0; a name whose versions were all deleted starts again. Names that begin
    with ``user:``, and whatever is saved without a session, are the user's own; the others belong
    to one session, and go with it when `DatabaseSessionService` deletes it. `adkpg.erasure.forget`
    erases all of a person's. A file of up to 4 MB is saved, and loaded, in one round trip. Larger
    files go in parts, and are there as a whole or not at all. With ``ADKPG_ARTIFACT_STORE`` they go
    to an object store. Errors about arguments are also ADK's ``InputValidationError``.

    Safe to use from many tasks, event loops, processes and machines simultaneously: each save gets
    a version of its own.

    Args:
      database: A `Database` to share (it stays open when the service closes), or a URL.
      **options: With a URL: for a `Database` of its own.

    Raises:
      ConfigurationError: No database is named, or it cannot be read.
    """

    def __init__(self, database: Database | str | None = None, **options: Any) -> None:
        super().__init__(database, **options)
        self._store = ObjectStore.of(self._database.settings)
        self._is_held = False

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Saves a new version of a file.

        Args:
          filename: May hold slashes.
          artifact: A Part with ``inline_data``, ``text`` or ``file_data`` (kept as the reference
            that it is), or a dict of one.
          session_id: None makes the file the user's own.
          custom_metadata: An object of JSON values.

        Returns:
          The version: 0, or the last one's and 1.

        Raises:
          InvalidArtifact: An id or the name cannot be stored, the part is of no kind that can be,
            it refers to a file of another user, or it is too large.
          SessionNotFound: Its session was deleted, or its person was forgotten, while it was saved;
            nothing was.
          ArtifactGone: The same, of a file that is the user's own.
          DiskFull: The object store, or the server, has no room for it; nothing of it stays.
          ArtifactStoreError: The object store refused it, or is another database's.
        """
        where = place(app_name, user_id, filename, session_id)
        draft = records.draft(artifact)
        self._require_own(draft, where, session_id)
        metadata = records.described(custom_metadata)
        data = draft.data or b""
        self._require_small(len(data) + len(draft.part))
        file = io.BytesIO(data)
        if not self._goes_to_store(len(data)):
            return await self._save(where, draft, metadata, file, len(data), None)
        async with self._uploading(where) as upload:
            return await self._save(where, draft, metadata, file, len(data), upload)

    async def save_stream(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        data: AsyncIterable[bytes],
        mime_type: str,
        session_id: str | None = None,
        display_name: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Saves a new version of a file that is never whole in memory.

        What comes is first kept in a temporary file, so no transaction waits for it.

        Args:
          data: The bytes, in parts of any size.
          mime_type: The file's.
          display_name: The name in the Part that `load_artifact` returns.

        Returns:
          The version, as `save_artifact`.

        Raises:
          InvalidArtifact: As `save_artifact`; what `data` raises goes on, and nothing is saved.
        """
        where = place(app_name, user_id, filename, session_id)
        draft = records.Draft(records.blob(mime_type, display_name), b"", mime_type)
        metadata = records.described(custom_metadata)
        size = 0
        async with self._uploading(where) as upload:
            with tempfile.SpooledTemporaryFile(max_size=_TOGETHER * records.CHUNK_BYTES) as file:
                async for part in data:
                    size += len(part)
                    self._require_small(size)
                    try:
                        await asyncio.to_thread(file.write, part)
                    except OSError as exc:
                        raise DiskFull(
                            f"The folder for temporary files has no room for the stream ({exc}); "
                            "make room there, or set TMPDIR to another folder.",
                            written=False,
                        ) from exc
                return await self._save(where, draft, metadata, file, size, upload)

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Loads a version of a file; a reference to another of the user's files is followed.

        Args:
          version: None is the latest.

        Returns:
          A Part equal to the saved one; None if there is no such version, or a rewind took it.

        Raises:
          InvalidArtifact: An id cannot be, or a reference leads too far or to another user.
        """
        found = await self._found(app_name, user_id, filename, session_id, version)
        if found is None:
            return None
        _, row = found
        read = ArtifactStream(
            self._database,
            app_name=app_name,
            user_id=user_id,
            row=row,
            version=None,
            read_object=self._store.read if self._store is not None else None,
        )
        return records.part(row["part"], [part async for part in read])

    async def open_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactStream | None:
        """Opens a version of a file, to read its bytes in parts: ``async for part in opened``.

        Args:
          version: None is the latest.

        Returns:
          What it is, and its bytes (a text's as UTF-8); None as for `load_artifact`.

        Raises:
          InvalidArtifact: As `load_artifact`.
        """
        found = await self._found(app_name, user_id, filename, session_id, version)
        if found is None:
            return None
        where, row = found
        told = records.version(where, row)
        return ArtifactStream(
            self._database,
            app_name=app_name,
            user_id=user_id,
            row=row,
            version=told,
            read_object=self._store.read if self._store is not None else None,
        )

    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Returns the names of a session's files and the user's own, sorted; all of them.

        Args:
          session_id: None lists the user's own files alone.

        Raises:
          InvalidArtifact: An id cannot be.
        """
        rows = await self._database.run.fetch(
            statements.select_names(
                **scope(app_name, user_id, session_id), session_id=session_id or ""
            )
        )
        return [row["name"] for row in rows]

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Deletes all versions of a file; idempotent.

        Objects that cannot be removed are noted for a sweep, and the log says so.

        Raises:
          InvalidArtifact: An id or the name cannot be.
        """
        where = place(app_name, user_id, filename, session_id)
        gone = await self._database.run.fetch(statements.delete_artifact(**where.key))
        locations = {row["location"] for row in gone if row["location"] is not None}
        await remove_objects(self._database, locations)

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Returns the versions of a file, ascending; none if there is no such file.

        Raises:
          InvalidArtifact: An id or the name cannot be.
        """
        listed = await self.list_artifact_versions(
            app_name=app_name, user_id=user_id, filename=filename, session_id=session_id
        )
        return [each.version for each in listed]

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Returns what the versions of a file are, ascending, without their bytes.

        Raises:
          InvalidArtifact: An id or the name cannot be.
        """
        where = place(app_name, user_id, filename, session_id)
        rows = await self._database.run.fetch(statements.select_versions(**where.key))
        return [records.version(where, row) for row in rows]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Returns what a version of a file is, without its bytes; None if there is none.

        Args:
          version: None is the latest.

        Raises:
          InvalidArtifact: An id or the name cannot be.
        """
        where = place(app_name, user_id, filename, session_id)
        row = await self._row(where, version, content=False)
        return None if row is None else records.version(where, row)

    async def list_artifacts_page(
        self,
        *,
        app_name: str,
        user_id: str,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[StoredArtifact]:
        """Returns some versions of all files of a user: by session, the own first, name, version.

        Args:
          limit: At most this many, at least 1, and at most ``ADKPG_MAX_RESULTS``.
          cursor: The ``next_cursor`` of the page before; None starts at the first.

        Raises:
          InvalidInput: `limit` is below 1, or `cursor` did not come from a page.
          InvalidArtifact: An id cannot be.
        """
        limit = page_rows(self._database.settings, limit)
        whose = scope(app_name, user_id, None)
        after = ("", "", -1) if cursor is None else place_of(cursor, str, str, int)
        rows = await self._database.run.fetch(
            statements.select_page(
                **whose,
                after_session_id=after[0],
                after_name=after[1],
                after_version=after[2],
                limit=limit + 1,
            )
        )
        page = []
        for row in rows[:limit]:
            where = Place(app_name, user_id, row["session_id"], row["name"])
            told = records.version(where, row)
            page.append(StoredArtifact(row["session_id"] or None, row["name"], row["size"], told))
        next_cursor = None
        if len(rows) > limit:
            last = page[-1]
            next_cursor = cursor_of(last.session_id or "", last.filename, last.version.version)
        return Page(page, next_cursor)

    async def _found(
        self,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None,
        version: int | None,
    ) -> tuple[Place, Mapping[str, Any]] | None:
        """Returns a version with its first bytes, at the end of all references."""
        for depth in range(_DEPTH, -1, -1):
            where = place(app_name, user_id, filename, session_id)
            row = await self._row(where, version, content=True)
            if row is None or _is_tombstone(row):
                return None
            uri = _reference(row["part"])
            if uri is None:
                return where, row
            try:
                target = artifact_util.resolve_artifact_reference(
                    file_uri=uri,
                    app_name=app_name,
                    user_id=user_id,
                    session_id=session_id,
                    remaining_depth=depth,
                )
            except InputValidationError as exc:
                raise InvalidArtifact(f"{exc} Save the file itself.") from exc
            filename, session_id, version = target.filename, target.session_id, target.version
        raise AssertionError("ADK bounds how many references are followed")

    async def _row(
        self, where: Place, version: int | None, *, content: bool
    ) -> statements.LoadedVersion | None:
        if version is not None and not 0 <= version < 2**31:
            return None
        query = statements.select_version(
            **where.key, version=version, chunk_count=_TOGETHER if content else 0
        )
        return await self._database.run.fetch_one(query)

    @asynccontextmanager
    async def _uploading(self, where: Place) -> AsyncIterator["_Upload"]:
        """Notes a file that is uploaded from now on, and leaves nothing of it if it is not saved.

        Who erases its person or session deletes the note, without which it is not saved: what takes
        long is done where no lock is held.
        """
        artifact_id = str(uuid4())
        whose: ScopeKey = {"app_name": where.app_name, "user_id": where.user_id}
        location = None
        if self._store is not None:
            location = location_of(**whose, artifact_id=artifact_id)
        upload = _Upload(artifact_id, location)
        begun = await self._database.run.fetch_one(
            statements.begin_upload(
                **whose,
                session_id=where.session_id,
                artifact_id=artifact_id,
                location=location,
            )
        )
        if begun is None or begun["is_gone"]:
            raise _erased(where)
        try:
            yield upload
        except DatabaseError:  # which keeps the cure away, too: a later sweep is it
            raise
        except BaseException:  # CancelledError, too: else its object and its note would stay
            await uninterrupted(self._drop(upload, whose))
            raise

    async def _drop(self, upload: "_Upload", whose: ScopeKey) -> None:
        """Leaves nothing of an upload that failed."""
        try:
            # Who deletes the note knows that its file is saved by no statement that comes later.
            ended = await self._database.run.fetch(
                statements.end_upload(**whose, artifact_id=upload.artifact_id)
            )
            if self._store is None or upload.location is None or not upload.is_written:
                return
            if ended or upload.is_erased:
                await self._store.remove([upload.location])
        except AdkpgError as exc:
            logger.warning("A later sweep removes the rest of a failed save: %s", exc)

    async def _save(
        self,
        where: Place,
        draft: records.Draft,
        metadata: str,
        file: IO[bytes] | Any,
        size: int,
        upload: "_Upload | None",
    ) -> int:
        """Stores a version; a file of several parts in one transaction."""
        location = None
        first = b""
        if self._store is not None and upload is not None and self._goes_to_store(size):
            assert upload.location is not None
            location = upload.location
            if not self._is_held:
                await hold(self._database, self._store)
                self._is_held = True
            upload.is_written = True
            await self._store.write(location, file)
        else:
            file.seek(0)
            first = await asyncio.to_thread(file.read, _TOGETHER * records.CHUNK_BYTES)
        artifact_id = str(uuid4()) if upload is None else upload.artifact_id
        save = statements.save(
            **where.key,
            artifact_id=artifact_id,
            uploaded=upload is not None,
            part=draft.part,
            mime_type=draft.mime_type,
            custom_metadata=metadata,
            size=size,
            location=location,
            created_at=clamped(platform_time.get_time()),
            data=records.chunks(first),
        )

        async def in_parts(transaction: Transaction) -> int | None:
            if contended:
                await transaction.fetch(statements.lock_name(**where.key))
            rows = await transaction.fetch(save)
            if not rows:
                return None
            if location is not None or _version(rows[0]) == _ERASED:
                return _version(rows[0])
            async for start, part in following(file, size=_TOGETHER * records.CHUNK_BYTES):
                await transaction.fetch(
                    statements.add_chunks(
                        app_name=where.app_name,
                        user_id=where.user_id,
                        artifact_id=artifact_id,
                        first_chunk=start // records.CHUNK_BYTES,
                        data=records.chunks(part),
                    )
                )
            saved = rows[0]["version"]
            assert saved is not None, "a file is saved with its first bytes"
            return saved

        contended = is_erased = False
        while True:
            in_one = location is not None or len(first) == size
            if not contended and in_one:
                row = await self._database.run.fetch_one(save)
                saved = None if row is None else _version(row)
            else:
                saved = await self._database.run.transact(in_parts)
            if saved is None:
                contended = True  # another save took this version, and has committed
            elif saved != _ERASED:
                return saved
            elif upload is None or is_erased:
                if upload is not None:
                    upload.is_erased = True
                raise _erased(where)
            else:
                is_erased = (
                    True  # or the answer to a run that saved it was lost: the next one knows
                )

    def _goes_to_store(self, size: int) -> bool:
        if self._store is None:
            return False
        return size > self._database.settings.artifact_store_above_kb * 1_000

    def _require_small(self, size: int) -> None:
        most = self._database.settings.max_artifact_mb
        if size > most * 1_000_000:
            raise InvalidArtifact(
                f"The artifact has {size:,} bytes or more, and ADKPG_MAX_ARTIFACT_MB={most} allows "
                f"{most * 1_000_000:,}; save less, or raise that setting."
            )

    def _require_own(self, draft: records.Draft, where: Place, session_id: str | None) -> None:
        """Refuses a reference to what is not the user's, or another session's."""
        uri = _reference(draft.part)
        if uri is None:
            return
        parsed = artifact_util.parse_artifact_uri(uri)
        if parsed is None:
            raise InvalidArtifact(
                f"{uri!r} is not a reference to an artifact; write "
                "artifact://apps/A/users/U/sessions/S/artifacts/F/versions/N."
            )
        try:
            artifact_util.validate_artifact_reference_scope(
                app_name=where.app_name,
                user_id=where.user_id,
                session_id=session_id,
                parsed_uri=parsed,
            )
        except InputValidationError as exc:
            raise InvalidArtifact(f"{exc} Save the file itself.") from exc


@dataclass
class _Upload:
    artifact_id: str
    location: str | None
    is_written: bool = False  # as a whole, or in part
    is_erased: bool = False


def _version(row: Mapping[str, Any]) -> int:
    return _ERASED if row["version"] is None else int(row["version"])


def _erased(where: Place) -> AdkpgError:
    if where.session_id:
        return SessionNotFound(
            f"Session {where.session_id!r} was deleted, or its user forgotten, while a file of it "
            "was uploaded, so the file was not saved; create the session again before you save it."
        )
    return ArtifactGone(
        f"User {where.user_id!r} was forgotten while a file of theirs was uploaded, so the file "
        "was not saved; save it again if it is to be kept."
    )


def _reference(part: str) -> str | None:
    if '"artifact://' not in part:
        return None
    read = types.Part.model_validate_json(part)
    if read.inline_data is not None or read.text is not None:
        return None
    return (
        read.file_data.file_uri if read.file_data and artifact_util.is_artifact_ref(read) else None
    )


def _is_tombstone(row: Mapping[str, Any]) -> bool:
    """Whether it is what a rewind saves to take a file away: no bytes, of no kind."""
    if row["size"] or row["mime_type"] != _TOMBSTONE:
        return False
    return records.part(row["part"], []) == types.Part(
        inline_data=types.Blob(mime_type=_TOMBSTONE, data=b"")
    )
