"""MemoryProfile: what is known of a user, in the shape ADK's tool for profiles reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adkpg.memory.records import Memory, text_of


@dataclass(frozen=True)
class MemoryProfile:
    """The profile of a user, with the names of Vertex's ``MemoryProfile``.

    Attributes:
      schema_id: Always ``facts``.
      scope: ``app_name`` and ``user_id``.
      profile: JSON: ``{"facts": [{"fact", "topics", "importance", "timestamp"}]}``, the most
        important and then the latest first.
    """

    schema_id: str
    scope: Mapping[str, str]
    profile: dict[str, Any]


def profile_of(facts: Sequence[Memory], *, app_name: str, user_id: str) -> MemoryProfile:
    """Returns the profile that some facts make."""
    listed = [
        {
            "fact": text_of(fact.content),
            "topics": fact.topics,
            "importance": fact.importance,
            "timestamp": fact.timestamp,
        }
        for fact in facts
    ]
    return MemoryProfile("facts", {"app_name": app_name, "user_id": user_id}, {"facts": listed})
