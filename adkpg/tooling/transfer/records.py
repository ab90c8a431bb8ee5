"""Records: what travels between a source, a file and the database. Pure.

The fields of a record are the columns of its lines, and their types are what a line may say: a line
is read by validating it against them. The sources of ADK's databases make records themselves.
"""

import base64
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

from google.adk.events.event import Event
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, Strict

from adkpg import jsontext
from adkpg.artifacts import records as artifact_records
from adkpg.artifacts.place import place
from adkpg.artifacts.records import CHUNK_BYTES
from adkpg.artifacts.store import is_location_of
from adkpg.keys import APP_WIDE
from adkpg.memory.drafts import Draft
from adkpg.sessions.expiry import expiry
from adkpg.tables import MAX_DIMENSIONS


class Spelled(dict[str, Any]):
    """A JSON object of a line, which also knows its text, where lone surrogates are U+FFFD."""

    __slots__ = ("text",)

    def __init__(self, value: dict[str, Any], text: str) -> None:
        super().__init__(value)
        self.text = text


def _text(value: object) -> object:
    if isinstance(value, dict) and not isinstance(value, Spelled):
        return jsontext.write(value)
    return value.text if isinstance(value, Spelled) else None


def _event(value: object) -> object:
    if not isinstance(value, Spelled) or not isinstance(value.get("id"), str):
        raise ValueError("it is not an object with an id")
    if jsontext.mended(value["id"]) != value["id"]:
        raise ValueError("its id holds a lone surrogate")
    return value.text


def _content(text: str) -> str:
    jsontext.read_content(text)
    return text


def _seconds(ttl: float) -> float:
    span = expiry(ttl, None, 0).ttl
    assert span is not None
    return span.total_seconds()


def _user(user_id: object) -> object:
    if user_id == APP_WIDE:
        raise ValueError("it is reserved")
    return APP_WIDE if user_id is None else user_id


def _time(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("it is not a time")
    return value


def _bytes(data: object) -> object:
    return base64.b64decode(data, validate=True) if isinstance(data, str) else None


# Room is left above each number, so that more can be written after an import.
Count = Annotated[int, Strict(), Field(ge=0, lt=2**62 + 2**40)]
"""A number of events, or a place."""

Version = Annotated[int, Strict(), Field(ge=0, lt=2**30)]
"""The number of a version of a file."""

Id = Annotated[str, AfterValidator(lambda text: str(UUID(text)))]
"""A UUID as text."""

Time = Annotated[AwareDatetime, BeforeValidator(_time)]
"""A moment, as ISO 8601 with an offset."""

Object = Annotated[str, BeforeValidator(_text)]
"""The text of a JSON object, as the line spells it."""

Seconds = Annotated[float, AfterValidator(_seconds)]
"""How long a session lives after each append."""

User = Annotated[str, BeforeValidator(_user)]
"""A user; null is what the app knows for all its users, which has a reserved id."""

SessionId = Annotated[str, BeforeValidator(lambda text: "" if text is None else text)]
"""A session; null is none, which is stored as an empty text."""


@dataclass(frozen=True, kw_only=True)
class AppState:
    """An app's state.

    Attributes:
      app_name: The app.
      state: Its keys, without prefix.
      updated_at: When it last changed; None if the source does not say.
    """

    app_name: str
    state: dict[str, Any]
    updated_at: Time | None = None


@dataclass(frozen=True, kw_only=True)
class UserState:
    """A user's state.

    Attributes:
      app_name: The app.
      user_id: The user.
      state: Its keys, without prefix.
      updated_at: When it last changed; None if the source does not say.
    """

    app_name: str
    user_id: str
    state: dict[str, Any]
    updated_at: Time | None = None


@dataclass(frozen=True, kw_only=True)
class SessionRecord:
    """A session without its events, which follow it.

    Attributes:
      app_name: The app.
      user_id: The user.
      session_id: The session.
      state: Its own keys: neither ``app:`` nor ``user:`` ones.
      created_at: When it was created; None if the source does not say.
      updated_at: When it was updated, for sessions without events; others have their last event's.
      revision: How many events were ever appended, if the source counts those that are gone.
      memory_position: Where its next memory goes, if the source says.
      initial_state: Its own state before the first event, if the source says.
      ttl_s: How many seconds it lives after each append; None if none renews it.
      expires_at: From when on no caller sees it; None is never.
    """

    app_name: str
    user_id: str
    session_id: str
    state: dict[str, Any]
    created_at: Time | None = None
    updated_at: Time | None = None
    revision: Count | None = None
    memory_position: Count | None = None
    initial_state: dict[str, Any] | None = None
    ttl_s: Seconds | None = None
    expires_at: Time | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What names it."""
        return self.app_name, self.user_id, self.session_id

    def __str__(self) -> str:
        return f"app {self.app_name!r}, user {self.user_id!r}, session {self.session_id!r}"


@dataclass(frozen=True)
class EventRecord:
    """An event of the session before it.

    Attributes:
      event: The event.
      payload: It as JSON text, as it is stored.
      seq: Its number in the session from 1, if the source has one.
    """

    event: Event
    payload: str
    seq: int | None = None


@dataclass(frozen=True, kw_only=True)
class EventLine:
    """An event as a line has it, which names its session once more."""

    app_name: str
    user_id: str
    session_id: str
    seq: Count | None = None
    event: Annotated[str, BeforeValidator(_event)]

    @property
    def session(self) -> tuple[str, str, str]:
        """The session that it names."""
        return self.app_name, self.user_id, self.session_id

    @property
    def record(self) -> EventRecord:
        """The event, whose payload is spelled as in the line."""
        return EventRecord(jsontext.read_event(self.event), self.event, self.seq)


@dataclass(frozen=True, kw_only=True)
class MemoryRecord:
    """A memory: what its draft says, and what its writer does not.

    Attributes:
      app_name: The app.
      user_id: The user, or the reserved id of what the app knows.
      position: Its place in the user's history.
      created_at: When it was written.
      superseded_by: The fact that replaced it.
      extracted_at: When facts were last drawn from it.
      origins: Ids of the memories that it was drawn from.
    """

    app_name: str
    user_id: User = APP_WIDE
    memory_id: str
    kind: Literal["turn", "note", "document", "fact", "summary"]
    session_id: SessionId = ""
    event_id: str | None = None
    invocation_id: str | None = None
    author: str | None = None
    timestamp: Time
    content: Annotated[Object, AfterValidator(_content)]
    body: Annotated[str, AfterValidator(jsontext.storable)]
    custom_metadata: dict[str, Any] | None = None
    source: str | None = None
    artifacts: dict[str, Any] | None = None
    topics: list[str] | None = None
    importance: Annotated[float, Strict(), Field(allow_inf_nan=False)]
    expires_at: Time | None = None
    superseded_by: str | None = None
    extracted_at: Time | None = None
    created_at: Time | None = None
    position: Annotated[int, Strict(), Field(gt=-(2**63) + 2**40, lt=2**63 - 2**40)]
    digest: str
    origins: list[str] | None = None

    @property
    def draft(self) -> Draft:
        """What is to be written."""
        return Draft(
            memory_id=self.memory_id,
            kind=self.kind,
            session_id=self.session_id,
            event_id=self.event_id,
            invocation_id=self.invocation_id,
            author=self.author,
            timestamp=self.timestamp,
            content=self.content,
            body=self.body,
            custom_metadata=_written(self.custom_metadata),
            source=self.source,
            artifacts=_written(self.artifacts),
            topics=jsontext.write(self.topics or []),
            importance=self.importance,
            expires_at=self.expires_at,
            digest=self.digest,
        )


def _written(value: dict[str, Any] | None) -> str | None:
    return None if value is None else jsontext.write(value)


@dataclass(frozen=True, kw_only=True)
class TombstoneRecord:
    """Says that an event's memory was deleted and must not come back.

    Attributes:
      app_name: The app.
      user_id: The user.
      session_id: The event's session.
      event_id: The event.
      needed_at: When it was last known to be needed.
    """

    app_name: str
    user_id: str
    session_id: str
    event_id: str
    needed_at: Time


@dataclass(frozen=True, kw_only=True)
class ArtifactRecord:
    """A version of a file, without its bytes, which follow it.

    Attributes:
      app_name: The app.
      user_id: The user.
      session_id: The session; ``""`` if it is the user's own.
      name: The file's name.
      version: From 0 on.
      artifact_id: This version's own.
      part: ``types.Part`` as JSON text, without its bytes or text.
      mime_type: None if it is not known.
      custom_metadata: JSON text of an object.
      size: In bytes.
      location: Where in an object store its bytes are; None if they follow.
      created_at: When it was saved.

    Raises:
      ValueError: No save would have made it: its part is none, its name is another scope's, or its
        location is not its own.
    """

    app_name: str
    user_id: str
    session_id: SessionId = ""
    name: str
    version: Version
    artifact_id: Id
    part: Object
    mime_type: str | None = None
    custom_metadata: Object
    size: Annotated[int, Strict(), Field(ge=0, lt=2**62)]
    location: str | None = None
    created_at: Time

    def __post_init__(self) -> None:
        artifact_records.part(self.part, [])  # which loading it does
        if self.mime_type is not None and jsontext.storable(self.mime_type) != self.mime_type:
            raise ValueError("its mime_type holds NUL or a lone surrogate")
        where = place(self.app_name, self.user_id, self.name, self.session_id or None)
        if (where.session_id, where.name) != (self.session_id, self.name):
            raise ValueError(
                f"file {self.name!r} is neither one of its session nor, by the prefix user:, of "
                "its user"
            )
        if self.location is not None and not is_location_of(
            self.location,
            app_name=self.app_name,
            user_id=self.user_id,
            artifact_id=self.artifact_id,
        ):
            raise ValueError("its location is of no object of its own; export it with its bytes")

    def has(self, chunk: "ChunkRecord") -> bool:
        """Whether bytes are of this file, and as many as it has at that place."""
        left = self.size - chunk.chunk * CHUNK_BYTES
        return (
            (chunk.app_name, chunk.user_id) == (self.app_name, self.user_id)
            and chunk.artifact_id == self.artifact_id
            and self.location is None
            and 0 < len(chunk.data) == min(left, CHUNK_BYTES)
        )


@dataclass(frozen=True, kw_only=True)
class ChunkRecord:
    """Some bytes of the file before it.

    Attributes:
      app_name: The app.
      user_id: The user.
      artifact_id: The version's.
      chunk: From 0 on.
      data: The bytes.
    """

    app_name: str
    user_id: str
    artifact_id: Id
    chunk: Annotated[int, Strict(), Field(ge=0, lt=2**31)]
    data: Annotated[bytes, BeforeValidator(_bytes)]


@dataclass(frozen=True, kw_only=True)
class Model:
    """An embedding model."""

    name: Annotated[str, Field(pattern=r"\S")]
    dimensions: Annotated[int, Strict(), Field(ge=1, le=MAX_DIMENSIONS)]


@dataclass(frozen=True, kw_only=True)
class AppSettingsRecord:
    """What holds for the memory of a whole app.

    Attributes:
      app_name: The app.
      text_search_config: The one for all its words; None goes by script.
      extract_facts: Whether facts are drawn from new turns.
      model: The embedding model whose vectors searches compare.
    """

    app_name: str
    text_search_config: str | None = None
    extract_facts: bool = False
    model: Model | None = None


@dataclass(frozen=True, kw_only=True)
class Unread:
    """Something that could not be read, or not be stored.

    Attributes:
      reason: One sentence.
      app_name: Where it is; None if unknown.
      user_id: Where it is.
      session_id: Where it is.
      event_id: The event; None if it is no event.
      lost: Whether all of it is missing; else a part of it is, as the reason says.
    """

    reason: str
    app_name: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    event_id: str | None = None
    lost: bool = True

    def __str__(self) -> str:
        names = ("app_name", "user_id", "session_id", "event_id")
        place = ", ".join(
            f"{name.removesuffix('_id').removesuffix('_name')} {value!r}"
            for name in names
            if (value := getattr(self, name)) is not None
        )
        return f"{place}: {self.reason}" if place else self.reason


@dataclass(frozen=True)
class Note:
    """Something that a reader of the report should know of the source.

    Attributes:
      text: A sentence.
    """

    text: str


@dataclass(frozen=True)
class Progress:
    """How far a transfer is.

    Attributes:
      done: How much of the total.
      total: 0 if unknown.
      events: How many events were read.
    """

    done: int
    total: int
    events: int = field(default=0)


Record: TypeAlias = Any
"""One of a kind of `adkpg.tooling.transfer.kinds`, or what is to be said of the source."""
