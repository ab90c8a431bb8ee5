"""Statements of documents: the pieces of a source, and the sources of a scope. No I/O."""

from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Text, bindparam, func, literal_column, select

from adkpg.sql import ScopeParameters, Statement, in_scope, live, stored_content
from adkpg.tables import memories


class SourceParameters(ScopeParameters):
    """One document."""

    source: str


class SourcesParameters(ScopeParameters):
    """A page of documents, after a name; ``""`` for the first page."""

    limit: int
    after: str


def _is_document() -> Any:
    return memories.c.kind == literal_column("'document'")


@cache
def select_pieces() -> Statement[SourceParameters]:
    """Reads the pieces of a source, by position."""
    return Statement(
        select(
            memories.c.memory_id,
            memories.c.position,
            memories.c.timestamp,
            stored_content().label("content"),
            memories.c.digest,
        )
        .where(
            in_scope(memories), memories.c.source == bindparam("source", type_=Text), _is_document()
        )
        .order_by(memories.c.position)
    )


@cache
def list_sources() -> Statement[SourcesParameters]:
    """Reads one page of a scope's sources, by name.

    Returns source, chunks, and time: when its newest piece was written.
    """
    return Statement(
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
