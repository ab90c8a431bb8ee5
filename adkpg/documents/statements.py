"""Statements of documents: the pieces of a source, and the sources of a scope. No I/O."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Double,
    Select,
    Text,
    Update,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, REAL, TIMESTAMP

from adkpg.sql import given_rows, in_scope, live
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
def update_pieces() -> Update:
    """Changes what is stored beside the text of some memories, alike.

    Parameters: app_name, user_id, metadata, topics, importance, expires_at, and in parallel arrays
    memory_ids, digests.
    """
    given = given_rows(memory_ids=Text, digests=Text)
    return (
        update(memories)
        .where(and_(in_scope(memories), memories.c.memory_id == given.c.memory_ids))
        .values(
            custom_metadata=cast(bindparam("metadata", type_=Text), JSONB),
            topics=cast(bindparam("topics", type_=Text), JSONB),
            importance=cast(bindparam("importance", type_=Double), REAL),
            expires_at=bindparam("expires_at", type_=TIMESTAMP(timezone=True)),
            digest=given.c.digests,
        )
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
