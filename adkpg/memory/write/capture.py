"""Capture: what an append takes of the memory that it writes with its event.

The memory can then not be lost between two statements, and nothing is remembered of an event that
was refused.
"""

from google.adk.events.event import Event

from adkpg.memory.drafts import as_json, drafts_of_events
from adkpg.memory.write.capture_steps import CaptureParameters
from adkpg.memory.write.plan import new_place
from adkpg.remember.policy import RememberPolicy


def parameters(
    policy: RememberPolicy, event: Event, user_id: str, session_id: str, config: str
) -> CaptureParameters | None:
    """Returns what the append's statement takes of a memory; None if the event is not remembered.

    Args:
      policy: Which events are remembered, and with which text.
      event: The event.
      user_id: Whose it is.
      session_id: Where it was said.
      config: Text search configuration where neither the app nor the script has one.

    Raises:
      InvalidInput: An id cannot be stored.
    """
    drafts = drafts_of_events([event], session_id, policy=policy)
    if not drafts:
        return None
    return {
        "place": new_place(user_id),
        "memories": as_json([(0, draft) for draft in drafts]),
        "config": config,
    }
