"""Statements on files that agents save. Each is built once per shape and does no I/O."""

from datetime import datetime
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Integer,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import (
    ARRAY,
    BYTEA,
    JSON,
    TIMESTAMP,
    UUID,
    insert,
)

from adkpg.keys import ScopeKey, SessionKey
from adkpg.memory.write.statements import with_person
from adkpg.queries import Place
from adkpg.sql import SESSION_ID, Statement, given_rows, in_scope
from adkpg.tables import (
    artifact_chunks,
    artifact_claims,
    artifact_removals,
    artifact_uploads,
    artifacts,
    sessions,
)

_NAME = bindparam("name", type_=Text)
_ARTIFACT_ID = cast(bindparam("artifact_id", type_=Text), UUID)
_FIRST_CHUNK = bindparam("first_chunk", type_=Integer)
_CHUNKS = bindparam("chunk_count", type_=Integer)
_TOKEN = bindparam("token", type_=Text)

# What a copy by dump or template has not: the server's identity and the database's.
_INSTALLATION: ColumnElement[str] = literal_column(
    "(SELECT c.system_identifier || '/' || d.oid"
    " FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d"
    " WHERE d.datname = current_database())",
    Text,
)


class ArtifactParameters(SessionKey):
    """All versions of a file; of the user's own, the session is ``""``."""

    name: str


class VersionParameters(ArtifactParameters):
    """One version; None where the latest is asked for. `chunk_count` of its first chunks."""

    version: int | None
    chunk_count: int


class SaveParameters(ArtifactParameters):
    """A new version, and its first chunks."""

    artifact_id: str
    part: str
    mime_type: str | None
    custom_metadata: str
    size: int
    location: str | None
    created_at: datetime
    first_chunk: int
    data: list[bytes]


class UploadParameters(SessionKey):
    """A file that is to be uploaded; None where it gets no object."""

    artifact_id: str
    location: str | None


class UploadedParameters(ScopeKey):
    """A file that was to be uploaded."""

    artifact_id: str


class ChunksParameters(ScopeKey):
    """Chunks of a version, from the first one on."""

    artifact_id: str
    first_chunk: int
    chunk_count: int


class AddChunksParameters(ScopeKey):
    """Further chunks of a version."""

    artifact_id: str
    first_chunk: int
    data: list[bytes]


class LocationsParameters(TypedDict):
    """Some objects."""

    locations: list[str]


class RemovalsParameters(TypedDict):
    """Most objects that are read."""

    limit: int


class ClaimParameters(TypedDict):
    """A claim to the folder of the object store."""

    token: str


class PageParameters(ScopeKey):
    """A page of a user's files, after one; None where the first page is asked for."""

    limit: int
    after_session_id: str | None
    after_name: str | None
    after_version: int | None


def _all_versions() -> ColumnElement[bool]:
    return and_(
        in_scope(artifacts), artifacts.c.session_id == SESSION_ID, artifacts.c.name == _NAME
    )


def _chunks_of(artifact_id: ColumnElement[Any]) -> ColumnElement[bool]:
    return and_(in_scope(artifact_chunks), artifact_chunks.c.artifact_id == artifact_id)


def _unerased() -> CTE:
    """The session, if it is stored, held; who forgets the person waits, and is waited for."""
    person = select(with_person().label("locked")).cte("person").prefix_with("MATERIALIZED")
    return (
        select(sessions.c.session_id)
        .where(
            in_scope(sessions),
            sessions.c.session_id == SESSION_ID,
            select(func.count()).select_from(person).scalar_subquery() >= 0,
        )
        .with_for_update(read=True, key_share=True)
        .cte("session")
        .prefix_with("MATERIALIZED")
    )


def _is_gone(session: CTE) -> ColumnElement[bool]:
    """Whether the session was stored when the statement began, and its holder found it deleted."""
    was = select(sessions.c.session_id).where(
        in_scope(sessions), sessions.c.session_id == SESSION_ID
    )
    return and_(exists(was), ~exists(select(session.c.session_id)))


def _its_upload() -> ColumnElement[bool]:
    return and_(in_scope(artifact_uploads), artifact_uploads.c.artifact_id == _ARTIFACT_ID)


@cache
def begin_upload() -> Statement[UploadParameters]:
    """Notes that a file is uploaded from now on; idempotent.

    Returns ``is_gone``: whether its session was deleted while this waited, and nothing was noted.
    An erasure of the person or session that comes later deletes the note.
    """
    session = _unerased()
    values: dict[str, ColumnElement[Any]] = {
        "app_name": bindparam("app_name", type_=Text),
        "user_id": bindparam("user_id", type_=Text),
        "session_id": SESSION_ID,
        "artifact_id": _ARTIFACT_ID,
        "location": bindparam("location", type_=Text),
    }
    noted = (
        insert(artifact_uploads)
        .from_select(list(values), select(*values.values()).where(~_is_gone(session)))
        .on_conflict_do_nothing()
        .cte("noted")
    )
    return Statement(select(_is_gone(session).label("is_gone")).add_cte(noted))


@cache
def end_upload() -> Statement[UploadedParameters]:
    """Deletes the note of an upload; a row if it was there, so that no save stores the file."""
    return Statement(
        delete(artifact_uploads).where(_its_upload()).returning(artifact_uploads.c.artifact_id)
    )


@cache
def end_old_uploads() -> Statement[Any]:
    """Deletes the notes of uploads whose process has ended, since a save takes less."""
    return Statement(delete(artifact_uploads).where(artifact_uploads.c.began_at < _ago(hours=48)))


@cache
def save(*, uploaded: bool) -> Statement[SaveParameters]:
    """Stores a version after the last one, with its first chunks; returns its ``version``.

    No row if another save stored the same version meanwhile: run it again. A second run finds the
    version of the first by its id, which the caller gives. The row has no version if the session
    was deleted while this waited or, with `uploaded`, if the note of the upload was deleted: its
    person or session was erased meanwhile.

    An erasure of the person or session waits for it, and is waited for.
    """
    session = _unerased()
    known = (
        select(artifacts.c.version)
        .where(in_scope(artifacts), artifacts.c.artifact_id == _ARTIFACT_ID)
        .cte("known")
    )
    last = (
        select((func.coalesce(func.max(artifacts.c.version), -1) + 1).label("version"))
        .where(_all_versions())
        .subquery("last")
    )
    values: dict[str, ColumnElement[Any]] = {
        "app_name": bindparam("app_name", type_=Text),
        "user_id": bindparam("user_id", type_=Text),
        "session_id": SESSION_ID,
        "name": _NAME,
        "version": last.c.version,
        "artifact_id": _ARTIFACT_ID,
        "part": cast(bindparam("part", type_=Text), JSON),
        "mime_type": bindparam("mime_type", type_=Text),
        "custom_metadata": cast(bindparam("custom_metadata", type_=Text), JSON),
        "size": bindparam("size", type_=BigInteger),
        "location": bindparam("location", type_=Text),
        "created_at": bindparam("created_at", type_=TIMESTAMP(timezone=True)),
    }
    is_erased = _is_gone(session)
    # Locked, so that one that was deleted while this waited is seen to be gone.
    begun = (
        select(artifact_uploads.c.artifact_id)
        .where(_its_upload(), ~_is_gone(session))
        .with_for_update()
        .cte("begun")
        .prefix_with("MATERIALIZED")
    )
    if uploaded:
        is_erased = ~exists(select(begun.c.artifact_id))
    made = (
        insert(artifacts)
        .from_select(
            list(values),
            select(*values.values())
            .select_from(last)
            .where(~is_erased, ~exists(select(known.c.version))),
        )
        .on_conflict_do_nothing()
        .returning(
            artifacts.c.app_name,
            artifacts.c.user_id,
            artifacts.c.artifact_id,
            artifacts.c.version,
        )
        .cte("made")
    )
    given = given_rows(numbered=True, data=BYTEA)
    filled = (
        insert(artifact_chunks)
        .from_select(
            ["app_name", "user_id", "artifact_id", "chunk", "data"],
            select(
                made.c.app_name,
                made.c.user_id,
                made.c.artifact_id,
                cast(given.c.number, Integer) - 1 + _FIRST_CHUNK,
                given.c.data,
            ).join_from(made, given, true()),
        )
        .cte("filled")
    )
    erased = select(null().cast(Integer)).where(is_erased, ~exists(select(known.c.version)))
    stored = union_all(select(made.c.version), select(known.c.version), erased)
    if not uploaded:
        return Statement(stored.add_cte(session, filled))
    ended = (
        delete(artifact_uploads)
        .where(
            in_scope(artifact_uploads),
            artifact_uploads.c.artifact_id.in_(select(made.c.artifact_id)),
        )
        .cte("ended")
    )
    return Statement(stored.add_cte(session, filled, ended))


@cache
def lock_name() -> Statement[ArtifactParameters]:
    """Makes those who found a name in others' hands save to it one after another."""
    key = func.jsonb_build_array(
        bindparam("app_name", type_=Text), bindparam("user_id", type_=Text), SESSION_ID, _NAME
    ).cast(Text)
    locks = select(
        with_person(),
        func.pg_advisory_xact_lock(func.hashtextextended(key, literal(1, BigInteger))),
    )
    return Statement(locks)


@cache
def add_chunks() -> Statement[AddChunksParameters]:
    """Stores further chunks of a version, within the transaction that stored the version."""
    given = given_rows(numbered=True, data=BYTEA)
    return Statement(
        insert(artifact_chunks)
        .from_select(
            ["app_name", "user_id", "artifact_id", "chunk", "data"],
            select(
                bindparam("app_name", type_=Text),
                bindparam("user_id", type_=Text),
                _ARTIFACT_ID,
                cast(given.c.number, Integer) - 1 + _FIRST_CHUNK,
                given.c.data,
            ),
        )
        .on_conflict_do_nothing()
    )


@cache
def select_version(*, latest: bool, content: bool) -> Statement[VersionParameters]:
    """Reads one version: what it is and, with `content`, its first chunks as ``chunks``.

    Without chunks there is ``chunks``, too, and it is empty.
    """
    wanted = _all_versions()
    if not latest:
        wanted = and_(wanted, artifacts.c.version == bindparam("version", type_=Integer))
    found = (
        select(artifacts).where(wanted).order_by(artifacts.c.version.desc()).limit(1).cte("found")
    )
    data = (
        select(artifact_chunks.c.data)
        .where(
            _chunks_of(select(found.c.artifact_id).scalar_subquery()),
            artifact_chunks.c.chunk < _CHUNKS,
        )
        .order_by(artifact_chunks.c.chunk)
    )
    bytes_: Any = ARRAY(BYTEA)
    chunks: ColumnElement[Any] = literal_column("'{}'::bytea[]", bytes_)
    if content:
        chunks = func.array(data.scalar_subquery(), type_=bytes_)
    return Statement(select(*_described(found), chunks.label("chunks")))


@cache
def select_chunks() -> Statement[ChunksParameters]:
    """Reads some chunks of a version in their order: ``data``."""
    return Statement(
        select(artifact_chunks.c.data)
        .where(
            _chunks_of(_ARTIFACT_ID),
            artifact_chunks.c.chunk >= _FIRST_CHUNK,
            artifact_chunks.c.chunk < _FIRST_CHUNK + _CHUNKS,
        )
        .order_by(artifact_chunks.c.chunk)
    )


@cache
def select_versions() -> Statement[ArtifactParameters]:
    """Reads what all versions of a file are, in their order."""
    return Statement(
        select(*_described(artifacts)).where(_all_versions()).order_by(artifacts.c.version)
    )


@cache
def select_names(*, session: bool) -> Statement[SessionKey]:
    """Reads the names of a user's own files and, with `session`, of the session's, sorted."""
    whose = artifacts.c.session_id == literal_column("''")
    if session:
        whose = or_(whose, artifacts.c.session_id == SESSION_ID)
    return Statement(
        select(artifacts.c.name)
        .where(in_scope(artifacts), whose)
        .group_by(artifacts.c.name)
        .order_by(artifacts.c.name)
    )


@cache
def select_page(*, after: bool) -> Statement[PageParameters]:
    """Reads what some versions of a user's files are, in the order of the key."""
    key = (artifacts.c.session_id, artifacts.c.name, artifacts.c.version)
    page = (
        select(artifacts.c.session_id, artifacts.c.name, *_described(artifacts))
        .where(in_scope(artifacts))
        .order_by(*key)
        .limit(bindparam("limit", type_=Integer))
    )
    if after:
        last = (
            bindparam("after_session_id", type_=Text),
            bindparam("after_name", type_=Text),
            bindparam("after_version", type_=Integer),
        )
        page = page.where(tuple_(*key) > tuple_(*last))
    return Statement(page)


@cache
def select_locations() -> Statement[LocationsParameters]:
    """Reads which of some objects are named by an artifact, anybody's: ``location``."""
    asked = bindparam("locations", type_=ARRAY(Text))
    return Statement(select(artifacts.c.location).where(artifacts.c.location == func.any(asked)))


@cache
def select_removals() -> Statement[RemovalsParameters]:
    """Reads objects whose artifacts were deleted: ``location``."""
    return Statement(
        select(artifact_removals.c.location)
        .order_by(artifact_removals.c.location)
        .limit(bindparam("limit", type_=Integer))
    )


@cache
def note_removals() -> Statement[LocationsParameters]:
    """Notes objects whose artifacts were deleted, as a trigger does on one server; idempotent."""
    given = given_rows(locations=Text)
    return Statement(
        insert(artifact_removals)
        .from_select(["location"], select(given.c.locations))
        .on_conflict_do_nothing()
    )


@cache
def delete_removals() -> Statement[LocationsParameters]:
    """Deletes the notes of objects that were removed."""
    locations = bindparam("locations", type_=ARRAY(Text))
    return Statement(
        delete(artifact_removals).where(artifact_removals.c.location == func.any(locations))
    )


@cache
def select_claim() -> Statement[ClaimParameters]:
    """Reads a claim that this database or what it is a copy of made.

    Returns:
      ``own``: Whether it was made here. ``fresh``: In the last hour.
    """
    told = select(
        (artifact_claims.c.installation == _INSTALLATION).label("own"),
        (artifact_claims.c.claimed_at > _ago(hours=1)).label("fresh"),
    )
    told = told.where(cast(artifact_claims.c.token, Text) == _TOKEN)
    return Statement(told, place=Place.FIRST)


@cache
def select_own_claim() -> Statement[Any]:
    """Reads whether this database has claimed a folder: a row if so."""
    own = select(artifact_claims.c.token).where(artifact_claims.c.installation == _INSTALLATION)
    return Statement(own.limit(1), place=Place.FIRST)


@cache
def insert_claim() -> Statement[ClaimParameters]:
    """Notes a new claim of this database."""
    claim = select(cast(_TOKEN, UUID), _INSTALLATION)
    claimed = insert(artifact_claims).from_select(["token", "installation"], claim)
    return Statement(claimed, place=Place.FIRST)


@cache
def delete_claims() -> Statement[ClaimParameters]:
    """Deletes claims that no folder can hold any more, but for this one."""
    return Statement(
        delete(artifact_claims).where(
            artifact_claims.c.claimed_at < _ago(hours=30 * 24),
            cast(artifact_claims.c.token, Text) != _TOKEN,
        )
    )


def _ago(*, hours: int) -> ColumnElement[datetime]:
    return func.now() - func.make_interval(0, 0, 0, 0, literal_column(str(hours)))


@cache
def delete_artifact() -> Statement[ArtifactParameters]:
    """Deletes all versions of a file; returns where in the object store bytes of them are."""
    return Statement(delete(artifacts).where(_all_versions()).returning(artifacts.c.location))


def _described(of: Any) -> list[ColumnElement[Any]]:
    return [
        of.c.version,
        cast(of.c.artifact_id, Text).label("artifact_id"),
        cast(of.c.part, Text).label("part"),
        of.c.mime_type,
        cast(of.c.custom_metadata, Text).label("custom_metadata"),
        of.c.size,
        of.c.location,
        of.c.created_at,
    ]
