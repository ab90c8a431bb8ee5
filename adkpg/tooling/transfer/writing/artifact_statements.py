"""Statements that write files of an export. No I/O."""

from datetime import datetime
from functools import cache

from sqlalchemy import BigInteger, Integer, Text, and_, cast, select
from sqlalchemy.dialects.postgresql import BYTEA, JSON, TIMESTAMP, UUID, insert

from adkpg.keys import ScopeKey
from adkpg.sql import APP_NAME, USER_ID, Statement, given_rows, in_scope
from adkpg.tables import artifact_chunks, artifacts


class ArtifactIdsParameters(ScopeKey):
    """Places of versions, in parallel arrays."""

    session_ids: list[str]
    names: list[str]
    versions: list[int]


class ArtifactsParameters(ArtifactIdsParameters):
    """Versions of files, in parallel arrays; JSON is text."""

    artifact_ids: list[str]
    parts: list[str]
    mime_types: list[str | None]
    custom_metadata: list[str]
    sizes: list[int]
    locations: list[str | None]
    created: list[datetime]


class ChunkIdsParameters(ScopeKey):
    """Parts of the bytes of versions, in parallel arrays."""

    artifact_ids: list[str]
    chunks: list[int]


class ChunksParameters(ChunkIdsParameters, ArtifactIdsParameters):
    """Parts with their bytes, and of which version each is."""

    sizes: list[int]
    data: list[bytes]


@cache
def insert_artifacts() -> Statement[ArtifactsParameters]:
    """Writes versions of files; one that is there stays."""
    given = given_rows(
        session_ids=Text,
        names=Text,
        versions=Integer,
        artifact_ids=Text,
        parts=Text,
        mime_types=Text,
        custom_metadata=Text,
        sizes=BigInteger,
        locations=Text,
        created=TIMESTAMP(timezone=True),
    )
    values = {
        "app_name": APP_NAME,
        "user_id": USER_ID,
        "session_id": given.c.session_ids,
        "name": given.c.names,
        "version": given.c.versions,
        "artifact_id": cast(given.c.artifact_ids, UUID),
        "part": cast(given.c.parts, JSON),
        "mime_type": given.c.mime_types,
        "custom_metadata": cast(given.c.custom_metadata, JSON),
        "size": given.c.sizes,
        "location": given.c.locations,
        "created_at": given.c.created,
    }
    return Statement(
        insert(artifacts)
        .from_select(list(values), select(*values.values()).select_from(given))
        .on_conflict_do_nothing()
    )


@cache
def insert_chunks() -> Statement[ChunksParameters]:
    """Writes bytes of versions that are stored; those that are there stay, here or in a store.

    What is stored as another version than the given one gets no bytes of it.
    """
    given = given_rows(
        session_ids=Text,
        names=Text,
        versions=Integer,
        sizes=BigInteger,
        artifact_ids=Text,
        chunks=Integer,
        data=BYTEA,
    )
    its = and_(
        in_scope(artifacts),
        artifacts.c.artifact_id == cast(given.c.artifact_ids, UUID),
        artifacts.c.session_id == given.c.session_ids,
        artifacts.c.name == given.c.names,
        artifacts.c.version == given.c.versions,
        artifacts.c.size == given.c.sizes,
    )
    return Statement(
        insert(artifact_chunks)
        .from_select(
            ["app_name", "user_id", "artifact_id", "chunk", "data"],
            select(
                artifacts.c.app_name,
                artifacts.c.user_id,
                artifacts.c.artifact_id,
                given.c.chunks,
                given.c.data,
            )
            .join_from(given, artifacts, its)
            .where(artifacts.c.location.is_(None)),
        )
        .on_conflict_do_nothing()
    )


@cache
def select_artifacts() -> Statement[ArtifactIdsParameters]:
    """Reads which versions are at some places: session_id, name, version, artifact_id, location."""
    given = given_rows(session_ids=Text, names=Text, versions=Integer)
    same = and_(
        in_scope(artifacts),
        artifacts.c.session_id == given.c.session_ids,
        artifacts.c.name == given.c.names,
        artifacts.c.version == given.c.versions,
    )
    return Statement(
        select(
            artifacts.c.session_id,
            artifacts.c.name,
            artifacts.c.version,
            cast(artifacts.c.artifact_id, Text).label("artifact_id"),
            artifacts.c.location,
        ).join_from(given, artifacts, same)
    )


@cache
def select_chunks() -> Statement[ChunkIdsParameters]:
    """Reads parts of the bytes of versions: artifact_id, chunk, data."""
    given = given_rows(artifact_ids=Text, chunks=Integer)
    same = and_(
        in_scope(artifact_chunks),
        artifact_chunks.c.artifact_id == cast(given.c.artifact_ids, UUID),
        artifact_chunks.c.chunk == given.c.chunks,
    )
    return Statement(
        select(
            cast(artifact_chunks.c.artifact_id, Text).label("artifact_id"),
            artifact_chunks.c.chunk,
            artifact_chunks.c.data,
        ).join_from(given, artifact_chunks, same)
    )
