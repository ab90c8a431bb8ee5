"""Queries of documents; their SQL is in statements.sql."""

from datetime import datetime
from typing import TypedDict

from adkpg.queries import Queries, Query

_sql = Queries(__file__)


class StoredPiece(TypedDict):
    """A piece of a document, its content as JSON text."""

    memory_id: str
    position: int
    timestamp: datetime
    content: str
    digest: str


class Source(TypedDict):
    """A document: how many pieces it has, and when the newest one was written."""

    source: str
    chunks: int
    time: datetime


@_sql.query()
def select_pieces(*, app_name: str, user_id: str, source: str) -> Query[StoredPiece]:
    """Reads the pieces of a source, by position."""


@_sql.query()
def list_sources(*, app_name: str, user_id: str, after: str, limit: int) -> Query[Source]:
    """Reads one page of a scope's sources, by name; the first one is after ``""``."""
