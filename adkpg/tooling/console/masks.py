"""Masks: events and states as ADK's API server shows them, without credentials. Pure."""

from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions

from adkpg.errors import ConfigurationError

try:
    from google.adk.auth.auth_credential import _redact_credential_secrets
    from google.adk.events._internal_metadata import public_event
except ImportError:  # private names of ADK's: without them nothing is shown, rather than secrets
    _redact_credential_secrets = None  # type: ignore[assignment] # said by `require`
    public_event = None  # type: ignore[assignment] # likewise


def require() -> None:
    """Refuses to show anything that could not be masked.

    Raises:
      ConfigurationError: ADK no longer has what its own server masks with.
    """
    if _redact_credential_secrets is None or public_event is None:
        raise ConfigurationError(
            "This release of google-adk hides how its server masks credentials, so the console "
            "shows nothing; install one that adkpg was tested with."
        )


def masked_state(state: Any) -> Any:
    """Returns state as ADK's server answers it: what a credential keeps secret is left out."""
    return _redact_credential_secrets(state)


def masked_event(event: Event) -> dict[str, Any]:
    """Returns an event as JSON values in ADK's spelling, without credentials.

    Keys are in camel case, as ADK's server has them, except those that authors chose.
    """
    public = public_event(event)
    try:
        values = public.model_dump(exclude_none=True, by_alias=True, mode="json")
    except (ValueError, TypeError):  # what no JSON has, in a delta that an app has made itself
        bare = public.model_copy(update={"actions": EventActions()})
        values = bare.model_dump(exclude_none=True, by_alias=True, mode="json")
    shown: dict[str, Any] = _redact_credential_secrets(values)
    return shown
