"""Writing files of an export: what is there stays, and what a kill left out follows."""

from adkpg.database import Database, Transaction
from adkpg.errors import InvalidInput
from adkpg.keys import require_storable
from adkpg.sql import ScopeParameters
from adkpg.transfer.records import ArtifactRecord, ChunkRecord, Unread
from adkpg.transfer.report import ImportReport
from adkpg.transfer.writing import artifact_statements as statements
from adkpg.transfer.writing.sessions import Mode

_BYTES = 4_000_000
_FILES = 200


class ArtifactWriter:
    """Takes versions of files and their bytes, and writes or verifies them in batches.

    Args:
      database: Where.
      report: Is told what differs or cannot be stored.
      mode: What becomes of them.
    """

    def __init__(self, database: Database, report: ImportReport, *, mode: Mode) -> None:
        self._database = database
        self._report = report
        self._mode = mode
        self._scope: tuple[str, str] | None = None
        self._files: list[ArtifactRecord] = []
        self._chunks: list[ChunkRecord] = []
        self._bytes = 0
        self._refused: set[str] = set()
        self._elsewhere: set[str] = set()  # their bytes are in an object store

    async def add(self, record: ArtifactRecord | ChunkRecord) -> None:
        """Adds a version, or some bytes of the one before."""
        if record.artifact_id in self._refused:
            return
        if isinstance(record, ArtifactRecord):
            try:
                require_storable(
                    app_name=record.app_name,
                    user_id=record.user_id,
                    session_id=record.session_id,
                    name=record.name,
                )
            except InvalidInput as exc:
                self._refused = {record.artifact_id}
                if self._mode is Mode.WRITE:
                    self._report.miss(Unread(reason=str(exc), app_name=record.app_name))
                return
        scope = (record.app_name, record.user_id)
        if scope != self._scope or self._bytes >= _BYTES or len(self._files) >= _FILES:
            await self.flush()
        self._scope = scope
        if isinstance(record, ArtifactRecord):
            self._files.append(record)
        else:
            self._chunks.append(record)
            self._bytes += len(record.data)

    async def flush(self) -> None:
        """Does what is to be done with what came so far."""
        files, chunks = self._files, self._chunks
        self._files, self._chunks, self._bytes = [], [], 0
        if self._scope is None or self._mode is Mode.COUNT or not (files or chunks):
            return
        scope: ScopeParameters = {"app_name": self._scope[0], "user_id": self._scope[1]}
        places: statements.ArtifactIdsParameters = {
            **scope,
            "session_ids": [file.session_id for file in files],
            "names": [file.name for file in files],
            "versions": [file.version for file in files],
        }
        if self._mode is Mode.WRITE:
            await self._database.transact(
                lambda transaction: _write(transaction, scope, places, files, chunks)
            )
            return
        stored = {
            (row["session_id"], row["name"], row["version"]): row
            for row in await self._database.fetch(statements.select_artifacts(), places)
        }
        for file in files:
            row = stored.get((file.session_id, file.name, file.version))
            if row is not None and row["artifact_id"] == file.artifact_id:
                if row["location"] is not None:
                    self._elsewhere.add(file.artifact_id)
            else:
                self._report.differing.add(
                    f"Version {file.version} of file {file.name!r} of user {file.user_id!r} is not "
                    "the export's; it was left as it is."
                )
                self._refused.add(file.artifact_id)
        data = {
            (row["artifact_id"], row["chunk"]): row["data"]
            for row in await self._database.fetch(
                statements.select_chunks(),
                {
                    **scope,
                    "artifact_ids": [chunk.artifact_id for chunk in chunks],
                    "chunks": [chunk.chunk for chunk in chunks],
                },
            )
        }
        for chunk in chunks:
            if chunk.artifact_id in self._refused or chunk.artifact_id in self._elsewhere:
                continue
            if data.get((chunk.artifact_id, chunk.chunk)) != chunk.data:
                self._refused.add(chunk.artifact_id)
                self._report.differing.add(
                    f"The bytes of artifact {chunk.artifact_id} differ from the export's."
                )


async def _write(
    transaction: Transaction,
    scope: ScopeParameters,
    places: statements.ArtifactIdsParameters,
    files: list[ArtifactRecord],
    chunks: list[ChunkRecord],
) -> None:
    if files:
        await transaction.fetch(
            statements.insert_artifacts(),
            {
                **places,
                "artifact_ids": [file.artifact_id for file in files],
                "parts": [file.part for file in files],
                "mime_types": [file.mime_type for file in files],
                "custom_metadata": [file.custom_metadata for file in files],
                "sizes": [file.size for file in files],
                "locations": [file.location for file in files],
                "created": [file.created_at for file in files],
            },
        )
    if chunks:
        await transaction.fetch(
            statements.insert_chunks(),
            {
                **scope,
                "artifact_ids": [chunk.artifact_id for chunk in chunks],
                "chunks": [chunk.chunk for chunk in chunks],
                "data": [chunk.data for chunk in chunks],
            },
        )
