"""A store without room refuses what does not fit, and keeps nothing of it."""

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from adkpg import Database, DatabaseArtifactService
from adkpg.artifacts import sweep_objects
from adkpg.artifacts.store import ObjectStore
from adkpg.errors import DiskFull, RetryableError
from tests.fakes.objects import LARGE, blob, objects, settings_of

PLACE: dict[str, Any] = {
    "app_name": "app",
    "user_id": "ana",
    "session_id": "s",
    "filename": "film.mp4",
}
ROOM = 40_000


@pytest.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(database_url, settings=settings_of(tmp_path)) as opened:
        yield opened


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes the store has room for; more is refused as by a full disk."""
    left = [ROOM]
    opening = LocalFileSystem.open

    def opened(self: LocalFileSystem, path: str, mode: str = "rb", **options: Any) -> Any:
        file = opening(self, path, mode, **options)
        if "w" in mode:
            writing = file.write

            def write(data: bytes) -> int:
                used = sum(each.stat().st_size for each in tmp_path.rglob("*") if each.is_file())
                taken = max(0, left[0] - used)
                if taken < len(data):
                    writing(data[:taken])
                    file.flush()
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written: int = writing(data)
                return written

            file.write = write
        return file

    monkeypatch.setattr(LocalFileSystem, "open", opened)
    return left


async def test_what_does_not_fit_leaves_the_room_that_there_was(
    files: DatabaseArtifactService, tmp_path: Path, room: list[int]
) -> None:
    await files.save_artifact(**PLACE, artifact=blob(LARGE))
    with pytest.raises(DiskFull, match=r"The object store .* is full") as raised:
        await files.save_artifact(**PLACE, artifact=blob(LARGE * 20))
    assert isinstance(raised.value, RetryableError)
    assert raised.value.written is False
    assert [each.stat().st_size for each in objects(tmp_path)] == [len(LARGE)]
    assert await files.save_artifact(**PLACE, artifact=blob(LARGE)) == 1
    assert len(objects(tmp_path)) == 2
    assert await files.load_artifact(**PLACE) == blob(LARGE)
    room[0] = 20 * ROOM
    assert await files.save_artifact(**PLACE, artifact=blob(LARGE * 20)) == 2


async def test_a_full_store_stays_its_databases(
    database: Database, files: DatabaseArtifactService, tmp_path: Path, room: list[int]
) -> None:
    await files.save_artifact(**PLACE, artifact=blob(LARGE))
    store = ObjectStore.of(database.settings)
    assert store is not None
    before = await store.claim()
    room[0] = 0
    with pytest.raises(DiskFull):
        await store.write_claim("another")
    assert await store.claim() == before
    assert len(objects(tmp_path)) == 1
    room[0] = ROOM
    await files.delete_artifact(**PLACE)
    await sweep_objects(database)
    assert objects(tmp_path) == []
