"""State: its scopes, and how large they may be.

As in ADK, ``app:`` and ``user:`` keys are stored without their prefix, ``temp:`` keys never.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.adk.sessions.state import State

from adkpg.errors import ConstraintViolated, InvalidInput
from adkpg.jsontext import read_state, write_state
from adkpg.limits import bytes_of, require_size
from adkpg.settings import Settings

_WRITERS = "app_states.writers"
_STATES = {"sessions.state": "session", "user_states.state": "user", "app_states.state": "app"}


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
    for key in delta:
        if not isinstance(key, str):
            raise InvalidInput(f"State key {key!r} is not a string; use str({key!r}).")
    return Delta(*(write_state(scope) if scope else None for scope in parted(delta)))


def parted(
    state: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns the session's own keys, the app's and the user's, without prefixes.

    Temporary keys are in none of them.
    """
    own: dict[str, Any] = {}
    app: dict[str, Any] = {}
    user: dict[str, Any] = {}
    for key, value in state.items():
        if key.startswith(State.APP_PREFIX):
            app[key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            user[key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            own[key] = value
    return own, app, user


def require_own(delta: Delta, settings: Settings) -> None:
    """Refuses what a user may not write for all users of the app.

    Raises:
      InvalidInput: There are ``app:`` keys, and the deployment lets the app alone write those.
    """
    writers = settings.app_state_writers
    if delta.app is None or writers == "users":
        return
    if writers == "app" or settings.row_level_security:
        raise InvalidInput(
            "ADKPG_APP_STATE_WRITERS lets only the app itself write app: keys, because all its "
            "users read them; set them by update_state(app_name=...) without a user, within "
            "scope(user_id=None) if row-level security is on, or set "
            "ADKPG_APP_STATE_WRITERS=users."
        )


def require_small(delta: Delta, settings: Settings) -> None:
    """Refuses a delta with a scope that no state has room for.

    Raises:
      InvalidInput: A scope is larger than ``max_state_mb``.
    """
    for scope, text in vars(delta).items():
        require_size(settings, "max_state_mb", f"The {scope}'s state", text)


def refuse_large(exc: ConstraintViolated, settings: Settings) -> None:
    """Says so if a row was refused because its state had grown too large.

    Raises:
      InvalidInput: A merged state is larger than ``max_state_mb``, or what one user wrote of the
        app's is larger than ``max_app_state_per_user_kb``; nothing was written.
    """
    scope = _STATES.get(exc.constraint)
    if exc.constraint == _WRITERS:
        raise InvalidInput(
            "With this delta one user has written more of the app's state, which all its users "
            f"read, than ADKPG_MAX_APP_STATE_PER_USER_KB={settings.max_app_state_per_user_kb} "
            "allows; empty some of the keys, raise that setting, or let the app itself write them "
            "by update_state without a user."
        ) from exc
    if scope is not None:
        raise InvalidInput(
            f"With this delta the {scope}'s state has more bytes, as Postgres stores it, than the "
            f"{bytes_of(settings, 'max_state_mb'):,} that ADKPG_MAX_STATE_MB="
            f"{settings.max_state_mb} allows; empty some of its keys, or raise that setting."
        ) from exc


def merge(session: str | None, app: str | None, user: str | None) -> dict[str, Any]:
    """Returns one state from the stored scopes, with ADK's prefixes; the inverse of `split`."""
    merged = read_state(session)
    for prefix, scope in ((State.APP_PREFIX, app), (State.USER_PREFIX, user)):
        for key, value in read_state(scope).items():
            merged[prefix + key] = value
    return merged
