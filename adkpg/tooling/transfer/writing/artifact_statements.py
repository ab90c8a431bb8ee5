"""Queries that write files of an export; their SQL is in artifact_statements.sql.

Versions and parts of their bytes are given in parallel arrays.
"""

from datetime import datetime
from typing import TypedDict

from adkpg.queries import Nothing, Queries, Query

_sql = Queries(__file__)


class PlacedArtifact(TypedDict):
    """Which version is at a place, and where in an object store its bytes are, if they are."""

    session_id: str
    name: str
    version: int
    artifact_id: str
    location: str | None


class Chunk(TypedDict):
    """A part of the bytes of a version."""

    artifact_id: str
    chunk: int
    data: bytes


@_sql.query()
def insert_artifacts(
    *,
    app_name: str,
    user_id: str,
    session_ids: list[str],
    names: list[str],
    versions: list[int],
    artifact_ids: list[str],
    parts: list[str],
    mime_types: list[str | None],
    custom_metadata: list[str],
    sizes: list[int],
    locations: list[str | None],
    created: list[datetime],
) -> Query[Nothing]:
    """Writes versions of files, JSON as text; one that is there stays."""


@_sql.query()
def insert_chunks(
    *,
    app_name: str,
    user_id: str,
    session_ids: list[str],
    names: list[str],
    versions: list[int],
    sizes: list[int],
    artifact_ids: list[str],
    chunks: list[int],
    data: list[bytes],
) -> Query[Nothing]:
    """Writes bytes of versions that are stored; those that are there stay, here or in a store.

    What is stored as another version than the given one gets no bytes of it.
    """


@_sql.query()
def select_artifacts(
    *, app_name: str, user_id: str, session_ids: list[str], names: list[str], versions: list[int]
) -> Query[PlacedArtifact]:
    """Reads which versions are at some places."""


@_sql.query()
def select_chunks(
    *, app_name: str, user_id: str, artifact_ids: list[str], chunks: list[int]
) -> Query[Chunk]:
    """Reads parts of the bytes of versions."""
