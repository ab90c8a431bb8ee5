"""Events: ADK's rows as events, of the schema with JSON and of that with a column a field. Pure."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from pydantic import ValidationError

from adkpg import jsontext
from adkpg.errors import InvalidInput
from adkpg.timestamps import unix
from adkpg.tooling.transfer.records import EventRecord, Unread
from adkpg.tooling.transfer.sources.clock import Clock, read_time
from adkpg.tooling.transfer.sources.pickles import read_actions

_MILLISECONDS = 1e11
_PICKLE = 0x80
_STOP = b"."  # ends a pickle of protocol 0 or 1, whose beginning says nothing

KEYS = ("app_name", "user_id", "session_id", "id", "invocation_id", "timestamp")
"""Columns that each events table has."""

FIELDS = (
    "author",
    "actions",
    "long_running_tool_ids_json",
    "branch",
    "content",
    "grounding_metadata",
    "custom_metadata",
    "usage_metadata",
    "citation_metadata",
    "partial",
    "turn_complete",
    "error_code",
    "error_message",
    "interrupted",
    "input_transcription",
    "output_transcription",
    "output_json",
    "node_info_json",
    "isolation_scope",
)
"""Columns of the schema v0, of which older versions lack some."""

_JSON = {
    "content": "content",
    "grounding_metadata": "grounding_metadata",
    "custom_metadata": "custom_metadata",
    "usage_metadata": "usage_metadata",
    "citation_metadata": "citation_metadata",
    "input_transcription": "input_transcription",
    "output_transcription": "output_transcription",
    "node_info_json": "node_info",
}
_PLAIN = ("author", "branch", "error_code", "error_message", "isolation_scope")
_FLAGS = ("partial", "turn_complete", "interrupted")


def read_rows(rows: Sequence[Any]) -> list[EventRecord | Unread]:
    """Returns the events of rows of schema v1, in their order."""
    texts = [row.event_data if _is_object(row.event_data) else "{}" for row in rows]
    found: list[EventRecord | Unread] = []
    for row, text, event in zip(rows, texts, _read(texts), strict=True):
        if not _is_object(row.event_data) or event is None:
            found.append(_unread(row, "its event_data is not a JSON object."))
        elif event.error_code == jsontext.UNREADABLE:
            found.append(_unread(row, event.error_message or "it cannot be read."))
        else:
            found.append(_of_json(row, event, text))
    return found


def _read(texts: Sequence[str]) -> list[Event | None]:
    """Returns the events of texts; None for one that is not JSON."""
    try:
        return [*jsontext.read_events(texts)]
    except ValueError:
        if len(texts) == 1:
            return [None]
        return [event for text in texts for event in _read([text])]


def _is_object(text: object) -> bool:
    return isinstance(text, str) and text.lstrip().startswith("{")


def _of_json(row: Any, event: Event, text: str) -> EventRecord | Unread:
    event.id = row.id
    event.invocation_id = row.invocation_id or ""
    if '"timestamp"' not in text:
        time = read_time(row.timestamp)
        if time is None:
            return _unread(row, f"its time {row.timestamp!r} cannot be read.")
        event.timestamp = unix(time)
    if event.timestamp >= _MILLISECONDS:  # of adk-js
        event.timestamp /= 1000
        compaction = event.actions.compaction
        if compaction is not None:
            for name in ("start_timestamp", "end_timestamp"):
                moment = getattr(compaction, name)
                if moment >= _MILLISECONDS:
                    setattr(compaction, name, moment / 1000)
    return _record(row, event)


def read_legacy(row: Any, clock: Clock) -> tuple[EventRecord | Unread, Unread | None]:
    """Returns the event of a row of schema v0, and what of it could not be read.

    Args:
      row: The row, with those of `FIELDS` that the table has.
      clock: Knows the zone of its time.
    """
    columns: Mapping[str, Any] = row._mapping
    time = clock.instant(row.timestamp)
    if time is None:
        return _unread(row, f"its time {row.timestamp!r} cannot be read."), None
    try:
        event = _event(columns, time)
    except (TypeError, ValueError, RecursionError) as exc:  # a column of SQLite holds any type
        return _unread(row, f"it cannot be read ({_short(exc)})."), None
    if event.error_code == jsontext.UNREADABLE and columns.get("error_code") != event.error_code:
        return _unread(row, event.error_message or "it cannot be read."), None
    missed = None
    try:
        event.actions = _actions(columns.get("actions"))
    except InvalidInput as exc:
        missed = _unread(row, f"{exc}; it was read without them.", lost=False)
    return _record(row, event), missed


def _event(columns: Mapping[str, Any], time: datetime) -> Event:
    fields: dict[str, Any] = {
        "id": columns["id"],
        "invocation_id": columns["invocation_id"] or "",
        "timestamp": unix(time),
    }
    for name in _PLAIN:
        if columns.get(name) is not None:
            fields[name] = columns[name]
    for name in _FLAGS:
        if columns.get(name) is not None:
            fields[name] = bool(columns[name])
    for name, field in _JSON.items():
        value = _object(columns.get(name))
        if value is not None:
            fields[field] = value
    output = columns.get("output_json")
    if output is not None:
        fields["output"] = json.loads(output)
    ids = columns.get("long_running_tool_ids_json")
    if ids and isinstance(listed := json.loads(ids), list):
        fields["long_running_tool_ids"] = [str(each) for each in listed]
    return jsontext.read_event(json.dumps(fields))


def _object(text: Any) -> dict[str, Any] | None:
    """Returns a JSON object; a null or a scalar, which old versions left behind, is none."""
    if text is None:
        return None
    value = text if isinstance(text, dict) else json.loads(text)
    return value if isinstance(value, dict) else None


def _actions(data: Any) -> EventActions:
    if data is None:
        return EventActions()
    if not isinstance(data, str | bytes | bytearray | memoryview):  # bytes(n) would be n zeros
        raise InvalidInput(f"its actions are neither a pickle nor JSON, but {type(data).__name__}")
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else bytes(data)
    if not raw:
        return EventActions()
    if raw[0] == _PICKLE or (raw[:1] != b"{" and raw.endswith(_STOP)):
        return read_actions(raw)
    if raw[:1] != b"{":
        raise InvalidInput(f"its actions are neither a pickle nor JSON, but begin with {raw[:4]!r}")
    try:
        return EventActions.model_validate_json(raw)
    except ValidationError as exc:
        raise InvalidInput(f"its actions cannot be read ({_short(exc)})") from exc


def _record(row: Any, event: Event) -> EventRecord | Unread:
    try:
        return EventRecord(event, jsontext.write_event(event))
    except InvalidInput as exc:
        return _unread(row, str(exc))


def _unread(row: Any, reason: str, *, lost: bool = True) -> Unread:
    return Unread(
        reason=reason,
        app_name=row.app_name,
        user_id=row.user_id,
        session_id=row.session_id,
        event_id=row.id,
        lost=lost,
    )


def _short(exc: Exception) -> str:
    if isinstance(exc, ValidationError):
        first = exc.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(exc)[:200]
