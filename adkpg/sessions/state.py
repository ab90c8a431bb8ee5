"""State: its scopes, and what becomes of values that are not JSON.

Rules follow ADK (``google/adk/sessions/_session_util.py``): ``app:`` and ``user:`` keys are
stored without their prefix, ``temp:`` keys never; rich values are turned into JSON by pydantic,
unknown objects into their representation.
"""

import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.adk.sessions.state import State
from pydantic_core import PydanticSerializationError, to_jsonable_python

from adkpg import jsonb
from adkpg.errors import InvalidInput

logger = logging.getLogger(__name__)

MAX_DEPTH = 600
"""Deepest nesting of a state. Reading takes a stack frame per level of Python's 1,000, so a state
that could just be written from a shallow stack could not be read from a deeper one."""


@dataclass(frozen=True)
class Delta:
    """A state delta by scope, as JSON text ready for jsonb; None where a scope has no change."""

    session: str | None
    app: str | None
    user: str | None


def split(delta: Mapping[str, Any] | None) -> Delta:
    """Sorts a delta into its scopes and drops ``temp:`` keys.

    Raises:
      InvalidInput: A key is no string, or a value can be made into JSON in no way; the message
        names the key.
    """
    if not delta:
        return Delta(None, None, None)
    session: dict[str, Any] = {}
    app: dict[str, Any] = {}
    user: dict[str, Any] = {}
    for key, value in delta.items():
        if not isinstance(key, str):
            raise InvalidInput(f"State key {key!r} is no string; use str({key!r}).")
        if key.startswith(State.APP_PREFIX):
            app[key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            user[key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            session[key] = value
    return Delta(*(dumps(scope) if scope else None for scope in (session, app, user)))


def merge(session: str | None, app: str | None, user: str | None) -> dict[str, Any]:
    """Returns one state from the stored scopes, with ADK's prefixes; the inverse of `split`."""
    merged = loads(session)
    for prefix, scope in ((State.APP_PREFIX, app), (State.USER_PREFIX, user)):
        for key, value in loads(scope).items():
            merged[prefix + key] = value
    return merged


def dumps(scope: Mapping[str, Any]) -> str:
    """Returns JSON text that jsonb accepts; NaN and infinity become null, with a warning.

    Raises:
      InvalidInput: A value can be made into JSON in no way; the message names its key.
    """
    plain = jsonable(scope)
    try:
        return jsonb.write(plain)
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInput(
            f"State cannot be written as JSON (keys {sorted(scope)[:5]}): {exc}; "
            "store a simpler value."
        ) from exc


def loads(text: str | None) -> dict[str, Any]:
    """Reads back what `dumps` wrote."""
    if not text or text == "{}":
        return {}
    scope: dict[str, Any] = jsonb.read(text)
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
    return jsonb.mapped(
        plain, lambda leaf: None if isinstance(leaf, float) and not math.isfinite(leaf) else leaf
    )


def without_surrogates(convert: Callable[[Any], Any], value: Any) -> Any:
    """Runs a conversion of pydantic's, which refuses lone surrogates, on values that hold some."""
    return jsonb.mapped(convert(jsonb.mapped(value, jsonb.escape)), jsonb.unescape)


def _converted(scope: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return _dict(to_jsonable_python(scope))
    except ValueError:  # deep nesting, lone surrogates or what is not JSON: find out
        try:
            return _dict(without_surrogates(_texts, scope))
        except PydanticSerializationError as exc:
            raise InvalidInput(
                f"State cannot be written as JSON (keys {sorted(scope)[:5]}): {exc}; "
                "store a simpler value."
            ) from exc
        except (ValueError, RecursionError):  # plain JSON may be deeper than pydantic goes
            if _deeper_than(MAX_DEPTH, scope):
                raise InvalidInput(
                    f"State cannot be written as JSON (keys {sorted(scope)[:5]}): it is circular "
                    f"or nested deeper than {MAX_DEPTH} levels; store a flatter value."
                ) from None
            return dict(scope)


def _deeper_than(levels: int, scope: Mapping[str, Any]) -> bool:
    level: list[Any] = [scope]
    for _ in range(levels):
        inner = (
            item
            for container in level
            for item in (container.values() if isinstance(container, Mapping) else container)
            if isinstance(item, (Mapping, list, tuple, set, frozenset))
        )
        level = list({id(container): container for container in inner}.values())
        if not level:
            return False
    return True


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
