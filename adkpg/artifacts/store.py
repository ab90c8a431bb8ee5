"""The object store: where the bytes of large files are, if the settings name one.

An object is written before its row and removed after it, so a row's object is always there. What is
left over, since a save failed between the two or an object store did not answer, is swept.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import IO, Any, TypeVar

from google.adk.platform import time as platform_time

from adkpg.artifacts import statements
from adkpg.database import Database
from adkpg.errors import ArtifactGone, ArtifactStoreError, ConfigurationError
from adkpg.settings import Settings
from adkpg.telemetry.calls import on, traced_function
from adkpg.timestamps import clamped

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PART = 1_048_576
_BATCH = 100
_ORPHANED_AFTER = timedelta(days=2)  # by the day in its name; a save takes less


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
    return f"{_day(platform_time.get_time())}/{artifact_id}"


def _day(now: float) -> str:
    return f"{clamped(now).astimezone(UTC):%Y%m%d}"


@dataclass(frozen=True)
class SweptObjects:
    """How many objects were removed from the object store.

    Attributes:
      removed: Whose artifacts were deleted.
      orphans: That no artifact names, since their save failed.
    """

    removed: int
    orphans: int


@traced_function(on("artifact_removals"))
async def sweep_objects(database: Database) -> SweptObjects:
    """Removes objects whose artifacts are gone, and those of saves that failed; idempotent.

    `adkpg worker` and `adkpg db tidy` do it. Artifacts that were deleted, with their session or
    their person too, lose their objects now; objects that no artifact names when they are two days
    old. So the folder belongs to this database alone. Without ``ADKPG_ARTIFACT_STORE`` it does
    nothing.

    Raises:
      ArtifactStoreError: The store refused it; what is left is swept the next time.
    """
    database.require_every_scope()
    store = ObjectStore.of(database.settings)
    if store is None:
        return SweptObjects(0, 0)
    removed = await remove_deleted(database, store)
    orphans = 0
    oldest = datetime.fromtimestamp(platform_time.get_time(), UTC) - _ORPHANED_AFTER
    for day in sorted(await store.days()):
        if len(day) != 8 or not day.isdecimal() or day > f"{oldest:%Y%m%d}":
            continue
        locations = await store.locations(day)
        for start in range(0, len(locations), _BATCH):
            batch = locations[start : start + _BATCH]
            rows = await database.fetch(statements.select_locations(), {"locations": batch})
            lost = sorted(set(batch) - {row["location"] for row in rows})
            await store.remove(lost)
            orphans += len(lost)
    return SweptObjects(removed, orphans)


async def remove_deleted(database: Database, store: ObjectStore) -> int:
    """Removes the objects of artifacts that were deleted; returns how many."""
    removed = 0
    while True:
        rows = await database.fetch(statements.select_removals(), {"limit": _BATCH})
        locations = [row["location"] for row in rows]
        await store.remove(locations)
        await database.fetch(statements.delete_removals(), {"locations": locations})
        removed += len(locations)
        if len(locations) < _BATCH:
            return removed
