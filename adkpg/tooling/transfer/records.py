"""Records: what travels between a source, a file and the database. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from google.adk.events.event import Event

from adkpg.memory.drafts import Draft


@dataclass(frozen=True, kw_only=True)
class SharedState:
    """An app's state, or a user's.

    Attributes:
      app_name: The app.
      user_id: The user; None is the app's own state.
      state: Its keys, without prefix.
      updated_at: When it last changed; None if the source does not say.
    """

    app_name: str
    user_id: str | None
    state: Mapping[str, Any]
    updated_at: datetime | None = None


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
      expires_at: From when on nobody sees it; None is never.
    """

    app_name: str
    user_id: str
    session_id: str
    state: Mapping[str, Any]
    created_at: datetime | None = None
    updated_at: datetime | None = None
    revision: int | None = None
    memory_position: int | None = None
    initial_state: Mapping[str, Any] | None = None
    ttl_s: float | None = None
    expires_at: datetime | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What names it."""
        return self.app_name, self.user_id, self.session_id


@dataclass(frozen=True)
class EventRecord:
    """An event of the session before it.

    Attributes:
      event: The event.
      payload: It as JSON text, as an append would store it.
      seq: Its number in the session from 1, if the source has one.
    """

    event: Event
    payload: str
    seq: int | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryRecord:
    """A memory.

    Attributes:
      app_name: The app.
      user_id: The user, or the reserved id of what the app knows.
      position: Its place in the user's history.
      draft: What it says.
      created_at: When it was written.
      superseded_by: The fact that replaced it.
      extracted_at: When facts were last drawn from it.
      origins: Ids of the memories that it was drawn from.
    """

    app_name: str
    user_id: str
    position: int
    draft: Draft
    created_at: datetime | None = None
    superseded_by: str | None = None
    extracted_at: datetime | None = None
    origins: tuple[str, ...] = ()


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
    needed_at: datetime


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
    """

    app_name: str
    user_id: str
    session_id: str
    name: str
    version: int
    artifact_id: str
    part: str
    mime_type: str | None
    custom_metadata: str
    size: int
    location: str | None
    created_at: datetime


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
    artifact_id: str
    chunk: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class AppSettingsRecord:
    """What holds for the memory of a whole app.

    Attributes:
      app_name: The app.
      text_search_config: Of all its words; None goes by script.
      extract_facts: Whether facts are drawn from new turns.
      model: The name of the embedding model that searches compare, and its dimensions.
    """

    app_name: str
    text_search_config: str | None
    extract_facts: bool
    model: tuple[str, int] | None


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


Record: TypeAlias = (
    SharedState
    | SessionRecord
    | EventRecord
    | MemoryRecord
    | TombstoneRecord
    | ArtifactRecord
    | ChunkRecord
    | AppSettingsRecord
    | Unread
    | Note
)


@dataclass(frozen=True)
class Progress:
    """How far a transfer is.

    Attributes:
      done: Of the total.
      total: 0 if unknown.
      events: How many events were read, in this reading of the source.
      comparing: Whether what is read is compared with what is stored, at the end.
    """

    done: int
    total: int
    events: int = field(default=0)
    comparing: bool = False
