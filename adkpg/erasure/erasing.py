"""Erasing: a person, or one session, with everything that the rules say goes along."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from google.adk.artifacts.base_artifact_service import BaseArtifactService

from adkpg.artifacts.sweep import remove_objects
from adkpg.audit.service import done
from adkpg.database import Database, Transaction
from adkpg.erasure import statements
from adkpg.erasure.files import delete_files
from adkpg.erasure.locks import giving_way
from adkpg.keys import APP_WIDE, ScopeKey, SessionKey, require_storable
from adkpg.memory.write.statements import erase_session_memories, lock_person, lock_session
from adkpg.queries import Nothing, Query
from adkpg.rules import BY_TABLE, PERSONAL, Rule
from adkpg.telemetry.calls import DELETE, traced_function

_OF_SESSIONS = tuple(rule for rule in PERSONAL if rule.of_sessions)
_OF_FILES = tuple(rule for rule in PERSONAL if rule.objects)


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


@dataclass
class _Found:
    """What was found, by table and by kind of memory, and of which sessions."""

    rows: Counter[str] = field(default_factory=Counter)
    memories: Counter[str] = field(default_factory=Counter)
    session_ids: set[str] = field(default_factory=set)

    def add(self, rule: Rule, kind: str | None, count: int) -> None:
        self.rows[rule.table.name] += count
        if kind is not None:
            self.memories[kind] += count

    def erased(self, scope: ScopeKey, *, files: int, objects: int, left: int = 0) -> Erased:
        return Erased(
            **scope,
            rows=dict(self.rows),
            memories=dict(self.memories),
            files=files,
            objects=objects,
            objects_left=left,
        )


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
    It waits for writers, and erases their rows, too: those of appends, ingests and workers
    that began before. An append that comes later raises `SessionNotFound`, and a worker finds
    nothing to add to. What a caller gives to memory afterwards is stored like anything new. The
    state that all users of the app share is left alone.

    Objects of files in ``ADKPG_ARTIFACT_STORE`` go after the rows; those that cannot are noted for
    a sweep, and counted. A file that is being uploaded is not saved.

    The audit notes it of the app, and without the person's id, if there was something to erase.

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
        known = await database.run.fetch(statements.select_session_ids(**scope))
        session_ids |= {row["session_id"] for row in known}
        files = await delete_files(
            artifact_service,
            app_name=app_name,
            user_id=user_id,
            session_ids=sorted(session_ids),
            dry_run=dry_run,
        )
    if dry_run:
        found, objects = await database.run.transact(lambda each: _counted(each, scope))
        return found.erased(scope, files=files, objects=len(objects))
    objects = set()  # also of an attempt whose answer was lost
    found = await giving_way(
        database, scope, lambda transaction: _erase(transaction, scope, objects)
    )
    database.keepers.erased(**scope)
    left = await remove_objects(database, objects)
    if artifact_service is not None:  # a turn that was running may have saved some more
        session_ids |= found.session_ids
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
    return found.erased(scope, files=files, objects=len(objects), left=left)


async def forget_session(
    database: Database, *, app_name: str, user_id: str, session_id: str
) -> None:
    """Erases a session, its events and memories, and what was drawn from those; idempotent.

    One transaction waits for writers of the session, and erases their rows, too.
    An append that comes later finds no session. Objects of its files go afterwards. The audit notes
    it in the same transaction, if there was something to erase.

    Args:
      database: The database.
      app_name: The app.
      user_id: The user.
      session_id: The session; one that is not stored any more may still have memories and files.
        ``""`` is none: memories without a session stay.

    Raises:
      DatabaseError: The server refused, or a writer held the session for too long.
    """
    if not session_id:
        return
    place: SessionKey = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
    objects: set[str] = set()  # also of an attempt whose answer was lost
    await giving_way(database, place, lambda transaction: _erase(transaction, place, objects))
    database.keepers.erased(**place)
    await remove_objects(database, objects)


async def delete_session(
    database: Database, *, app_name: str, user_id: str, session_id: str
) -> None:
    """Deletes a session with its events, files and their objects; memories stay. Idempotent.

    Args:
      database: The database.
      app_name: The app.
      user_id: The user.
      session_id: The session.

    Raises:
      DatabaseError: The server refused; nothing was deleted.
    """
    place: SessionKey = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
    delete = statements.delete_session(**place)
    objects: set[str] = set()  # also of an attempt whose answer was lost

    async def held(transaction: Transaction) -> None:
        # Files go with a session that is stored, and with no other.
        if await transaction.fetch(statements.hold_rows(BY_TABLE["sessions"], place)):
            objects.update(await _objects(transaction, place))
        await transaction.fetch(delete)

    if database.settings.artifact_store is None:
        await database.run.fetch(delete)
    else:
        await database.run.transact(held)
    database.keepers.erased(**place)
    await remove_objects(database, objects)


async def _counted(transaction: Transaction, scope: ScopeKey) -> tuple[_Found, set[str]]:
    """Returns what `_erase` would find of a person, and where their files' objects are."""
    found = _Found()
    for rule in PERSONAL:
        for row in await transaction.fetch(statements.count_rows(rule, scope)):
            found.add(rule, row["kind"], row["rows"])
    return found, await _objects(transaction, scope)


async def _objects(transaction: Transaction, place: ScopeKey | SessionKey) -> set[str]:
    """Returns where in an object store a place's files are, or may be."""
    return {
        row["location"]
        for rule in _OF_FILES
        for row in await transaction.fetch(statements.select_objects(rule, place))
    }


async def _erase(
    transaction: Transaction, place: ScopeKey | SessionKey, objects: set[str]
) -> _Found:
    """Deletes until nothing is found.

    A statement does not see what a writer commits that it waited for, such as the memory that an
    append wrote with its event; the next pass does. A writer that commits later than a pass
    that finds nothing wrote to nothing that was erased, so it came after the erasure.

    Args:
      transaction: Erases.
      place: A person, or one session of theirs.
      objects: Told where in an object store the files are.
    """
    session = cast("SessionKey", place) if "session_id" in place else None
    held = [BY_TABLE["sessions"]]
    if session is None:
        # Who writes memories of no stored session holds nothing else.
        await transaction.fetch(lock_person(**place))
    else:
        await transaction.fetch(lock_session(**session))
        # Who draws facts from a session's memories is seen once it has let go of them.
        held += [rule for rule in _OF_SESSIONS if rule.drawn is not None]
    found = _Found()
    before = -1
    while before < found.rows.total():
        before = found.rows.total()
        for rule in held:
            await transaction.fetch(statements.hold_rows(rule, place))
        objects |= await _objects(transaction, place)
        if session is None:
            known = await transaction.fetch(statements.select_session_ids(**place))
            found.session_ids |= {row["session_id"] for row in known}
        for rule in PERSONAL if session is None else _OF_SESSIONS:
            if session is not None and rule.drawn is not None:
                for gone in await transaction.fetch(erase_session_memories(**session)):
                    found.add(rule, gone["kind"], gone["rows"])
            else:
                for row in await transaction.fetch(statements.delete_rows(rule, place)):
                    found.add(rule, row["kind"], row["rows"])
    if found.rows:
        await transaction.fetch(_noted(place, session))
    return found


def _noted(place: ScopeKey, session: SessionKey | None) -> Query[Nothing]:
    """Notes the erasure: a session's as the person's, a person's as the app's and without an id."""
    if session is not None:
        return done(place, action="forget_session", subject=session["session_id"])
    return done({"app_name": place["app_name"], "user_id": APP_WIDE}, action="forget_person")
