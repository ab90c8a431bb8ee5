"""Pickles: the actions of old events, read by an unpickler that builds nothing but data.

It is ADK's own, which resolves the types that `EventActions` can hold and refuses all others, so a
database that a stranger wrote runs no code here.
"""

from google.adk.events.event_actions import EventActions
from google.adk.sessions import _restricted_pickle

from adkpg.errors import InvalidInput


def read_actions(data: bytes) -> EventActions:
    """Returns the actions that a pickle holds.

    Raises:
      InvalidInput: It names other types than actions hold, or is damaged.
    """
    try:
        found = _restricted_pickle.loads(data)
        fields = found if isinstance(found, dict) else found.model_dump(exclude_unset=True)
        return EventActions.model_validate(fields)
    except Exception as exc:  # a pickle that somebody made may raise anything
        reason = str(exc).partition(": it is not a type")[0].partition("\n")[0]
        raise InvalidInput(
            f"its pickled actions were refused ({type(exc).__name__}: {reason[:200]})"
        ) from exc
