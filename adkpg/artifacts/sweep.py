"""The sweep: objects that no artifact names any more, since it was deleted or its save failed."""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from google.adk.platform import time as platform_time

from adkpg.artifacts import statements
from adkpg.artifacts.claim import hold
from adkpg.artifacts.store import ObjectStore, is_object
from adkpg.database import Database
from adkpg.errors import AdkpgError, ConfigurationError, DatabaseError
from adkpg.telemetry.calls import on, traced_function

logger = logging.getLogger(__name__)

_BATCH = 100
_ORPHANED_AFTER = timedelta(days=2)  # by the day in its name; a save takes less


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
async def sweep_objects(database: Database, *, take_over: bool = False) -> SweptObjects:
    """Removes objects whose artifacts are gone, and those of saves that failed; idempotent.

    `adkpg worker` and `adkpg db tidy` do it. Artifacts that were deleted, with their session or
    their person too, lose their objects now; objects that no artifact names when they are two days
    old. Without ``ADKPG_ARTIFACT_STORE`` it does nothing.

    Args:
      take_over: Sweep a folder of another database, too, which from then on may not. After a backup
        was restored, the database before it counts as another.

    Raises:
      ArtifactStoreError: The folder is kept by another database, of which this one may be a copy,
        and nothing was removed; or the store refused it, and what is left is swept the next time.
    """
    database.run.require_every_scope()
    store = ObjectStore.of(database.settings)
    if store is None:
        return SweptObjects(0, 0)
    await hold(database, store, take_over=take_over)
    removed = await _remove_deleted(database, store)
    orphans = 0
    oldest = datetime.fromtimestamp(platform_time.get_time(), UTC) - _ORPHANED_AFTER
    for day in sorted(await store.days()):
        if day > f"{oldest:%Y%m%d}":
            break
        locations = await store.locations(day)
        for start in range(0, len(locations), _BATCH):
            batch = locations[start : start + _BATCH]
            orphans += await _remove_unnamed(database, store, batch)
    return SweptObjects(removed, orphans)


async def remove_objects(database: Database, locations: Collection[str]) -> int:
    """Removes objects of files that were erased, and notes what is in the way for the next sweep.

    Whatever erases a person's files calls it afterwards. The log says what was in the way.

    Args:
      locations: Where the objects are.

    Returns:
      How many may be there still.
    """
    if not locations:
        return 0
    left = sorted(locations)
    try:
        # A trigger did it, if the tables are on one server and the file was not being uploaded.
        await database.run.fetch(statements.note_removals(locations=left))
    except DatabaseError as exc:
        logger.warning(
            "%d objects of erased files stay in the object store until they are two days old and a "
            "sweep finds that no file names them, if they cannot be removed now: %s",
            len(left),
            exc,
        )
    try:
        store = ObjectStore.of(database.settings)
        if store is None:
            raise ConfigurationError("ADKPG_ARTIFACT_STORE is not set here.")
        await hold(database, store)
        while left:
            await _remove_unnamed(database, store, left[:_BATCH])
            done, left = left[:_BATCH], left[_BATCH:]
            await database.run.fetch(statements.delete_removals(locations=done))
    except AdkpgError as exc:
        logger.warning("%d objects of erased files are left to the worker: %s", len(left), exc)
    return len(left)


async def remove_noted(database: Database) -> None:
    """Removes all objects that are noted, after files of many were erased; the log says if not."""
    try:
        if not await database.run.fetch(statements.select_removals(limit=1)):
            return
        database.run.require_every_scope()
        store = ObjectStore.of(database.settings)
        if store is not None:
            await hold(database, store)
            await _remove_deleted(database, store)
    except AdkpgError as exc:
        logger.warning("Objects of erased files are left to the worker: %s", exc)


async def _remove_deleted(database: Database, store: ObjectStore) -> int:
    """Removes the objects of artifacts that were deleted; returns how many."""
    removed = 0
    while True:
        rows = await database.run.fetch(statements.select_removals(limit=_BATCH))
        locations = [row["location"] for row in rows]
        if not locations:
            return removed
        removed += await _remove_unnamed(database, store, locations)
        await database.run.fetch(statements.delete_removals(locations=locations))
        if len(locations) < _BATCH:
            return removed


async def _remove_unnamed(database: Database, store: ObjectStore, locations: list[str]) -> int:
    """Removes those objects that no artifact names, be they noted or not; returns how many."""
    rows = await database.run.fetch(statements.select_locations(locations=locations))
    unnamed = sorted(set(locations) - {row["location"] for row in rows})
    for location in (each for each in unnamed if not is_object(each)):
        logger.warning("%r is not an object of a file and was not removed.", location[:100])
    unnamed = [location for location in unnamed if is_object(location)]
    await store.remove(unnamed)
    return len(unnamed)
