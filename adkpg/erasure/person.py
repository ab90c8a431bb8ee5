"""A person, and everything that an app keeps of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from google.adk.artifacts.base_artifact_service import BaseArtifactService

from adkpg.artifacts.sweep import remove_objects
from adkpg.database import Database, Transaction
from adkpg.erasure import statements
from adkpg.erasure.files import delete_files
from adkpg.erasure.locks import giving_way
from adkpg.keys import ScopeKey, require_storable
from adkpg.memory.write.statements import lock_person
from adkpg.tables import PERSONAL
from adkpg.telemetry.calls import DELETE, traced_function


@dataclass(frozen=True)
class Erased:
    """What was erased of a person, or would be.

    Attributes:
      app_name: The app.
      user_id: The person.
      rows: Number of rows by table; tables without any are left out.
      memories: Number of memories by kind, as in ``rows["memories"]`` together.
      files: Number of files in the other artifact service, all versions of one counted as one.
      objects: Number of objects of files in the object store, removed or left.
      objects_left: How many of these could not be removed, since the store refused, is another
        database's or is not named here; a sweep does it.
    """

    app_name: str
    user_id: str
    rows: Mapping[str, int]
    memories: Mapping[str, int]
    files: int
    objects: int = 0
    objects_left: int = 0

    def __bool__(self) -> bool:
        return bool(self.rows) or self.files > 0


@traced_function(DELETE)
async def forget(
    database: Database,
    *,
    app_name: str,
    user_id: str,
    artifact_service: BaseArtifactService | None = None,
    dry_run: bool = False,
) -> Erased:
    """Erases everything that an app keeps of a person; idempotent.

    Sessions, events, the user's state, saved files, memories of every kind with their words,
    vectors, provenance and pending work, and the marks of deleted memories go in one transaction.
    Whoever is writing is waited for, and what they wrote goes too: appends, ingests and workers
    that began before. An append that comes later raises `SessionNotFound`, and a worker finds
    nothing to add to. What a caller gives to memory afterwards is stored like anything new. The
    state that all users of the app share is left alone.

    Objects of files in ``ADKPG_ARTIFACT_STORE`` go after the rows; those that cannot are noted for
    a sweep, and counted. A file that is being uploaded is not saved.

    Files in another service go before the rows, since only the rows tell which sessions there were:
    if that service fails, the rows are still there, and forgetting can be asked for again.

    Args:
      database: The database.
      app_name: The app.
      user_id: The person.
      artifact_service: Where else the person's files are; None leaves those alone.
      dry_run: Only counts.

    Returns:
      What was erased; rows that a writer added in the meantime may go uncounted.

    Raises:
      InvalidInput: An id cannot be stored.
      DatabaseError: The server refused, or a writer held on for too long; all rows are still there.
      Exception: What the artifact service raises.
    """
    require_storable(app_name=app_name, user_id=user_id)
    scope: ScopeKey = {"app_name": app_name, "user_id": user_id}
    files = 0
    session_ids: set[str] = set()
    if artifact_service is not None:
        found = await database.run.fetch(statements.select_session_ids(**scope))
        session_ids |= {row["session_id"] for row in found}
        files = await delete_files(
            artifact_service,
            app_name=app_name,
            user_id=user_id,
            session_ids=sorted(session_ids),
            dry_run=dry_run,
        )
    if dry_run:
        rows, memories = await _counted(database, scope)
        stored = await database.run.fetch(statements.select_objects(**scope))
        return Erased(app_name, user_id, rows, memories, files, len(stored))
    objects: set[str] = set()  # also of an attempt whose answer was lost
    rows, memories, last_ids = await giving_way(
        database, scope, partial(_erase, scope=scope, objects=objects)
    )
    database.keepers.erased(**scope)
    left = await remove_objects(database, objects)
    if artifact_service is not None:  # a turn that was running may have saved some more
        session_ids |= last_ids
        try:
            files += await delete_files(
                artifact_service,
                app_name=app_name,
                user_id=user_id,
                session_ids=sorted(session_ids),
            )
        except Exception as exc:
            exc.add_note(
                f"The rows of user {user_id!r} are erased; new files may be left in sessions "
                f"{sorted(session_ids)}."
            )
            raise
    return Erased(app_name, user_id, rows, memories, files, len(objects), left)


async def _counted(database: Database, scope: ScopeKey) -> tuple[dict[str, int], dict[str, int]]:
    rows: Counter[str] = Counter()
    memories: Counter[str] = Counter()
    for table in PERSONAL:
        for row in await database.run.fetch(statements.count_rows(table, **scope)):
            _add(rows, memories, table.name, row["kind"], row["rows"])
    return dict(rows), dict(memories)


async def _erase(
    transaction: Transaction, *, scope: ScopeKey, objects: set[str]
) -> tuple[dict[str, int], dict[str, int], set[str]]:
    """Deletes until nothing is found.

    A statement does not see what a writer commits that it waited for, such as the memory that an
    append wrote with its event; the next pass does. A writer that commits later than a pass
    that finds nothing wrote to nothing that was erased, so it came after the erasure.

    Args:
      transaction: Erases.
      scope: Whose.
      objects: Told where in an object store the files are.

    Returns:
      Rows by table, memories by kind, and session ids.
    """
    rows: Counter[str] = Counter()
    memories: Counter[str] = Counter()
    session_ids: set[str] = set()
    # Who writes memories of no stored session holds nothing else.
    await transaction.fetch(lock_person(**scope))
    while True:
        found = 0
        await transaction.fetch(statements.lock_sessions(**scope))
        known = await transaction.fetch(statements.select_session_ids(**scope))
        session_ids |= {row["session_id"] for row in known}
        stored = await transaction.fetch(statements.select_objects(**scope))
        objects |= {row["location"] for row in stored}
        for table in PERSONAL:
            for row in await transaction.fetch(statements.delete_rows(table, **scope)):
                found += row["rows"]
                _add(rows, memories, table.name, row["kind"], row["rows"])
        if not found:
            return dict(rows), dict(memories), session_ids


def _add(
    rows: Counter[str], memories: Counter[str], table: str, kind: str | None, count: int
) -> None:
    rows[table] += count
    if kind is not None:
        memories[kind] += count
