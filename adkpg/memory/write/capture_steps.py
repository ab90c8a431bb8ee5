"""The steps of an append that write its event's memory. No I/O."""

from typing import Any, TypedDict

from sqlalchemy import CTE, BigInteger, ColumnElement, bindparam, exists, func, select, true

from adkpg.memory.write.statements import given_memories, written
from adkpg.tables import memory_tombstones, sessions


class CaptureParameters(TypedDict, total=False):
    """What an append takes of the memory that it writes; nothing if the event is not remembered."""

    place: int
    memories: str
    config: str


def following_place() -> ColumnElement[int]:
    """What the append makes of ``sessions.memory_position``: the place after its memory's."""
    first = bindparam("place", type_=BigInteger)
    return func.coalesce(sessions.c.memory_position, first) + 1


def steps(moved: CTE) -> tuple[CTE, ...]:
    """The steps that write the memory, to be added to the append's statement.

    None of them writes anything if a memory of the event was deleted: a session that was deleted
    and created again may have the same events.

    Args:
      moved: The session row that the append moved on, with its `memory_position`.
    """
    given = given_memories()
    buried = exists(
        select(memory_tombstones.c.event_id).where(
            memory_tombstones.c.app_name == moved.c.app_name,
            memory_tombstones.c.user_id == moved.c.user_id,
            memory_tombstones.c.session_id == moved.c.session_id,
            memory_tombstones.c.event_id == given.c.event_id,
        )
    )
    rows: Any = (
        select(
            moved.c.app_name,
            moved.c.user_id,
            (moved.c.memory_position - 1).label("position"),
            *(each for each in given.c if each.key != "position"),
        )
        .select_from(moved.join(given, true()))
        .where(~buried)
    )
    return written(rows)
