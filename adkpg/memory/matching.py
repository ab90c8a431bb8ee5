"""Matching: whether a memory meets `SearchFilters`, as the statements ask it. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from adkpg import jsonb
from adkpg.memory.drafts import Draft


def meets(memory: Draft, asked: Mapping[str, Any]) -> bool:
    """Returns whether a memory meets all conditions.

    Args:
      memory: As it is stored.
      asked: The conditions, as `SearchFilters.parameters` gives them.
    """
    return all(_meets(memory, name, value) for name, value in asked.items())


def contains(value: Any, asked: Any) -> bool:
    """Returns whether plain JSON contains other plain JSON, as jsonb's ``@>`` has it.

    An object contains one with some of its members, a list one with some of its items, in any
    order; anything else only its equal.
    """
    if isinstance(asked, dict):
        return isinstance(value, dict) and all(
            key in value and contains(value[key], item) for key, item in asked.items()
        )
    if isinstance(asked, list):
        return isinstance(value, list) and all(
            any(contains(each, item) for each in value) for item in asked
        )
    if isinstance(value, bool) or isinstance(asked, bool):
        return value is asked
    return bool(value == asked)


def _meets(memory: Draft, name: str, value: Any) -> bool:
    match name:
        case "after":
            return bool(memory.timestamp >= value)
        case "before":
            return bool(memory.timestamp < value)
        case "authors":
            return memory.author in value
        case "session_ids":
            return memory.session_id in value
        case "kinds":
            return memory.kind in value
        case "topics":
            return not set(json.loads(memory.topics)).isdisjoint(value)
        case "metadata":
            return contains(jsonb.read(memory.custom_metadata or "null"), jsonb.read(value))
        case _:
            raise ValueError(name)
