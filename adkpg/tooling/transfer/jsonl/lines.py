"""Lines: records as lines of JSON, and back. Pure; docs/export-format.md says what they mean."""

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from adkpg import jsontext
from adkpg.artifacts import records as artifact_records
from adkpg.artifacts.store import is_location_of
from adkpg.errors import InvalidInput
from adkpg.keys import APP_WIDE
from adkpg.memory.drafts import Draft
from adkpg.memory.filters import KINDS
from adkpg.sessions.expiry import expiry
from adkpg.tables import MAX_DIMENSIONS
from adkpg.tooling.transfer.records import (
    AppSettingsRecord,
    ArtifactRecord,
    ChunkRecord,
    EventRecord,
    MemoryRecord,
    Record,
    SessionRecord,
    SharedState,
    TombstoneRecord,
)

FORMAT = "adkpg"
"""What the first line of each export calls its format."""

VERSION = 1
"""The newest version of the format that is read, and the one that is written."""


def header(*, app_name: str, user_id: str | None, session_id: str | None, writer: str) -> str:
    """Returns the first line of an export: what it holds, and who wrote it."""
    value: dict[str, Any] = {
        "type": "export",
        "format": FORMAT,
        "version": VERSION,
        "writer": writer,
        "exported_at": _text(datetime.now(UTC)),
        "app_name": app_name,
    }
    if user_id is not None:
        value["user_id"] = user_id
    if session_id is not None:
        value["session_id"] = session_id
    return _line(value)


def end(counts: Mapping[str, int]) -> str:
    """Returns the last line of an export, which says that none is missing."""
    return _line({"type": "end", "records": dict(counts)})


def session(record: SessionRecord) -> str:
    """Returns a session's line, which its events' lines follow."""
    return _line(
        {
            "type": "session",
            "app_name": record.app_name,
            "user_id": record.user_id,
            "session_id": record.session_id,
            "state": record.state,
            "revision": record.revision,
            "created_at": _text(record.created_at),
            "updated_at": _text(record.updated_at),
            "memory_position": record.memory_position,
            "initial_state": record.initial_state,
            "ttl_s": record.ttl_s,
            "expires_at": _text(record.expires_at),
        }
    )


def artifact(record: ArtifactRecord) -> str:
    """Returns the line of a version of a file, which the lines of its bytes follow."""
    return _line(
        {
            "type": "artifact",
            "app_name": record.app_name,
            "user_id": record.user_id,
            "session_id": record.session_id or None,
            "name": record.name,
            "version": record.version,
            "artifact_id": record.artifact_id,
            "part": json.loads(record.part),
            "mime_type": record.mime_type,
            "custom_metadata": json.loads(record.custom_metadata),
            "size": record.size,
            "location": record.location,
            "created_at": _text(record.created_at),
        }
    )


def chunk(record: ChunkRecord) -> str:
    """Returns the line of some bytes of a file, in base64."""
    return _line(
        {
            "type": "artifact_chunk",
            "app_name": record.app_name,
            "user_id": record.user_id,
            "artifact_id": record.artifact_id,
            "chunk": record.chunk,
            "data": base64.b64encode(record.data).decode(),
        }
    )


def event(place: SessionRecord, seq: int, payload: str) -> str:
    """Returns an event's line; its payload stands there as it is stored."""
    start = _line(
        {
            "type": "event",
            "app_name": place.app_name,
            "user_id": place.user_id,
            "session_id": place.session_id,
            "seq": seq,
        }
    )
    if "\n" in payload or "\r" in payload or not payload.isprintable():
        payload = json.dumps(json.loads(payload), separators=(",", ":"))
    return f'{start[:-1]},"event":{payload}}}'


def shared_state(record: SharedState) -> str:
    """Returns the line of an app's or user's state."""
    value: dict[str, Any] = {"type": "app_state", "app_name": record.app_name}
    if record.user_id is not None:
        value = {"type": "user_state", "app_name": record.app_name, "user_id": record.user_id}
    return _line({**value, "state": record.state, "updated_at": _text(record.updated_at)})


def app_settings(record: AppSettingsRecord) -> str:
    """Returns the line of an app's settings."""
    model = None
    if record.model is not None:
        model = {"name": record.model[0], "dimensions": record.model[1]}
    return _line(
        {
            "type": "app_settings",
            "app_name": record.app_name,
            "text_search_config": record.text_search_config,
            "extract_facts": record.extract_facts,
            "model": model,
        }
    )


def tombstone(record: TombstoneRecord) -> str:
    """Returns the line of a deleted memory's mark."""
    return _line(
        {
            "type": "tombstone",
            "app_name": record.app_name,
            "user_id": record.user_id,
            "session_id": record.session_id,
            "event_id": record.event_id,
            "needed_at": _text(record.needed_at),
        }
    )


def memory(record: MemoryRecord) -> str:
    """Returns a memory's line; what an app knows for all its users has null for the user."""
    draft = record.draft
    return _line(
        {
            "type": "memory",
            "app_name": record.app_name,
            "user_id": None if record.user_id == APP_WIDE else record.user_id,
            "memory_id": draft.memory_id,
            "kind": draft.kind,
            "session_id": draft.session_id or None,
            "event_id": draft.event_id,
            "invocation_id": draft.invocation_id,
            "author": draft.author,
            "timestamp": _text(draft.timestamp),
            "content": json.loads(draft.content),
            "body": draft.body,
            "custom_metadata": _read(draft.custom_metadata),
            "source": draft.source,
            "artifacts": _read(draft.artifacts),
            "topics": _read(draft.topics),
            "importance": draft.importance,
            "expires_at": _text(draft.expires_at),
            "superseded_by": record.superseded_by,
            "extracted_at": _text(record.extracted_at),
            "created_at": _text(record.created_at),
            "position": record.position,
            "digest": draft.digest,
            "origins": list(record.origins),
        }
    )


def read(text: str) -> Mapping[str, Any]:
    """Reads a line as its JSON object.

    Raises:
      InvalidInput: It is none.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"it is no JSON ({exc}).") from exc
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise InvalidInput("it is no JSON object with a type.")
    return value


def require_readable(value: Mapping[str, Any], name: str) -> None:
    """Refuses what does not begin as an export does.

    Args:
      value: The first line's object.
      name: The file's.

    Raises:
      InvalidInput: It is no export, or of a newer version.
    """
    if value.get("type") != "export" or value.get("format") != FORMAT:
        raise InvalidInput(
            f"{name} is no export of adkpg: its first line says neither type 'export' nor format "
            f"{FORMAT!r}; give a file that `adkpg export` wrote."
        )
    version = value.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise InvalidInput(
            f"{name} has version {version!r} of the format, and this adkpg reads up to {VERSION}; "
            "upgrade adkpg."
        )


def require_within(value: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Refuses a line of another app or user than its export is of.

    Args:
      value: The line's object.
      header: The object of the export's first line.

    Raises:
      InvalidInput: It belongs to another app or user, or to all users where one was exported.
    """
    for name in ("app_name", "user_id"):
        if header.get(name) not in (None, value.get(name)):
            raise InvalidInput(
                f"its {name} is {str(value.get(name))[:100]!r}, and its export is of "
                f"{str(header[name])[:100]!r}."
            )


def unknown_fields(value: Mapping[str, Any]) -> list[str]:
    """Returns the names of fields of a line that its type does not list; a few of them."""
    known = _FIELDS[value["type"]]
    return sorted(name[:40] for name in value if name not in known)[:5]


def record(value: Mapping[str, Any]) -> Record | None:
    """Returns what a line's object says; None if its type is unknown.

    Raises:
      InvalidInput: A value is missing or is none.
    """
    make = _READERS.get(value["type"])
    try:
        return None if make is None else make(value)
    except KeyError as exc:
        raise InvalidInput(f"its {exc.args[0]} is missing.") from exc
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise InvalidInput(f"it cannot be read ({exc}).") from exc


def _session(value: Mapping[str, Any]) -> SessionRecord:
    initial, ttl = value.get("initial_state"), value.get("ttl_s")
    return SessionRecord(
        app_name=_string(value, "app_name"),
        user_id=_string(value, "user_id"),
        session_id=_string(value, "session_id"),
        state=_object(value, "state"),
        created_at=_time(value.get("created_at")),
        updated_at=_time(value.get("updated_at")),
        revision=_number(value, "revision"),
        memory_position=_number(value, "memory_position"),
        initial_state=None if initial is None else _object(value, "initial_state"),
        ttl_s=None if ttl is None else _ttl(ttl),
        expires_at=_time(value.get("expires_at")),
    )


def place_of(value: Mapping[str, Any]) -> tuple[str, str, str]:
    """Returns the session that an event's line names.

    Raises:
      InvalidInput: It names none.
    """
    try:
        return (
            _string(value, "app_name"),
            _string(value, "user_id"),
            _string(value, "session_id"),
        )
    except (KeyError, ValueError) as exc:
        raise InvalidInput("it names no session.") from exc


def _event(value: Mapping[str, Any]) -> EventRecord:
    fields = value["event"]
    if not isinstance(fields, dict) or not isinstance(fields.get("id"), str):
        raise ValueError("its event is no object with an id")
    payload = _compact(fields)
    return EventRecord(jsontext.read_event(payload), payload, _number(value, "seq"))


def _app_state(value: Mapping[str, Any]) -> SharedState:
    return SharedState(
        app_name=_string(value, "app_name"),
        user_id=None,
        state=_object(value, "state"),
        updated_at=_time(value.get("updated_at")),
    )


def _user_state(value: Mapping[str, Any]) -> SharedState:
    return SharedState(
        app_name=_string(value, "app_name"),
        user_id=_string(value, "user_id"),
        state=_object(value, "state"),
        updated_at=_time(value.get("updated_at")),
    )


def _app_settings(value: Mapping[str, Any]) -> AppSettingsRecord:
    model = value.get("model")
    return AppSettingsRecord(
        app_name=_string(value, "app_name"),
        text_search_config=value.get("text_search_config"),
        extract_facts=bool(value.get("extract_facts")),
        model=None if model is None else _model(model),
    )


def _model(value: Mapping[str, Any]) -> tuple[str, int]:
    name, dimensions = _string(value, "name"), value["dimensions"]
    if not name.strip() or type(dimensions) is not int or not 1 <= dimensions <= MAX_DIMENSIONS:
        raise ValueError(f"its model has no name, or none of 1 to {MAX_DIMENSIONS} dimensions")
    return name, dimensions


def _tombstone(value: Mapping[str, Any]) -> TombstoneRecord:
    return TombstoneRecord(
        app_name=_string(value, "app_name"),
        user_id=_string(value, "user_id"),
        session_id=_string(value, "session_id"),
        event_id=_string(value, "event_id"),
        needed_at=_required(value, "needed_at"),
    )


def _artifact(value: Mapping[str, Any]) -> ArtifactRecord:
    mime_type = _optional(value, "mime_type")
    record = ArtifactRecord(
        app_name=_string(value, "app_name"),
        user_id=_string(value, "user_id"),
        session_id=_optional(value, "session_id") or "",
        name=_string(value, "name"),
        version=_whole(value, "version", _VERSIONS),
        artifact_id=_id(value, "artifact_id"),
        part=_compact(_object(value, "part")),
        mime_type=None if mime_type is None else jsontext.storable(mime_type),
        custom_metadata=jsontext.write(_object(value, "custom_metadata")),
        size=_whole(value, "size", 2**62),
        location=_optional(value, "location"),
        created_at=_required(value, "created_at"),
    )
    artifact_records.part(record.part, [])  # which loading it does
    if record.location is not None and not is_location_of(
        record.location,
        app_name=record.app_name,
        user_id=record.user_id,
        artifact_id=record.artifact_id,
    ):
        raise ValueError("its location is of no object of its own; export it with its bytes")
    return record


def _chunk(value: Mapping[str, Any]) -> ChunkRecord:
    return ChunkRecord(
        app_name=_string(value, "app_name"),
        user_id=_string(value, "user_id"),
        artifact_id=_id(value, "artifact_id"),
        chunk=_whole(value, "chunk", 2**31),
        data=base64.b64decode(_string(value, "data"), validate=True),
    )


def _memory(value: Mapping[str, Any]) -> MemoryRecord:
    importance = float(value["importance"])
    if not math.isfinite(importance):
        raise ValueError("its importance is no number")
    if (kind := _string(value, "kind")) not in KINDS:
        raise ValueError(f"its kind is none of {', '.join(KINDS)}")
    user_id = _optional(value, "user_id")
    if user_id == APP_WIDE:
        raise ValueError("its user_id is reserved")
    position = value["position"]
    if not isinstance(position, int) or abs(position) >= _POSITIONS:
        raise ValueError("its position is no number in range")
    draft = Draft(
        memory_id=_string(value, "memory_id"),
        kind=kind,
        session_id=_optional(value, "session_id") or "",
        event_id=_optional(value, "event_id"),
        invocation_id=_optional(value, "invocation_id"),
        author=_optional(value, "author"),
        timestamp=_required(value, "timestamp"),
        content=_compact(_object(value, "content")),
        body=jsontext.storable(_string(value, "body")),
        custom_metadata=_written(value.get("custom_metadata")),
        source=_optional(value, "source"),
        artifacts=_written(value.get("artifacts")),
        topics=jsontext.write([str(topic) for topic in value.get("topics") or []]),
        importance=importance,
        expires_at=_time(value.get("expires_at")),
        digest=_string(value, "digest"),
    )
    return MemoryRecord(
        app_name=_string(value, "app_name"),
        user_id=APP_WIDE if user_id is None else user_id,
        position=position,
        draft=draft,
        created_at=_time(value.get("created_at")),
        superseded_by=_optional(value, "superseded_by"),
        extracted_at=_time(value.get("extracted_at")),
        origins=tuple(str(origin) for origin in value.get("origins") or ()),
    )


# So that more can be written after an import: versions of a file, memories of a user.
_VERSIONS = 2**30
_POSITIONS = 2**63 - 2**40

_FIELDS = {
    kind: frozenset(("type", "app_name", *names.split()))
    for kind, names in {
        "session": "user_id session_id state revision created_at updated_at memory_position "
        "initial_state ttl_s expires_at",
        "event": "user_id session_id seq event",
        "app_state": "state updated_at",
        "user_state": "user_id state updated_at",
        "app_settings": "text_search_config extract_facts model",
        "tombstone": "user_id session_id event_id needed_at",
        "memory": "user_id memory_id kind session_id event_id invocation_id author timestamp "
        "content body custom_metadata source artifacts topics importance expires_at "
        "superseded_by extracted_at created_at position digest origins",
        "artifact": "user_id session_id name version artifact_id part mime_type custom_metadata "
        "size location created_at",
        "artifact_chunk": "user_id artifact_id chunk data",
    }.items()
}
"""The fields of each type of line; a file chooses no other column."""

_READERS: dict[str, Callable[[Mapping[str, Any]], Record]] = {
    "session": _session,
    "event": _event,
    "app_state": _app_state,
    "user_state": _user_state,
    "app_settings": _app_settings,
    "tombstone": _tombstone,
    "memory": _memory,
    "artifact": _artifact,
    "artifact_chunk": _chunk,
}


def _compact(value: Mapping[str, Any]) -> str:
    """Returns JSON text as pydantic writes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        return json.dumps(value, separators=(",", ":"))
    return text


def _line(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text if text.isprintable() else json.dumps(value, separators=(",", ":"))


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat(timespec="microseconds")


def _time(value: object) -> datetime | None:
    if value is None:
        return None
    time = datetime.fromisoformat(str(value))
    if time.tzinfo is None:
        raise ValueError(f"the time {value!r} has no offset")
    return time


def _required(value: Mapping[str, Any], name: str) -> datetime:
    time = _time(value[name])
    if time is None:
        raise ValueError(f"its {name} is null")
    return time


def _number(value: Mapping[str, Any], name: str) -> int | None:
    number = value.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or not 0 <= number < 2**62 + 2**40:
        raise ValueError(f"its {name} is no number in range")
    return number


def _string(value: Mapping[str, Any], name: str) -> str:
    text = value[name]
    if not isinstance(text, str):
        raise ValueError(f"its {name} is no text")
    return text


def _optional(value: Mapping[str, Any], name: str) -> str | None:
    return None if value.get(name) is None else _string(value, name)


def _ttl(value: Any) -> float:
    ttl = expiry(value, None, 0).ttl
    assert ttl is not None
    return ttl.total_seconds()


def _whole(value: Mapping[str, Any], name: str, end: int) -> int:
    number = value[name]
    if not isinstance(number, int) or not 0 <= number < end:
        raise ValueError(f"its {name} is no number in range")
    return number


def _id(value: Mapping[str, Any], name: str) -> str:
    return str(UUID(_string(value, name)))


def _object(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = value[name]
    if not isinstance(found, dict):
        raise ValueError(f"its {name} is no object")
    return found


def _read(text: str | None) -> Any:
    return None if text is None else jsontext.read(text)


def _written(value: Any) -> str | None:
    return None if value is None else jsontext.write(value)
