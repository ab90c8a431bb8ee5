"""State: its scopes.

As in ADK, ``app:`` and ``user:`` keys are stored without their prefix, ``temp:`` keys never.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.adk.sessions.state import State

from adkpg.errors import InvalidInput
from adkpg.jsontext import read_state, write_state


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
    return Delta(*(write_state(scope) if scope else None for scope in (session, app, user)))


def merge(session: str | None, app: str | None, user: str | None) -> dict[str, Any]:
    """Returns one state from the stored scopes, with ADK's prefixes; the inverse of `split`."""
    merged = read_state(session)
    for prefix, scope in ((State.APP_PREFIX, app), (State.USER_PREFIX, user)):
        for key, value in read_state(scope).items():
            merged[prefix + key] = value
    return merged
