"""Statements that erase a person or a session. No I/O.

Every row of a table that has a ``user_id`` belongs to a person: a table that is added to
`adkpg.tables` later is erased too.
"""

from functools import cache
from typing import Any

from sqlalchemy import Table, Text, delete, func, literal, select, union

from adkpg.keys import ScopeKey, SessionKey
from adkpg.memory.write.statements import erased
from adkpg.sql import SESSION_ID, Statement, in_scope
from adkpg.tables import artifact_uploads, artifacts, memories, memory_tombstones, sessions


@cache
def select_session_ids() -> Statement[ScopeKey]:
    """Reads the ids of all sessions that anything is known of, also of those that were deleted."""
    known = union(
        *(
            select(table.c.session_id).where(in_scope(table), table.c.session_id != literal(""))
            for table in (sessions, memories, memory_tombstones)
        )
    ).subquery("known")
    return Statement(select(known.c.session_id).order_by(known.c.session_id))


@cache
def lock_sessions() -> Statement[ScopeKey]:
    """Makes all appends of a user wait, to the transaction's end."""
    return Statement(
        select(sessions.c.session_id)
        .where(in_scope(sessions))
        .order_by(sessions.c.session_id)
        .with_for_update()
    )


@cache
def count_rows(table: Table) -> Statement[ScopeKey]:
    """Counts a user's rows of a table, memories by kind.

    Returns ``kind`` (null but for memories) and ``rows``.
    """
    return _counted(select(_kind(table)).where(in_scope(table)).subquery("found"))


@cache
def delete_rows(table: Table) -> Statement[ScopeKey]:
    """Deletes a user's rows of a table, and counts them like `count_rows`."""
    return _counted(delete(table).where(in_scope(table)).returning(_kind(table)).cte("deleted"))


@cache
def select_objects() -> Statement[ScopeKey]:
    """Reads where in an object store the bytes of a user's files are, or may be: ``location``."""
    return Statement(
        union(
            *(
                select(table.c.location).where(in_scope(table), table.c.location.is_not(None))
                for table in (artifacts, artifact_uploads)
            )
        )
    )


@cache
def hold_session() -> Statement[SessionKey]:
    """Makes everybody wait who writes something of a session, saved files too; no row if none."""
    return Statement(
        select(sessions.c.session_id)
        .where(in_scope(sessions), sessions.c.session_id == SESSION_ID)
        .with_for_update()
    )


@cache
def select_session_objects() -> Statement[SessionKey]:
    """Reads where in an object store bytes of a session's files are, or may be: ``location``."""
    return Statement(
        union(
            *(
                select(table.c.location).where(
                    in_scope(table), table.c.session_id == SESSION_ID, table.c.location.is_not(None)
                )
                for table in (artifacts, artifact_uploads)
            )
        )
    )


@cache
def lock_session_memories() -> Statement[SessionKey]:
    """Waits for whoever changes a session's memories or draws facts from them; holds them off."""
    return Statement(
        select(memories.c.position)
        .where(in_scope(memories), memories.c.session_id == SESSION_ID)
        .order_by(memories.c.position)
        .with_for_update()
    )


@cache
def delete_session_memories() -> Statement[SessionKey]:
    """Deletes a session's memories and what was drawn from them."""
    return Statement(
        erased(
            select(memories.c.app_name, memories.c.user_id, memories.c.memory_id)
            .where(in_scope(memories), memories.c.session_id == SESSION_ID)
            .cte("chosen")
        )
    )


@cache
def delete_session_tombstones() -> Statement[SessionKey]:
    """Deletes what says of a session that memories were deleted."""
    return Statement(
        delete(memory_tombstones).where(
            in_scope(memory_tombstones), memory_tombstones.c.session_id == SESSION_ID
        )
    )


@cache
def delete_session() -> Statement[SessionKey]:
    """Deletes a session with its events."""
    return Statement(
        delete(sessions).where(in_scope(sessions), sessions.c.session_id == SESSION_ID)
    )


def _kind(table: Table) -> Any:
    return (memories.c.kind if table is memories else literal(None, Text)).label("kind")


def _counted(rows: Any) -> Statement[ScopeKey]:
    return Statement(
        select(rows.c.kind, func.count().label("rows")).select_from(rows).group_by(rows.c.kind)
    )
