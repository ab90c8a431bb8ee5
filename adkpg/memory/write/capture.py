"""Capture: what an append takes of the memory that it writes with its event.

The memory can then not be lost between two statements, and nothing is remembered of an event that
was refused.
"""

from typing import TypedDict

from google.adk.events.event import Event

from adkpg.keys import SessionKey, require_memorable
from adkpg.memory.drafts import as_json, drafts_of_events, require_small
from adkpg.memory.write.plan import new_place
from adkpg.remember.policy import RememberPolicy
from adkpg.settings import Settings


class CaptureParameters(TypedDict, total=False):
    """What an append takes of the memory that it writes; nothing if the event is not remembered."""

    place: int
    memories: str
    config: str


def parameters(
    policy: RememberPolicy, event: Event, place: SessionKey, settings: Settings
) -> CaptureParameters | None:
    """Returns what the append takes of a memory; None if the event is not remembered.

    Args:
      policy: Which events are remembered, and with which text.
      event: The event.
      place: Where it was said.
      settings: With the text search configuration where neither the app nor the script has one,
        and with the limit of a memory.

    Raises:
      InvalidInput: An id cannot be stored, or the memory is too large.
    """
    drafts = drafts_of_events([event], place["session_id"], policy=policy)
    if not drafts:
        return None
    require_memorable(place["app_name"], place["user_id"])
    for draft in drafts:
        require_small(draft, settings)
    return {
        "place": new_place(place["user_id"]),
        "memories": as_json([(0, draft) for draft in drafts]),
        "config": settings.text_search_config,
    }
