"""Streams: the bytes of a file in parts, so that it need not be whole in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import IO, Any

from google.adk.artifacts.base_artifact_service import ArtifactVersion

from adkpg.artifacts import statements
from adkpg.artifacts.records import CHUNK_BYTES
from adkpg.artifacts.store import is_location_of
from adkpg.database import Database
from adkpg.errors import ArtifactGone, ArtifactStoreError, ConfigurationError

_TOGETHER = 16


class ArtifactStream:
    """One version of a file, which is read by ``async for``; each part has up to 1 MB.

    Versions never change, and what is read is all of this one: reading ends with an error if it is
    deleted meanwhile. It may be read any number of times.

    Attributes:
      version: What ADK is told of it.
      size: How many bytes it has.

    Raises:
      ArtifactGone: While reading: it was deleted.
    """

    def __init__(
        self,
        database: Database,
        *,
        app_name: str,
        user_id: str,
        row: Mapping[str, Any],
        version: ArtifactVersion | None,
        read_object: Callable[[str], AsyncIterator[bytes]] | None,
    ) -> None:
        self._database, self._read_object = database, read_object
        self._app_name, self._user_id, self._row = app_name, user_id, row
        self._version = version
        self.size: int = row["size"]

    def __repr__(self) -> str:
        return f"ArtifactStream(size={self.size})"

    @property
    def version(self) -> ArtifactVersion:
        """What ADK is told of it."""
        assert self._version is not None
        return self._version

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._row["location"] is not None:
            async for part in self._of_object(self._row["location"]):
                yield part
            return
        chunks = list(self._row["chunks"])
        read = count = 0
        while True:
            for chunk in chunks:
                read += len(chunk)
                yield chunk
            if read >= self.size:
                return
            count += len(chunks)
            found = await self._database.run.fetch(
                statements.select_chunks(
                    app_name=self._app_name,
                    user_id=self._user_id,
                    artifact_id=self._row["artifact_id"],
                    first_chunk=count,
                    chunk_count=_TOGETHER,
                )
            )
            if not found:
                raise ArtifactGone("The artifact was deleted while it was read; load it again.")
            chunks = [row["data"] for row in found]

    async def _of_object(self, location: str) -> AsyncIterator[bytes]:
        if not is_location_of(
            location,
            app_name=self._app_name,
            user_id=self._user_id,
            artifact_id=self._row["artifact_id"],
        ):
            raise ArtifactStoreError(
                f"The artifact's row names {location[:100]!r}, which is not its own object, so it "
                "is not read; delete the artifact."
            )
        if self._read_object is None:
            raise ConfigurationError(
                "The artifact's bytes are in an object store; set ADKPG_ARTIFACT_STORE to its "
                "value when the artifact was saved."
            )
        read = 0
        async for part in self._read_object(location):
            read += len(part)
            yield part
        if read != self.size:
            raise ArtifactGone(
                f"The object of the artifact has {read:,} bytes, and not {self.size:,}; restore it."
            )


async def following(file: IO[bytes], *, size: int) -> AsyncIterator[tuple[int, bytes]]:
    """Yields what comes after the first part of a file: where it starts, and its bytes.

    Args:
      file: Read from `size` on, wherever it stands.
      size: Bytes of a part, a multiple of a chunk's.
    """
    assert size % CHUNK_BYTES == 0
    start = size
    await asyncio.to_thread(file.seek, start)
    while part := await asyncio.to_thread(file.read, size):
        yield start, part
        start += len(part)
