"""Owner: whose a task is, and of which app, as ADK's session of the same request is. Pure."""

from collections.abc import Callable

from a2a.server.context import ServerCallContext

from adkpg.errors import ConfigurationError
from adkpg.sessions.doors import app_of, door_here

OwnerResolver = Callable[[ServerCallContext], str]
"""Returns the user that a request is for; ``""`` if that has no name."""


def authenticated(context: ServerCallContext) -> str:
    """Returns the user's name, if the server has authenticated the user; else ``""``.

    ADK's own rule (``google.adk.a2a.converters.request_converter``): a name that no server has
    checked is none.
    """
    return context.user.user_name if context.user.is_authenticated else ""


def anonymous(context_id: str) -> str:
    """Returns the user that ADK makes of a context whose caller has no name."""
    return f"A2A_USER_{context_id}"


def app_here() -> str:
    """Returns the app that this request is for.

    Raises:
      ConfigurationError: Nothing tells it.
    """
    door = door_here()
    app_name = None if door is None else app_of(door.path)
    if app_name is None:
        raise ConfigurationError(
            "Nothing tells the app of a task: give ADK's app lifespan=adkpg.a2a.lifespan or the "
            "middleware adkpg.adk.QueuedRuns, or name the app, as DatabaseTaskStore(app_name=...) "
            "or adkpg://...?app_name=..."
        )
    return app_name
