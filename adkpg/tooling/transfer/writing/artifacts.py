"""Writing files of an export: what is there stays, and what a kill left out follows."""

from adkpg.database import Database, Transaction
from adkpg.tooling.transfer.kinds import KINDS
from adkpg.tooling.transfer.records import ArtifactRecord, ChunkRecord, Unread
from adkpg.tooling.transfer.report import ImportReport
from adkpg.tooling.transfer.writing import artifact_statements as statements
from adkpg.tooling.transfer.writing.rows import copied, named, unread

_BYTES = 4_000_000
_FILES = 200


class ArtifactWriter:
    """Takes versions of files and their bytes, and writes them in batches.

    Args:
      database: Where.
      report: Is told what differs or cannot be stored.
      writing: Whether they are written; else they are looked at alone.
    """

    def __init__(self, database: Database, report: ImportReport, *, writing: bool) -> None:
        self._database = database
        self._report = report
        self._writing = writing
        self._files: list[ArtifactRecord] = []
        self._chunks: list[tuple[ArtifactRecord, ChunkRecord]] = []
        self._bytes = 0
        self._current: ArtifactRecord | None = None
        self._left: set[str] = set()  # files that are not the export's, by their ids

    async def add(self, record: ArtifactRecord | ChunkRecord) -> None:
        """Adds a version, or some bytes of the one before."""
        if isinstance(record, ArtifactRecord):
            if len(self._files) >= _FILES or self._bytes >= _BYTES:
                await self.flush()
            self._current = record
            self._files.append(record)
            self._bytes += len(record.part) + len(record.custom_metadata)
            return
        if self._current is None or not self._current.has(record):
            self._report.miss(
                Unread(
                    reason=f"Bytes of artifact {record.artifact_id} do not follow its line.",
                    app_name=record.app_name,
                    user_id=record.user_id,
                )
            )
            return
        self._chunks.append((self._current, record))
        self._bytes += len(record.data)
        if self._bytes >= _BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Writes what came so far."""
        files, chunks = self._files, self._chunks
        self._files, self._chunks, self._bytes = [], [], 0
        if not self._writing or not (files or chunks):
            return
        refused: list[tuple[ArtifactRecord | ChunkRecord, str]] = []

        async def work(transaction: Transaction) -> tuple[list[ArtifactRecord], list[ChunkRecord]]:
            refused.clear()
            same = await copied(transaction, KINDS["artifact"], files, refused)
            known = self._left | {each.artifact_id for each in files if each not in same}
            wanted = [chunk for file, chunk in chunks if file.artifact_id not in known]
            elsewhere = await transaction.fetch(
                statements.select_elsewhere(
                    app_names=[chunk.app_name for chunk in wanted],
                    user_ids=[chunk.user_id for chunk in wanted],
                    artifact_ids=[chunk.artifact_id for chunk in wanted],
                )
            )
            stored = {row["artifact_id"] for row in elsewhere}
            wanted = [chunk for chunk in wanted if chunk.artifact_id not in stored]
            copies = await copied(transaction, KINDS["artifact_chunk"], wanted, refused)
            return same, [chunk for chunk in wanted if chunk not in copies]

        same, differing = await self._database.run.transact(work)
        lost = {id(record) for record, _ in refused}
        for record, reason in refused:
            kind = "artifact" if isinstance(record, ArtifactRecord) else "artifact_chunk"
            self._report.miss(unread(KINDS[kind], record, reason))
        for file in files:
            if file not in same:
                self._left.add(file.artifact_id)
                if id(file) not in lost:
                    self._report.differing.add(
                        f"{named(KINDS['artifact'], file)} is not the export's; it was left as it "
                        "is."
                    )
        for chunk in differing:
            if id(chunk) not in lost and chunk.artifact_id not in self._left:
                self._left.add(chunk.artifact_id)
                self._report.differing.add(
                    f"The bytes of artifact {chunk.artifact_id} differ from the export's."
                )
        # Bytes that follow in the next batch are of the last file alone.
        self._left &= {self._current.artifact_id} if self._current is not None else set()
