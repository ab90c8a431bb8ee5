"""One session, with everything that came from it."""

from functools import partial
from typing import Any

from adkpg.artifacts.sweep import remove_objects
from adkpg.database import Database, Transaction
from adkpg.erasure import statements
from adkpg.erasure.locks import giving_way
from adkpg.keys import SessionKey
from adkpg.memory.write.statements import lock_session
from adkpg.queries import Query


async def forget_session(
    database: Database, *, app_name: str, user_id: str, session_id: str
) -> None:
    """Erases a session, its events and memories, and what was drawn from those; idempotent.

    One transaction: whoever is writing to the session is waited for, and what they wrote goes too.
    An append that comes later finds no session. Objects of its files go afterwards.

    Args:
      database: The database.
      app_name: The app.
      user_id: The user.
      session_id: The session; one that is not stored any more may still have memories. ``""`` is
        none: memories without a session stay.

    Raises:
      DatabaseError: The server refused, or a writer held the session for too long.
    """
    if not session_id:
        return
    place: SessionKey = {
        "app_name": app_name,
        "user_id": user_id,
        "session_id": session_id,
    }
    objects: set[str] = set()  # also of an attempt whose answer was lost
    await giving_way(database, place, partial(_erase, place=place, objects=objects))
    database.keepers.erased(**place)
    await remove_objects(database, objects)


async def delete_session(database: Database, delete: Query[Any], *, place: SessionKey) -> None:
    """Deletes a session by a query, and the objects of its files; memories stay. Idempotent.

    Args:
      database: The database.
      delete: What deletes the session's row.
      place: The session.

    Raises:
      DatabaseError: The server refused; nothing was deleted.
    """
    objects: set[str] = set()  # also of an attempt whose answer was lost

    async def held(transaction: Transaction) -> None:
        await _hold(transaction, place=place, objects=objects)
        await transaction.fetch(delete)

    await database.run.transact(held)
    database.keepers.erased(**place)
    await remove_objects(database, objects)


async def _hold(transaction: Transaction, *, place: SessionKey, objects: set[str]) -> None:
    """Makes all wait who write to a stored session, and tells where objects of its files are."""
    # Files go with a session that is stored, and with no other; nobody saves any more meanwhile.
    if await transaction.fetch(statements.hold_session(**place)):
        stored = await transaction.fetch(statements.select_session_objects(**place))
        objects |= {row["location"] for row in stored}


async def _erase(transaction: Transaction, *, place: SessionKey, objects: set[str]) -> None:
    await transaction.fetch(lock_session(**place))
    await _hold(transaction, place=place, objects=objects)
    for query in (
        statements.lock_session_memories(**place),
        statements.delete_session_memories(**place),
        statements.delete_session_tombstones(**place),
        statements.delete_session(**place),
    ):
        await transaction.fetch(query)
