"""JSON text: how values, states, contents and events become what Postgres holds, and come back.

A lone surrogate, half of a character, cannot be sent as UTF-8. It becomes U+FFFD when it is
written, and when it is read where it was stored before. jsonb refuses U+0000, too. That becomes
U+001A and four hex digits, and so does U+001A itself, which makes the escape reversible. Numbers in
jsonb are numerics, which know no exponent: a float of 1e16 or more is written with all its digits,
so that it comes back as a float.

Values that are not JSON are treated as ADK treats them (``google/adk/sessions/_session_util.py``):
pydantic makes JSON of rich values, and of unknown objects their representation.
"""

import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from google.adk.events.event import Event
from google.genai import types
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_jsonable_python

from adkpg.errors import InvalidInput

logger = logging.getLogger(__name__)

ModelT = TypeVar("ModelT", bound=BaseModel)

MAX_DEPTH = 600
"""Deepest nesting of a state, itself included. Reading takes a stack frame per level of Python's
1,000, so one that could just be written from a shallow stack could not be read from a deeper."""

MODELS_DEPTH = 240
"""Deepest nesting of a value in an event, a memory or a filter, itself included. pydantic, which
writes these, goes 255 levels deep, and a session holds events that hold contents that hold it."""

AROUND = 5
"""Levels of an event, or of a content, around the deepest value that it can hold."""

_EVENT_DEPTH = MODELS_DEPTH + AROUND

UNREADABLE = "ADKPG_UNREADABLE"
"""Error code of the event that stands for a stored one which this ADK cannot read."""

_SURROGATE = re.compile("[\ud800-\udfff]")
# An escape of JSON text; one of half a character is its group.
_HALF = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_NO_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^][{}"]++', re.DOTALL)
_ROUND = str.maketrans("[]{}", "()()")
_ESCAPES = re.compile("[\x00\x1a]")
_UNSTORABLE_IN_JSON = re.compile("\\\\u0000|\\\\u001a|[\ud800-\udfff]")
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")
# A number is tried from its first digit alone, or one of n digits would take n² steps.
_LARGE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(?<![0-9.])-?[0-9.]++e\+[0-9]+')

_CONTENT = types.Content(parts=[])
_PART = types.Part(text="")
_new, _set = object.__new__, object.__setattr__
# The slots of a model, by their descriptors: half the time of finding them by name.
_set_fields_set, _set_extra, _set_private = (
    vars(BaseModel)[f"__pydantic_{slot}__"].__set__ for slot in ("fields_set", "extra", "private")
)

_EVENTS = TypeAdapter(list[Event])
# The start of an event as pydantic writes it, if its content is texts alone.
_TEXT = r'\{"text":"[^"\\]*(?:\\.[^"\\]*)*"\}'
_SAID = re.compile(
    r'\{("model_version":"[^"\\]*",)?'
    rf'"content":(\{{"parts":\[{_TEXT}(?:,{_TEXT})*\],"role":"[^"\\]*"\}}),'
)


# Values


def write(plain: Any, most: int = MAX_DEPTH) -> str:
    """Returns plain JSON values as text that jsonb accepts.

    Args:
      plain: The values.
      most: How many levels they may have.

    Raises:
      ValueError: A float is NaN or infinite, or the value is circular or nested deeper.
      TypeError: A value is not JSON.
      RecursionError: It is nested too deeply.
    """
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    require_shallow(text, most)
    if _UNSTORABLE_IN_JSON.search(text):
        text = json.dumps(mapped(plain, escape), ensure_ascii=False)
    return _LARGE.sub(_digits, text) if "e+" in text else text


def require_shallow(text: str, most: int) -> None:
    """Refuses JSON text that is nested too deeply.

    Raises:
      ValueError: It has more levels.
    """
    if _deeper_than(most, text):
        raise ValueError(f"it is nested deeper than {most} levels")


def _deeper_than(levels: int, text: str) -> bool:
    if text.count("{") + text.count("[") <= levels:
        return False
    brackets = _NO_BRACKETS.sub("", text).translate(_ROUND)
    for _ in range(levels):  # each turn takes the innermost level away
        if not brackets:
            return False
        brackets = brackets.replace("()", "")
    return bool(brackets)


def _digits(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else f"{float(match[0]):.1f}"


def read(text: str) -> Any:
    """Reads back what `write` wrote."""
    value = json.loads(text)
    return mapped(value, unescape) if "\\u001a" in text else value


def mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Returns a copy with `leaf` applied to everything that is no container, keys included."""
    if isinstance(value, dict):
        copy = {}
        for key, item in value.items():  # no comprehension: it would take a frame of its own
            copy[leaf(key)] = mapped(item, leaf)
        return copy
    if isinstance(value, (list, tuple, set, frozenset)):
        items = []
        for item in value:
            items.append(mapped(item, leaf))
        return items
    return leaf(value)


def same_json(one: str, other: str) -> bool:
    """Whether two JSON texts say the same, however they are spelled."""
    try:
        return bool(json.loads(mended_json(one)) == json.loads(mended_json(other)))
    except (ValueError, RecursionError):
        return False


def storable(text: str) -> str:
    """Returns a text that a text column can hold: NUL becomes a space, a lone surrogate U+FFFD."""
    return _whole(text).replace("\x00", " ")


def escape(leaf: Any) -> Any:
    """Returns a text as jsonb can hold it, anything else as it is."""
    if not isinstance(leaf, str):
        return leaf
    return _ESCAPES.sub(lambda match: f"\x1a{ord(match[0]):04x}", _whole(leaf))


def unescape(leaf: Any) -> Any:
    """Undoes `escape`."""
    if not isinstance(leaf, str):
        return leaf
    return _whole(_ESCAPED.sub(lambda match: chr(int(match[1], 16)), leaf))


# Lone surrogates


def mended(value: Any) -> Any:
    """Returns a value with U+FFFD for each lone surrogate of its texts, keys included.

    What has none is returned itself. Models are mended in place.
    """
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, BaseModel):
        for fields in (value.__dict__, value.__pydantic_extra__ or {}):
            for name, item in fields.items():
                fields[name] = mended(item)
        return value
    if isinstance(value, dict):
        copy = {}
        changed = False
        for key, item in value.items():
            new_key, new = mended(key), mended(item)
            changed = changed or new_key is not key or new is not item
            copy[new_key] = new
        return copy if changed else value
    if isinstance(value, (list, tuple, set, frozenset)):
        items = []
        for item in value:
            items.append(mended(item))
        if all(new is item for new, item in zip(items, value, strict=True)):
            return value
        return value.__class__(*items) if hasattr(value, "_fields") else value.__class__(items)
    return value


def mended_json(text: str) -> str:
    """Returns JSON text whose texts have U+FFFD for each lone surrogate, spelled out or escaped."""
    text = _whole(text)
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _HALF.sub(lambda match: "\\ufffd" if match[1] else match[0], text)


def _whole(text: str) -> str:
    if text.isascii() or not _SURROGATE.search(text):
        return text
    # Halves that meet are one character.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# States


def write_state(scope: Mapping[str, Any]) -> str:
    """Returns JSON text that jsonb accepts; NaN and infinity become null, with a warning.

    Raises:
      InvalidInput: A value can be made into JSON in no way; the message names its key.
    """
    plain = jsonable(scope)
    try:
        return write(plain)
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInput(
            f"State cannot be written as JSON (keys {sorted(scope)[:5]}): {exc}; "
            "store a simpler value."
        ) from exc


def read_state(text: str | None) -> dict[str, Any]:
    """Reads back what `write_state` wrote."""
    if not text or text == "{}":
        return {}
    scope: dict[str, Any] = read(text)
    return scope


def jsonable(scope: Mapping[str, Any]) -> dict[str, Any]:
    """Returns plain JSON values: what ADK's own service makes of them, and no NaN or infinity.

    Bytes that are not UTF-8, which ADK cannot store, become URL-safe base64, as they do in an
    event's payload.

    Raises:
      InvalidInput: A value can be made into JSON in no way.
    """
    plain = _converted(scope)
    if _has_nonfinite(plain):
        logger.warning(
            "State holds NaN or infinity (keys %s), which JSON does not know; stored as null.",
            sorted(scope)[:5],
        )
        plain = finite(plain)
    return plain


def finite(plain: Any) -> Any:
    """Returns a copy of plain JSON values with null for NaN and infinity."""
    return mapped(
        plain, lambda leaf: None if isinstance(leaf, float) and not math.isfinite(leaf) else leaf
    )


def _converted(scope: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return _dict(to_jsonable_python(scope))
    except ValueError:  # deep nesting, lone surrogates or what is not JSON: find out
        try:
            return _dict(_texts(mended(scope)))
        except PydanticSerializationError as exc:
            raise InvalidInput(
                f"State cannot be written as JSON (keys {sorted(scope)[:5]}): {exc}; "
                "store a simpler value."
            ) from exc
        except (ValueError, RecursionError):  # plain JSON may be deeper than pydantic goes
            return dict(scope)


def _texts(scope: Mapping[str, Any]) -> Any:
    try:
        return to_jsonable_python(scope)
    except (PydanticSerializationError, UnicodeDecodeError):
        logger.warning(
            "State holds values that are not JSON (keys %s); they are stored as their text.",
            sorted(scope)[:5],
        )
    try:
        return to_jsonable_python(scope, serialize_unknown=True)
    except UnicodeDecodeError:
        return to_jsonable_python(scope, serialize_unknown=True, bytes_mode="base64")


def _dict(plain: Any) -> dict[str, Any]:
    converted: dict[str, Any] = plain
    return converted


def _has_nonfinite(plain: Any) -> bool:
    try:
        json.dumps(plain, allow_nan=False)
    except ValueError as exc:
        return "Out of range float" in str(exc)
    except (RecursionError, TypeError):
        return False
    return False


# Models


def copied(valid: ModelT, fields: dict[str, Any]) -> ModelT:
    """Returns what ``model_copy(update=fields)`` does of a model that has only fields.

    In less than half of its time. The fields count as the ones that were set; the values of others
    are shared.
    """
    copy = _new(valid.__class__)
    _set(copy, "__dict__", valid.__dict__ | fields)
    _set_fields_set(copy, {*fields})
    _set_extra(copy, None)
    _set_private(copy, None)
    return copy


# Contents


def text_content(text: str, role: str | None) -> types.Content:
    """Returns the content that is one text; what it has no role for, it has not set."""
    parts = [copied(_PART, {"text": text})]
    return copied(_CONTENT, {"parts": parts} if role is None else {"parts": parts, "role": role})


def read_content(text: str) -> types.Content:
    """Returns a content that pydantic wrote as JSON text.

    Most are of texts alone. These are copied from one that is valid, in a sixth of the time
    that a validation takes: it runs Python code of google-genai's for each content and part.
    """
    try:
        fields: dict[str, Any] = from_json(text)
        parts: Any = fields.get("parts")
        if fields.keys() == {"parts", "role"} and all(part.keys() == {"text"} for part in parts):
            fields["parts"] = [copied(_PART, part) for part in parts]
            return copied(_CONTENT, fields)
        return types.Content.model_validate_json(text)
    except ValueError:  # a lone surrogate, which pydantic's parser refuses
        return types.Content.model_validate(json.loads(mended_json(text)))


def write_content(content: types.Content) -> str:
    """Returns a content as JSON text; the given one keeps its texts as they are.

    Raises:
      InvalidInput: A value in it can be made into JSON in no way.
    """
    try:
        text = _dumped(content)
        if text is None or "\ufffd" in text:
            whole = mended(content.model_copy(deep=True))
            text = _dumped(whole) or json.dumps(whole.model_dump(mode="json", exclude_none=True))
        require_shallow(text, _EVENT_DEPTH)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as exc:
        raise InvalidInput(
            f"A memory's content cannot be written as JSON: {exc}; give it simpler values."
        ) from exc
    return text


def _dumped(model: BaseModel) -> str | None:
    """Returns a model as JSON text; None if pydantic does not write it.

    It writes U+FFFD for each byte of a lone surrogate in a key.
    """
    try:
        return model.model_dump_json(exclude_none=True)
    except (PydanticSerializationError, UnicodeEncodeError, ValueError):
        return None


# Events


def write_event(event: Event) -> str:
    """Returns the whole event as JSON text that Postgres stores as it is.

    Lone surrogates become U+FFFD in the given event, too, with which its runner goes on.

    Raises:
      InvalidInput: A value in the event can be made into JSON in no way.
    """
    try:
        finite_time = math.isfinite(event.timestamp)
        text = _dumped(event) if finite_time else None
        if text is None or "\ufffd" in text:
            mended(event)
            text = _dumped(event) if finite_time else None
        if text is not None and not _deeper_than(_EVENT_DEPTH, text):
            return text
        logger.debug("Event %s is written the slow way.", event.id)
        fields = event.model_dump(
            exclude_none=True, exclude={"actions": {"state_delta", "agent_state"}}
        )
        fields = finite(_plain(fields))
        require_shallow(json.dumps(fields), _EVENT_DEPTH)
        actions = fields.setdefault("actions", {})
        actions["state_delta"] = jsonable(event.actions.state_delta)
        if event.actions.agent_state is not None:
            actions["agent_state"] = jsonable(event.actions.agent_state)
        if not finite_time:
            fields["timestamp"] = str(event.timestamp)
        text = mended_json(json.dumps(fields, allow_nan=False))
        require_shallow(text, MAX_DEPTH + 2)  # the event and its actions
        return text
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as exc:
        raise InvalidInput(
            f"Event {event.id} cannot be written as JSON: {exc}; give it simpler values."
        ) from exc


def _plain(fields: Any) -> Any:
    return to_jsonable_python(fields, bytes_mode="base64", serialize_unknown=True)


def read_events(payloads: Sequence[str]) -> list[Event]:
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
                each.content = read_content(match[2])
        return read
    except ValidationError:
        return [read_event(text) for text in payloads]


def read_event(text: str) -> Event:
    """Reads one payload: deep nesting, lone surrogates and fields of a newer ADK included.

    Fields that this ADK does not know are left out with a warning. One that still cannot
    be read becomes an event with the same id, author and time, and `UNREADABLE` as its error code.
    """
    try:
        return Event.model_validate_json(text)
    except ValidationError:
        try:
            return _lenient(json.loads(mended_json(text)))
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
        fields = json.loads(mended_json(text))
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
