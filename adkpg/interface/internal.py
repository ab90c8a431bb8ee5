"""What adkpg's own modules call of a public class, and no user can rely on."""

from typing import Any, TypeVar

FunctionT = TypeVar("FunctionT")

_MARK = "__adkpg_internal__"


def internal(function: FunctionT) -> FunctionT:
    """Marks a method: neither the reference nor the committed interface has it.

    It has no underscore, since other modules of adkpg call it.
    """
    setattr(function, _MARK, True)
    return function


def is_internal(member: Any) -> bool:
    """Whether a method, a property, or what a descriptor wraps, is marked."""
    if isinstance(member, property):
        member = member.fget
    return hasattr(getattr(member, "__func__", member), _MARK)
