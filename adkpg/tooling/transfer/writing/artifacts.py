"""Writing files of an export: what is there stays, and what a kill left out follows."""

from adkpg.artifacts.place import place
from adkpg.artifacts.records import CHUNK_BYTES
from adkpg.database import Database, Transaction
from adkpg.errors import InvalidInput
from adkpg.keys import ScopeKey, require_storable
from adkpg.tooling.transfer.records import ArtifactRecord, ChunkRecord, Unread
from adkpg.tooling.transfer.report import ImportReport
from adkpg.tooling.transfer.writing import artifact_statements as statements
from adkpg.tooling.transfer.writing.sessions import Mode

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
        self._chunks: list[tuple[ArtifactRecord, ChunkRecord]] = []
        self._bytes = 0
        self._current: ArtifactRecord | None = None
        self._refused: set[tuple[str, str, str]] = set()
        self._elsewhere: set[tuple[str, str, str]] = set()  # their bytes are in an object store

    async def add(self, record: ArtifactRecord | ChunkRecord) -> None:
        """Adds a version, or some bytes of the one before."""
        if isinstance(record, ArtifactRecord):
            self._current = None
            try:
                _require_place(record)
            except InvalidInput as exc:
                self._miss(record, str(exc))
                return
            self._current = record
        elif self._current is None or not _is_part(record, self._current):
            self._miss(record, f"Bytes of artifact {record.artifact_id} do not follow its line.")
            return
        scope = (record.app_name, record.user_id)
        if scope != self._scope or self._bytes >= _BYTES or len(self._files) >= _FILES:
            await self.flush()
        self._scope = scope
        if isinstance(record, ArtifactRecord):
            self._files.append(record)
        else:
            assert self._current is not None
            self._chunks.append((self._current, record))
            self._bytes += len(record.data)

    def _miss(self, record: ArtifactRecord | ChunkRecord, reason: str) -> None:
        if self._mode is Mode.WRITE:
            self._report.miss(
                Unread(reason=reason, app_name=record.app_name, user_id=record.user_id)
            )

    async def flush(self) -> None:
        """Does what is to be done with what came so far."""
        files, chunks = self._files, self._chunks
        self._files, self._chunks, self._bytes = [], [], 0
        if self._scope is None or self._mode is Mode.COUNT or not (files or chunks):
            return
        scope: ScopeKey = {"app_name": self._scope[0], "user_id": self._scope[1]}
        if self._mode is Mode.WRITE:
            await self._database.run.transact(
                lambda transaction: _write(transaction, scope, files, chunks)
            )
            return
        stored = {
            (row["session_id"], row["name"], row["version"]): row
            for row in await self._database.run.fetch(
                statements.select_artifacts(
                    **scope,
                    session_ids=[file.session_id for file in files],
                    names=[file.name for file in files],
                    versions=[file.version for file in files],
                )
            )
        }
        for file in files:
            row = stored.get((file.session_id, file.name, file.version))
            if row is not None and row["artifact_id"] == file.artifact_id:
                if row["location"] is not None:
                    self._elsewhere.add(_key(file))
            else:
                self._report.differing.add(
                    f"Version {file.version} of file {file.name!r} of user {file.user_id!r} is not "
                    "the export's; it was left as it is."
                )
                self._refused.add(_key(file))
        data = {
            (row["artifact_id"], row["chunk"]): row["data"]
            for row in await self._database.run.fetch(
                statements.select_chunks(
                    **scope,
                    artifact_ids=[chunk.artifact_id for _, chunk in chunks],
                    chunks=[chunk.chunk for _, chunk in chunks],
                )
            )
        }
        for _, chunk in chunks:
            if _key(chunk) in self._refused or _key(chunk) in self._elsewhere:
                continue
            if data.get((chunk.artifact_id, chunk.chunk)) != chunk.data:
                self._refused.add(_key(chunk))
                self._report.differing.add(
                    f"The bytes of artifact {chunk.artifact_id} differ from the export's."
                )


async def _write(
    transaction: Transaction,
    scope: ScopeKey,
    files: list[ArtifactRecord],
    chunks: list[tuple[ArtifactRecord, ChunkRecord]],
) -> None:
    if files:
        await transaction.fetch(
            statements.insert_artifacts(
                **scope,
                session_ids=[file.session_id for file in files],
                names=[file.name for file in files],
                versions=[file.version for file in files],
                artifact_ids=[file.artifact_id for file in files],
                parts=[file.part for file in files],
                mime_types=[file.mime_type for file in files],
                custom_metadata=[file.custom_metadata for file in files],
                sizes=[file.size for file in files],
                locations=[file.location for file in files],
                created=[file.created_at for file in files],
            )
        )
    if chunks:
        await transaction.fetch(
            statements.insert_chunks(
                **scope,
                session_ids=[file.session_id for file, _ in chunks],
                names=[file.name for file, _ in chunks],
                versions=[file.version for file, _ in chunks],
                sizes=[file.size for file, _ in chunks],
                artifact_ids=[chunk.artifact_id for _, chunk in chunks],
                chunks=[chunk.chunk for _, chunk in chunks],
                data=[chunk.data for _, chunk in chunks],
            )
        )


def _require_place(file: ArtifactRecord) -> None:
    """Refuses a file that no save would have put where it says to be."""
    require_storable(app_name=file.app_name, user_id=file.user_id)
    where = place(file.app_name, file.user_id, file.name, file.session_id or None)
    if (where.session_id, where.name) != (file.session_id, file.name):
        raise InvalidInput(
            f"File {file.name!r} is neither one of its session nor, by the prefix user:, of its "
            "user; correct the name."
        )


def _is_part(chunk: ChunkRecord, file: ArtifactRecord) -> bool:
    """Whether bytes are of a file, and as many as it has at that place."""
    left = file.size - chunk.chunk * CHUNK_BYTES
    return (
        _key(chunk) == _key(file)
        and file.location is None
        and 0 < len(chunk.data) == min(left, CHUNK_BYTES)
    )


def _key(record: ArtifactRecord | ChunkRecord) -> tuple[str, str, str]:
    return record.app_name, record.user_id, record.artifact_id
