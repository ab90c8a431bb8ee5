"""The sweep: objects that no artifact names any more, since it was deleted or its save failed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from google.adk.platform import time as platform_time

from adkpg.artifacts import statements
from adkpg.artifacts.claim import hold
from adkpg.artifacts.store import ObjectStore
from adkpg.database import Database
from adkpg.telemetry.calls import on, traced_function

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
    database.require_every_scope()
    store = ObjectStore.of(database.settings)
    if store is None:
        return SweptObjects(0, 0)
    await hold(database, store, take_over=take_over)
    removed = await _remove_deleted(database, store)
    orphans = 0
    oldest = datetime.fromtimestamp(platform_time.get_time(), UTC) - _ORPHANED_AFTER
    for day in sorted(await store.days()):
        if len(day) != 8 or not day.isdecimal() or day > f"{oldest:%Y%m%d}":
            continue
        locations = await store.locations(day)
        for start in range(0, len(locations), _BATCH):
            batch = locations[start : start + _BATCH]
            orphans += await _remove_unnamed(database, store, batch)
    return SweptObjects(removed, orphans)


async def _remove_deleted(database: Database, store: ObjectStore) -> int:
    """Removes the objects of artifacts that were deleted; returns how many."""
    removed = 0
    while True:
        rows = await database.fetch(statements.select_removals(), {"limit": _BATCH})
        locations = [row["location"] for row in rows]
        if not locations:
            return removed
        removed += await _remove_unnamed(database, store, locations)
        await database.fetch(statements.delete_removals(), {"locations": locations})
        if len(locations) < _BATCH:
            return removed


async def _remove_unnamed(database: Database, store: ObjectStore, locations: list[str]) -> int:
    """Removes those objects that no artifact names, be they noted or not; returns how many."""
    rows = await database.fetch(statements.select_locations(), {"locations": locations})
    unnamed = sorted(set(locations) - {row["location"] for row in rows})
    await store.remove(unnamed)
    return len(unnamed)
