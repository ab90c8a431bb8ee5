"""Statements that read memories by key and page by page. No I/O."""

from datetime import datetime
from functools import cache

from sqlalchemy import (
    BigInteger,
    Integer,
    Text,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP

from adkpg.keys import ScopeKey
from adkpg.memory.write.statements import MemoryParameters
from adkpg.sql import FilterParameters, Statement, conditions, in_scope, live, stored_columns
from adkpg.tables import memories


class CountParameters(ScopeKey, FilterParameters):
    """Memories of a scope that meet filters."""


class ListParameters(CountParameters):
    """A page of them; `after_timestamp` and `after_position` say where the one before ended."""

    limit: int
    after_timestamp: datetime | None
    after_position: int | None


class ProfileParameters(ScopeKey):
    """Facts about any of some topics, and from before a time; None is about anything, and ever."""

    topics: list[str] | None
    before: datetime | None
    limit: int


@cache
def select_memory() -> Statement[MemoryParameters]:
    """Reads one memory, live or not."""
    return Statement(
        select(*stored_columns()).where(
            in_scope(memories), memories.c.memory_id == bindparam("memory_id", type_=Text)
        )
    )


@cache
def list_memories(
    *, asked: frozenset[str], after_row: bool, live_only: bool
) -> Statement[ListParameters]:
    """Reads one page of a scope's memories, newest first, with their positions.

    The primary key's index tells which ones, unless filters ask for more than it knows.
    """
    order = (memories.c.timestamp, memories.c.position)
    chosen = (
        select(*order)
        .where(in_scope(memories), *conditions(asked))
        .order_by(*(column.desc() for column in order))
        .limit(bindparam("limit", type_=BigInteger))
    )
    if live_only:
        chosen = chosen.where(live())
    if after_row:
        last = tuple_(
            bindparam("after_timestamp", type_=TIMESTAMP(timezone=True)),
            bindparam("after_position", type_=BigInteger),
        )
        chosen = chosen.where(tuple_(*order) < last)
    page = chosen.cte("page")
    # One by one, which OFFSET 0 keeps: a join might read all that the user has, for each.
    stored = (
        select(*stored_columns())
        .where(in_scope(memories), memories.c.position == page.c.position)
        .offset(literal_column("0", Integer))
        .lateral("stored")
    )
    return Statement(
        select(*stored.c, page.c.position)
        .select_from(page.join(stored, true()))
        .order_by(page.c.timestamp.desc(), page.c.position.desc())
    )


@cache
def count_memories(*, asked: frozenset[str]) -> Statement[CountParameters]:
    """Counts a scope's live memories."""
    return Statement(
        select(func.count().label("memories"))
        .select_from(memories)
        .where(in_scope(memories), live(), *conditions(asked))
    )


@cache
def select_profile() -> Statement[ProfileParameters]:
    """Reads a user's live facts, the most important and then the latest first."""
    topics = bindparam("topics", type_=ARRAY(Text))
    before = bindparam("before", type_=TIMESTAMP(timezone=True))
    return Statement(
        select(*stored_columns())
        .where(
            in_scope(memories),
            memories.c.kind == literal_column("'fact'"),
            live(),
            or_(topics.is_(None), memories.c.topics.op("?|")(topics)),
            or_(before.is_(None), memories.c.timestamp < before),
        )
        .order_by(
            memories.c.importance.desc(), memories.c.timestamp.desc(), memories.c.position.desc()
        )
        .limit(bindparam("limit", type_=BigInteger))
    )
