"""Statements that erase a person or a session. No I/O.

What belongs to a person is every row of a table that has a ``user_id``: a table that is added to
`adkpg.tables` later is erased too.
"""

from functools import cache
from typing import Any

from sqlalchemy import Select, Table, Text, bindparam, delete, func, literal, select, union

from adkpg.memory.write.statements import erased
from adkpg.sql import in_scope
from adkpg.tables import memories, memory_tombstones, metadata, sessions

PERSONAL = tuple(table for table in reversed(metadata.sorted_tables) if "user_id" in table.columns)
"""The tables that hold a person's data, those that refer to others before them."""

_SESSION_ID = bindparam("session_id", type_=Text)


@cache
def give_way() -> Select[Any]:
    """Bounds how long each lock is waited for, to the transaction's end."""
    return select(func.set_config("lock_timeout", "200ms", True))


@cache
def select_session_ids() -> Select[Any]:
    """Reads the ids of all sessions that anything is known of, also of those that were deleted.

    Parameters: app_name, user_id.
    """
    known = union(
        *(
            select(table.c.session_id).where(in_scope(table), table.c.session_id != literal(""))
            for table in (sessions, memories, memory_tombstones)
        )
    ).subquery("known")
    return select(known.c.session_id).order_by(known.c.session_id)


@cache
def lock_sessions() -> Select[Any]:
    """Makes all appends of a user wait, to the transaction's end. Parameters: app_name, user_id."""
    return (
        select(sessions.c.session_id)
        .where(in_scope(sessions))
        .order_by(sessions.c.session_id)
        .with_for_update()
    )


@cache
def count_rows(table: Table) -> Select[Any]:
    """Counts a user's rows of a table, memories by kind.

    Parameters: app_name, user_id. Returns ``kind`` (null but for memories) and ``rows``.
    """
    return _counted(select(_kind(table)).where(in_scope(table)).subquery("found"))


@cache
def delete_rows(table: Table) -> Select[Any]:
    """Deletes a user's rows of a table, and counts them like `count_rows`."""
    return _counted(delete(table).where(in_scope(table)).returning(_kind(table)).cte("deleted"))


@cache
def lock_session_memories() -> Select[Any]:
    """Waits for those who change a session's memories or draw facts from them, and holds them off.

    Parameters: app_name, user_id, session_id.
    """
    return (
        select(memories.c.position)
        .where(in_scope(memories), memories.c.session_id == _SESSION_ID)
        .order_by(memories.c.position)
        .with_for_update()
    )


@cache
def delete_session_memories() -> Any:
    """Deletes a session's memories and what was drawn from them.

    Parameters: app_name, user_id, session_id.
    """
    return erased(
        select(memories.c.app_name, memories.c.user_id, memories.c.memory_id)
        .where(in_scope(memories), memories.c.session_id == _SESSION_ID)
        .cte("chosen")
    )


@cache
def delete_session_tombstones() -> Any:
    """Deletes what says of a session that memories were deleted.

    Parameters: app_name, user_id, session_id.
    """
    return delete(memory_tombstones).where(
        in_scope(memory_tombstones), memory_tombstones.c.session_id == _SESSION_ID
    )


@cache
def delete_session() -> Any:
    """Deletes a session with its events. Parameters: app_name, user_id, session_id."""
    return delete(sessions).where(in_scope(sessions), sessions.c.session_id == _SESSION_ID)


def _kind(table: Table) -> Any:
    return (memories.c.kind if table is memories else literal(None, Text)).label("kind")


def _counted(rows: Any) -> Select[Any]:
    return select(rows.c.kind, func.count().label("rows")).select_from(rows).group_by(rows.c.kind)
