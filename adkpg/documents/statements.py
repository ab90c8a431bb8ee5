"""Statements of documents: the pieces of a source, and the sources of a scope. No I/O."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Select,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    select,
)

from adkpg.sql import in_scope, live
from adkpg.tables import memories


def _is_document() -> Any:
    return memories.c.kind == literal_column("'document'")


@cache
def select_pieces() -> Select[Any]:
    """Reads the pieces of a source, by position. Parameters: app_name, user_id, source."""
    return (
        select(
            memories.c.memory_id,
            memories.c.position,
            memories.c.timestamp,
            cast(memories.c.content, Text).label("content"),
            memories.c.digest,
        )
        .where(
            in_scope(memories), memories.c.source == bindparam("source", type_=Text), _is_document()
        )
        .order_by(memories.c.position)
    )


@cache
def list_sources() -> Select[Any]:
    """Reads one page of a scope's sources, by name.

    Parameters: app_name, user_id, limit, after (a source's name; ``""`` for the first page).
    Returns source, chunks, and time: when its newest piece was written.
    """
    return (
        select(
            memories.c.source,
            func.count().label("chunks"),
            func.max(memories.c.timestamp).label("time"),
        )
        .where(
            in_scope(memories),
            memories.c.source > bindparam("after", type_=Text),
            _is_document(),
            live(),
        )
        .group_by(memories.c.source)
        .order_by(memories.c.source)
        .limit(bindparam("limit", type_=BigInteger))
    )
