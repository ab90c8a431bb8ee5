"""Objects: bytes of erased files in an object store, which on a cluster no trigger notes."""

import logging
from collections.abc import Collection

from adkpg.database import Database
from adkpg.erasure import statements
from adkpg.errors import DatabaseError

logger = logging.getLogger(__name__)


async def note_objects(database: Database, locations: Collection[str]) -> None:
    """Has the next sweep remove objects whose files were erased; warns if they cannot be noted.

    Args:
      database: Where the files' rows were.
      locations: Of the objects in the object store.
    """
    if not locations:
        return
    try:
        await database.fetch(statements.note_removals(), {"locations": sorted(locations)})
    except DatabaseError as exc:
        logger.warning(
            "%d objects of erased files stay in the object store until they are two days old and a "
            "sweep finds that no file names them: %s",
            len(locations),
            exc,
        )
