"""Records: ADK sessions and events to rows and back. Pure; JSON travels as text."""

import json
import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from adkpg import contents
from adkpg.errors import InvalidInput
from adkpg.sessions import state
from adkpg.timestamps import unix

logger = logging.getLogger(__name__)

_EVENTS = TypeAdapter(list[Event])
# The start of an event as pydantic writes it, if its content is texts alone.
_TEXT = r'\{"text":"[^"\\]*(?:\\.[^"\\]*)*"\}'
_SAID = re.compile(
    r'\{("model_version":"[^"\\]*",)?'
    rf'"content":(\{{"parts":\[{_TEXT}(?:,{_TEXT})*\],"role":"[^"\\]*"\}}),'
)
_MARKER = re.compile(r"([0-9a-f-]{36}):([0-9]{1,18})")

UNREADABLE = "ADKPG_UNREADABLE"
"""Error code of the event that stands for a stored one which this ADK cannot read."""


@dataclass(frozen=True)
class Marker:
    """What a live Session knows of storage: which incarnation, at which revision."""

    incarnation: str
    revision: int

    def __str__(self) -> str:
        return f"{self.incarnation}:{self.revision}"

    @classmethod
    def of(cls, session: Session) -> "Marker | None":
        """Returns the marker of a live Session; None if another service or JSON made it."""
        match = _MARKER.fullmatch(session._storage_update_marker or "")
        return cls(match[1], int(match[2])) if match else None

    def set(self, session: Session) -> None:
        """Marks a live Session as being at this revision."""
        session._storage_update_marker = str(self)


def payload(event: Event) -> str:
    """Returns the whole event as JSON text that Postgres stores as it is.

    Raises:
      InvalidInput: A value in the event can be made into JSON in no way.
    """
    if math.isfinite(event.timestamp):
        try:
            text = event.model_dump_json(exclude_none=True)
        except (PydanticSerializationError, UnicodeEncodeError, ValueError):
            logger.debug("Event %s is written the slow way.", event.id)
        else:
            if "\ufffd" not in text:  # what pydantic writes for a lone surrogate in a key
                return text
    try:
        fields = event.model_dump(
            exclude_none=True, exclude={"actions": {"state_delta", "agent_state"}}
        )
        fields = state.finite(state.without_surrogates(_plain, fields))
        actions = fields.setdefault("actions", {})
        actions["state_delta"] = state.jsonable(event.actions.state_delta)
        if event.actions.agent_state is not None:
            actions["agent_state"] = state.jsonable(event.actions.agent_state)
        if not math.isfinite(event.timestamp):
            fields["timestamp"] = str(event.timestamp)
        return json.dumps(fields, allow_nan=False)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as exc:
        raise InvalidInput(
            f"Event {event.id} cannot be written as JSON: {exc}; give it simpler values."
        ) from exc


def _plain(fields: Any) -> Any:
    return to_jsonable_python(fields, bytes_mode="base64", serialize_unknown=True)


def events(payloads: Sequence[str]) -> list[Event]:
    """Reads stored payloads; one that the fast parser refuses does not cost the others."""
    # A third of the time goes into contents, and those of texts alone need no validation.
    said = [_SAID.match(text) for text in payloads]
    rest = [
        f"{{{match[1] or ''}{text[match.end() :]}" if match else text
        for match, text in zip(said, payloads, strict=True)
    ]
    try:
        read = _EVENTS.validate_json(f"[{','.join(rest)}]")
        for match, each in zip(said, read, strict=True):
            if match:
                each.content = contents.read(match[2])
        return read
    except ValidationError:
        return [event(text) for text in payloads]


def event(text: str) -> Event:
    """Reads one payload: deep nesting, lone surrogates and fields of a newer ADK included.

    Fields that this ADK does not know are left out with a warning. What still cannot be read
    becomes an event with the same id, author and time, and `UNREADABLE` as its error code.
    """
    try:
        return Event.model_validate_json(text)
    except ValidationError:
        try:
            return _lenient(json.loads(text))
        except (ValidationError, RecursionError) as exc:
            return _placeholder(text, exc)


def _lenient(fields: dict[str, Any]) -> Event:
    try:
        return Event.model_validate(fields)
    except ValidationError as exc:
        unknown = [error["loc"] for error in exc.errors() if error["type"] == "extra_forbidden"]
        if not unknown:
            raise
        logger.warning(
            "Event %s was written by a newer ADK; left out: %s.",
            fields.get("id"),
            ", ".join(".".join(map(str, loc)) for loc in unknown),
        )
        for loc in unknown:
            _drop(fields, loc)
        return Event.model_validate(fields)


def _drop(fields: Any, loc: Sequence[int | str]) -> None:
    for step in loc[:-1]:
        fields = fields[step]
    del fields[loc[-1]]


def _placeholder(text: str, cause: Exception) -> Event:
    try:
        fields = json.loads(text)
    except RecursionError:
        fields = None
    if not isinstance(fields, dict):
        fields = {}
    logger.warning("Event %s cannot be read by this ADK: %s", fields.get("id"), cause)
    known = {
        name: fields[name]
        for name in ("id", "invocation_id", "author", "branch")
        if isinstance(fields.get(name), str)
    }
    if isinstance(fields.get("timestamp"), (int, float)):
        known["timestamp"] = fields["timestamp"]
    return Event.model_validate(
        {
            "author": "unknown",
            **known,
            "error_code": UNREADABLE,
            "error_message": f"This event cannot be read by this version of ADK: {cause}",
        }
    )


def session(
    *,
    app_name: str,
    row: Mapping[str, Any],
    app_state: str | None,
    user_state: str | None,
    payloads: Sequence[str] = (),
) -> Session:
    """Returns a live Session of a stored row, fresh and sharing nothing with any other."""
    live = Session(
        id=row["session_id"],
        app_name=app_name,
        user_id=row["user_id"],
        state=state.merge(row["state"], app_state, user_state),
        events=[],
        last_update_time=unix(row["updated_at"]),
    )
    live.events = events(payloads) if payloads else []
    Marker(row["incarnation"], row["revision"]).set(live)
    return live


def listed(app_name: str, rows: Iterable[Mapping[str, Any]]) -> list[Session]:
    """Returns the Sessions of a listing, without events and with their whole merged state.

    A listing ships each shared state once: the app's on its first row, a user's on the first row
    of that user.
    """
    app_state: str | None = None
    user_states: dict[str, str | None] = {}
    sessions = []
    for row in rows:
        app_state = row["app_state"] or app_state
        user_states[row["user_id"]] = row["user_state"] or user_states.get(row["user_id"])
        sessions.append(
            session(
                app_name=app_name,
                row=row,
                app_state=app_state,
                user_state=user_states[row["user_id"]],
            )
        )
    return sessions
