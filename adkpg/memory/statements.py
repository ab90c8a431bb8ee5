"""Statements that read memories by key, page by page, or by place. No I/O."""

from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Select, Text, bindparam, func, select, tuple_
from sqlalchemy.dialects.postgresql import TIMESTAMP

from adkpg.sql import conditions, in_scope, live, stored_columns
from adkpg.tables import memories


@cache
def select_memory() -> Select[Any]:
    """Reads one memory, live or not. Parameters: app_name, user_id, memory_id."""
    return select(*stored_columns()).where(
        in_scope(memories), memories.c.memory_id == bindparam("memory_id", type_=Text)
    )


@cache
def list_memories(*, asked: frozenset[str], after_row: bool, live_only: bool) -> Select[Any]:
    """Reads one page of a scope's memories, newest first.

    Parameters: app_name, user_id, limit, those of the filters, and after_moment, after_position
    where a page went before. Returns the memories' columns and their position.
    """
    page = (
        select(*stored_columns(), memories.c.position)
        .where(in_scope(memories), *conditions(asked))
        .order_by(memories.c.timestamp.desc(), memories.c.position.desc())
        .limit(bindparam("limit", type_=BigInteger))
    )
    if live_only:
        page = page.where(live())
    if after_row:
        page = page.where(
            tuple_(memories.c.timestamp, memories.c.position)
            < tuple_(
                bindparam("after_moment", type_=TIMESTAMP(timezone=True)),
                bindparam("after_position", type_=BigInteger),
            )
        )
    return page


@cache
def count_memories(*, asked: frozenset[str]) -> Select[Any]:
    """Counts a scope's live memories. Parameters: app_name, user_id, those of the filters."""
    return (
        select(func.count().label("memories"))
        .select_from(memories)
        .where(in_scope(memories), live(), *conditions(asked))
    )
