"""Pages of memories."""

from dataclasses import dataclass

from adkpg.memory.records import Memory


@dataclass(frozen=True)
class MemoriesPage:
    """Some memories, newest first.

    Attributes:
      memories: At most `limit` of them.
      next_cursor: Give it as `cursor` to get the following page; None at the end.
    """

    memories: list[Memory]
    next_cursor: str | None
