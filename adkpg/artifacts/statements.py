"""Queries of files that agents save; their SQL is in statements.sql."""

from datetime import datetime
from typing import TypedDict

from adkpg.queries import Nothing, Place, Queries, Query

_sql = Queries(__file__)


class Gone(TypedDict):
    """Whether a session was deleted while a statement waited for it."""

    is_gone: bool


class Saved(TypedDict):
    """The version that a file became; null if it was erased meanwhile."""

    version: int | None


class StoredVersion(TypedDict):
    """What a version of a file is; its bytes are in the database if `location` is null."""

    version: int
    artifact_id: str
    part: str
    mime_type: str | None
    custom_metadata: str
    size: int
    location: str | None
    created_at: datetime


class LoadedVersion(StoredVersion):
    """A version with its first chunks."""

    chunks: list[bytes]


class ListedVersion(StoredVersion):
    """A version with the file's name; a user's own has the session ``""``."""

    session_id: str
    name: str


class Chunk(TypedDict):
    """A part of a file's bytes."""

    data: bytes


class Name(TypedDict):
    """The name of a file."""

    name: str


class Location(TypedDict):
    """Where in the object store an object is."""

    location: str


class Freed(TypedDict):
    """Where in the object store the bytes of a deleted version are; null if they are not there."""

    location: str | None


class Claim(TypedDict):
    """Whether a claim was made by this database, and in the last hour."""

    own: bool
    fresh: bool


@_sql.query()
def begin_upload(
    *, app_name: str, user_id: str, session_id: str, artifact_id: str, location: str | None
) -> Query[Gone]:
    """Notes that a file is uploaded from now on; idempotent. It gets no object without `location`.

    Nothing is noted if its session was deleted while this waited. An erasure of the person or
    session that comes later deletes the note.
    """


@_sql.query()
def end_upload(*, app_name: str, user_id: str, artifact_id: str) -> Query[Nothing]:
    """Deletes the note of an upload; a row if it was there, so that no save stores the file."""


@_sql.query()
def save(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    name: str,
    artifact_id: str,
    uploaded: bool,
    part: str,
    mime_type: str | None,
    custom_metadata: str,
    size: int,
    location: str | None,
    created_at: datetime,
    data: list[bytes],
) -> Query[Saved]:
    """Stores a version after the last one, with its first chunks.

    No row if another save stored the same version meanwhile: run it again. A second run finds the
    version of the first by its id, which the caller gives. The row has no version if the session
    was deleted while this waited or, with `uploaded`, if the note of the upload was deleted: its
    person or session was erased meanwhile.

    An erasure of the person or session waits for it, and is waited for.
    """


@_sql.query()
def lock_name(*, app_name: str, user_id: str, session_id: str, name: str) -> Query[Nothing]:
    """Makes those who found a name in others' hands save to it one after another.

    Waits for a call that forgets the person, too, and makes it wait, to the transaction's end.
    """


@_sql.query()
def add_chunks(
    *, app_name: str, user_id: str, artifact_id: str, first_chunk: int, data: list[bytes]
) -> Query[Nothing]:
    """Stores further chunks of a version, within the transaction that stored the version."""


@_sql.query()
def select_version(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    name: str,
    version: int | None,
    chunk_count: int,
) -> Query[LoadedVersion]:
    """Reads one version, null is the latest: what it is, and so many of its first chunks."""


@_sql.query()
def select_chunks(
    *, app_name: str, user_id: str, artifact_id: str, first_chunk: int, chunk_count: int
) -> Query[Chunk]:
    """Reads some chunks of a version in their order."""


@_sql.query()
def select_versions(
    *, app_name: str, user_id: str, session_id: str, name: str
) -> Query[StoredVersion]:
    """Reads what all versions of a file are, in their order."""


@_sql.query()
def select_names(*, app_name: str, user_id: str, session_id: str) -> Query[Name]:
    """Reads the names of a user's own files and of the session's, sorted; ``""`` is no session."""


@_sql.query()
def select_page(
    *,
    app_name: str,
    user_id: str,
    after_session_id: str,
    after_name: str,
    after_version: int,
    limit: int,
) -> Query[ListedVersion]:
    """Reads what some versions of a user's files are, in the order of the key, after one.

    The first page is after ``""``, ``""`` and -1.
    """


@_sql.query()
def select_locations(*, locations: list[str]) -> Query[Location]:
    """Reads which of some objects are named by an artifact, anybody's."""


@_sql.query()
def select_removals(*, limit: int) -> Query[Location]:
    """Reads objects whose artifacts were deleted."""


@_sql.query()
def note_removals(*, locations: list[str]) -> Query[Nothing]:
    """Notes objects whose artifacts were deleted, as a trigger does on one server; idempotent."""


@_sql.query()
def delete_removals(*, locations: list[str]) -> Query[Nothing]:
    """Deletes the notes of objects that were removed."""


@_sql.query(place=Place.FIRST)
def select_claim(*, token: str) -> Query[Claim]:
    """Reads a claim that this database or what it is a copy of made."""


@_sql.query(place=Place.FIRST)
def select_own_claim() -> Query[Nothing]:
    """Reads whether this database has claimed a folder: a row if so."""


@_sql.query(place=Place.FIRST)
def insert_claim(*, token: str) -> Query[Nothing]:
    """Notes a new claim of this database."""


@_sql.query()
def delete_claims(*, token: str) -> Query[Nothing]:
    """Deletes claims that no folder can hold any more, except this one."""


@_sql.query()
def delete_artifact(*, app_name: str, user_id: str, session_id: str, name: str) -> Query[Freed]:
    """Deletes all versions of a file."""
