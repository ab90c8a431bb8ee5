"""The object store: where the bytes of large files are, if the settings name one.

An object is written before its row and removed after it, so a row's object is always there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC
from io import BytesIO
from typing import IO, Any, TypeVar

from google.adk.platform import time as platform_time

from adkpg.errors import ArtifactGone, ArtifactStoreError, ConfigurationError
from adkpg.settings import Settings
from adkpg.timestamps import clamped

T = TypeVar("T")

_PART = 1_048_576
_CLAIM = "adkpg-claim"


class ObjectStore:
    """A folder of an object store, by fsspec; objects are named by the day and a random id.

    Args:
      url: As fsspec reads it: ``s3://bucket/folder``, ``gs://…``, ``file:///folder``.

    Raises:
      ConfigurationError: fsspec, or its package for this kind of store, is missing, or the URL
        cannot be read.
    """

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra
        except ImportError as exc:
            raise ConfigurationError(
                "ADKPG_ARTIFACT_STORE needs fsspec; run: pip install 'adkpg[files]'"
            ) from exc
        try:
            self._files, root = url_to_fs(url)
        except (ImportError, ValueError) as exc:
            kind = url.partition("://")[0]
            raise ConfigurationError(
                f"ADKPG_ARTIFACT_STORE of the kind {kind!r} cannot be used ({type(exc).__name__}); "
                "correct the URL, or install fsspec's package for it."
            ) from exc
        self._root = str(root).rstrip("/")

    @classmethod
    def of(cls, settings: Settings) -> "ObjectStore | None":
        """Returns the one that the settings name."""
        url = settings.artifact_store
        return None if url is None else cls(url.get_secret_value())

    async def write(self, location: str, file: IO[bytes]) -> None:
        """Writes an object, of a file from its beginning.

        Raises:
          ArtifactStoreError: The store refused it.
        """

        def copy() -> None:
            self._files.makedirs(self._path(location).rpartition("/")[0], exist_ok=True)
            file.seek(0)
            with self._files.open(self._path(location), "wb") as target:
                while part := file.read(_PART):
                    target.write(part)

        await self._done(copy)

    async def read(self, location: str) -> AsyncIterator[bytes]:
        """Yields the bytes of an object.

        Raises:
          ArtifactGone: There is none.
          ArtifactStoreError: The store refused it.
        """
        file: Any = await self._done(lambda: self._files.open(self._path(location), "rb"))
        try:
            while part := await self._done(lambda: file.read(_PART)):
                yield part
        finally:
            await asyncio.to_thread(file.close)

    async def remove(self, locations: Sequence[str]) -> None:
        """Removes objects; those that are not there are none.

        Raises:
          ArtifactStoreError: The store refused it.
        """

        def remove() -> None:
            for location in locations:
                try:
                    self._files.rm_file(self._path(location))
                except FileNotFoundError:
                    continue

        await self._done(remove)

    async def days(self) -> list[str]:
        """Returns the days that objects were written on, as their names begin."""
        return await self._done(lambda: self._names(self._root))

    async def locations(self, day: str) -> list[str]:
        """Returns the objects of a day."""
        names = await self._done(lambda: self._names(self._path(day)))
        return [f"{day}/{name}" for name in names]

    async def claim(self) -> str | None:
        """Returns the token of the database that the folder belongs to; None if it is nobody's.

        Raises:
          ArtifactStoreError: The store refused it.
        """

        def read() -> str | None:
            self._files.invalidate_cache()
            try:
                with self._files.open(self._path(_CLAIM), "rb") as file:
                    return (
                        str(file.read(_PART), "ascii", "replace").replace("\0", "").strip() or None
                    )
            except FileNotFoundError:
                return None

        return await self._done(read)

    async def write_claim(self, token: str) -> None:
        """Writes whose the folder is from now on.

        Raises:
          ArtifactStoreError: The store refused it.
        """
        await self.write(_CLAIM, BytesIO(token.encode()))

    def _names(self, path: str) -> list[str]:
        self._files.invalidate_cache()
        try:
            found = self._files.ls(path, detail=False)
        except FileNotFoundError:
            return []
        return [str(each).rstrip("/").rpartition("/")[2] for each in found]

    def _path(self, location: str) -> str:
        return f"{self._root}/{location}"

    async def _done(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except FileNotFoundError as exc:
            raise ArtifactGone(
                "The bytes of the artifact are not in the object store any more; restore them, or "
                "delete the artifact."
            ) from exc
        except Exception as exc:
            raise ArtifactStoreError(
                f"The object store refused a file ({type(exc).__name__}); see the cause, and try "
                "again."
            ) from exc


def location_of(artifact_id: str) -> str:
    """Returns where the object of a new version is to be."""
    today = clamped(platform_time.get_time()).astimezone(UTC)
    return f"{today:%Y%m%d}/{artifact_id}"
