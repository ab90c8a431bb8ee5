"""The object store: where the bytes of large files are, if the settings name one.

An object is written before its row and removed after it, so a row's object is always there.
"""

import asyncio
import contextlib
import errno
import hashlib
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC
from io import BytesIO
from typing import IO, Any, TypeVar
from uuid import uuid4

from google.adk.platform import time as platform_time

from adkpg.errors import ArtifactGone, ArtifactStoreError, ConfigurationError, DiskFull
from adkpg.settings import Settings
from adkpg.timestamps import clamped

T = TypeVar("T")

_PART = 1_048_576
_CLAIM = "adkpg-claim"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_DAY = re.compile("[0-9]{8}")
_OBJECT = re.compile(r"[0-9]{8}/(?!\.{1,2}\Z)[^/\\\x00-\x1f]+")


class ObjectStore:
    """A folder of an object store, by fsspec; objects are named by `location_of`.

    Only objects of days are read, written or removed in it, whatever a caller names.

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
        kinds = self._files.protocol
        self._is_local = "file" in ((kinds,) if isinstance(kinds, str) else kinds)

    @classmethod
    def of(cls, settings: Settings) -> "ObjectStore | None":
        """Returns the one that the settings name."""
        url = settings.artifact_store
        return None if url is None else cls(url.get_secret_value())

    async def write(self, location: str, file: IO[bytes]) -> None:
        """Writes an object, of a file from its beginning: whole, or nothing of it stays.

        Raises:
          DiskFull: The store has no room for it.
          ArtifactStoreError: The store refused it.
        """
        await self._done(lambda: self._copy(file, self._path(location), location))

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
        names = await self._done(lambda: self._names(self._root))
        return [name for name in names if _DAY.fullmatch(name)]

    async def locations(self, day: str) -> list[str]:
        """Returns the objects of a day."""
        names = await self._done(lambda: self._names(self._within(day)))
        return [f"{day}/{name}" for name in names if is_object(f"{day}/{name}")]

    async def claim(self) -> str | None:
        """Returns the token of the database that the folder belongs to; None if to no database.

        Raises:
          ArtifactStoreError: The store refused it.
        """

        def read() -> str | None:
            self._files.invalidate_cache()
            try:
                with self._files.open(self._within(_CLAIM), "rb") as file:
                    return (
                        str(file.read(_PART), "ascii", "replace").replace("\0", "").strip() or None
                    )
            except FileNotFoundError:
                return None

        return await self._done(read)

    async def write_claim(self, token: str) -> None:
        """Writes whose the folder is from now on; until then it stays whose it was.

        Raises:
          DiskFull: The store has no room for it.
          ArtifactStoreError: The store refused it.
        """
        file = BytesIO(token.encode())
        await self._done(lambda: self._copy(file, self._within(_CLAIM), _CLAIM))

    def _copy(self, file: IO[bytes], path: str, name: str) -> None:
        """Writes a file whole, or leaves what was there and takes no room."""
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        file.seek(0)
        # Other stores show a file once it is whole, and keep what it replaces until then.
        unfinished = self._within(f"{name}.{uuid4().hex}.part") if self._is_local else path
        try:
            with self._files.open(unfinished, "wb") as target:
                while part := file.read(_PART):
                    target.write(part)
            if self._is_local:
                os.replace(unfinished, path)
        except Exception:  # each kind of store raises its own; it goes on to the caller
            if self._is_local or name != _CLAIM:
                with contextlib.suppress(Exception):  # the cause of the failure says more
                    self._files.rm_file(unfinished)
            raise

    def _names(self, path: str) -> list[str]:
        self._files.invalidate_cache()
        try:
            found = self._files.ls(path, detail=False)
        except FileNotFoundError:
            return []
        return [str(each).rstrip("/").rpartition("/")[2] for each in found]

    def _path(self, location: str) -> str:
        if not is_object(location):
            raise ArtifactStoreError(
                f"{location[:100]!r} is not an object of a file, so it is neither read nor "
                "changed; delete the artifact that names it."
            )
        return self._within(location)

    def _within(self, name: str) -> str:
        """Returns the path of a name, which leads out of the folder by no link either."""
        if self._is_local and os.path.realpath(f"{self._root}/{name}") != os.path.join(
            os.path.realpath(self._root), name
        ):
            raise ArtifactStoreError(
                f"{name!r} in the folder that ADKPG_ARTIFACT_STORE names is a symbolic link, so it "
                "is neither read nor changed; remove the link."
            )
        return f"{self._root}/{name}"

    async def _done(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except FileNotFoundError as exc:
            raise ArtifactGone(
                "The object store no longer has the bytes of the artifact; restore them, or "
                "delete the artifact."
            ) from exc
        except ArtifactStoreError:
            raise
        except Exception as exc:
            if getattr(exc, "errno", None) in _FULL:
                raise DiskFull(
                    "The object store that ADKPG_ARTIFACT_STORE names is full, and nothing was "
                    "saved; make room there, then try again.",
                    written=False,
                ) from exc
            raise ArtifactStoreError(
                f"The object store refused a file ({type(exc).__name__}); see the cause, and try "
                "again."
            ) from exc


def location_of(*, app_name: str, user_id: str, artifact_id: str) -> str:
    """Returns where the object of a new version is to be: by the day and what it alone has.

    The object's name tells no person's, because the id is random.
    """
    today = clamped(platform_time.get_time()).astimezone(UTC)
    return f"{today:%Y%m%d}/{_name(app_name, user_id, artifact_id)}"


def is_location_of(location: object, *, app_name: str, user_id: str, artifact_id: str) -> bool:
    """Whether `location_of` gives it to this version on some day; the schema checks it, too."""
    return (
        isinstance(location, str)
        and _DAY.fullmatch(location[:8]) is not None
        and location[8:] == f"/{_name(app_name, user_id, artifact_id)}"
    )


def is_object(location: str) -> bool:
    """Whether a location is one of an object in the folder of a day."""
    return _OBJECT.fullmatch(location) is not None


def _name(app_name: str, user_id: str, artifact_id: str) -> str:
    """As ``artifacts_location_check`` of the schema."""
    text = f"{len(app_name)}:{app_name}{user_id}{artifact_id}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
