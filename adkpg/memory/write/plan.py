"""Ingestion: what writing a session's memories changes. Pure."""

import secrets
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from adkpg.keys import APP_WIDE
from adkpg.memory.drafts import Draft

_BLOCK_BITS = 20
_BLOCKS = 1 << 42


@dataclass(frozen=True)
class Stored:
    """A memory that the session has already.

    Attributes:
      event_id: The event it came from.
      position: Its place.
      memory_id: Its id, kept when it is written again.
      digest: Hash of what was given.
      in_session: Whether the event is still among the stored session's events.
    """

    event_id: str
    position: int
    memory_id: str
    digest: str
    in_session: bool


@dataclass(frozen=True)
class Plan:
    """The changes to make, in this order; all empty if nothing changes.

    Attributes:
      delete: Positions of memories to drop, the replaced ones included.
      move: From and to position of memories that others were put before.
      insert: Position and draft of memories to write.
    """

    delete: list[int]
    move: list[tuple[int, int]]
    insert: list[tuple[int, Draft]]


def new_block(user_id: str) -> int:
    """Returns the first position of a block of about a million, at random among 2**42.

    Blocks keep sessions apart: only turns of one session are neighbours. Those of the app-wide
    scope are negative, those of users are not, so a search of both is told which is which.
    """
    block = secrets.randbelow(_BLOCKS)
    return (-1 - block if user_id == APP_WIDE else block) << _BLOCK_BITS


def next_position(stored: Sequence[Stored], plan: Plan) -> int | None:
    """Returns the place behind a session's memories once a plan is done; None without any."""
    gone = {*plan.delete, *(origin for origin, _ in plan.move)}
    places = {row.position for row in stored} - gone
    places |= {target for _, target in plan.move} | {position for position, _ in plan.insert}
    return max(places) + 1 if places else None


def replacement(
    stored: Sequence[Stored], drafts: Sequence[Draft], deleted: AbstractSet[str], block: int
) -> Plan:
    """Plans `add_session_to_memory`: the session's memories become the given ones.

    The last version of an event wins. A stored memory whose event was not given stays, in its
    place among the others, if the event is still in the stored session (the caller had a window
    of it, or read it before others wrote); else it goes. Deleted memories do not come back.

    Args:
      stored: The session's memories, by position.
      drafts: The given ones, in the session's order.
      deleted: Event ids with a tombstone.
      block: Where to write if positions must be dealt anew.
    """
    given = {draft.event_id for draft in drafts}
    wanted = {str(draft.event_id): draft for draft in drafts if draft.event_id not in deleted}
    kept = [
        row.event_id
        for row in stored
        if row.in_session and row.event_id not in given and row.event_id not in deleted
    ]
    order = _merged(stored, list(wanted), set(kept))
    gone = [row.position for row in stored if row.event_id not in wanted.keys() | set(kept)]
    return _plan(order, {row.event_id: row for row in stored}, wanted, gone, block)


def addition(
    stored: Sequence[Stored], drafts: Sequence[Draft], deleted: AbstractSet[str], block: int
) -> Plan:
    """Plans `add_events_to_memory`: new events go behind, known ones stay as they are.

    The first version of an event wins, among the given ones too.
    """
    left_out = deleted | {row.event_id for row in stored}
    new: dict[str | None, Draft] = {}
    for draft in drafts:
        if draft.event_id not in left_out:
            new.setdefault(draft.event_id, draft)
    last = max((row.position for row in stored), default=block - 1)
    return Plan([], [], [(last + 1 + place, draft) for place, draft in enumerate(new.values())])


def _merged(stored: Sequence[Stored], wanted: list[str], kept: AbstractSet[str]) -> list[str]:
    """Returns the given events in their order, and what is kept behind what it followed."""
    followers: dict[str | None, list[str]] = {}
    given = set(wanted)
    last = None
    for row in stored:
        if row.event_id in given:
            last = row.event_id
        elif row.event_id in kept:
            followers.setdefault(last, []).append(row.event_id)
    order = followers.get(None, [])
    for event_id in wanted:
        order += [event_id, *followers.get(event_id, [])]
    return order


def _plan(
    order: Sequence[str],
    known: Mapping[str, Stored],
    wanted: Mapping[str, Draft],
    gone: Sequence[int],
    block: int,
) -> Plan:
    positions = _positions(order, known, block)
    delete = list(gone)
    move: list[tuple[int, int]] = []
    insert: list[tuple[int, Draft]] = []
    for event_id in order:
        row, draft, position = known.get(event_id), wanted.get(event_id), positions[event_id]
        if row is None:
            assert draft is not None
            insert.append((position, draft))
        elif draft is not None and draft.digest != row.digest:
            delete.append(row.position)
            insert.append((position, replace(draft, memory_id=row.memory_id)))
        elif position != row.position:
            move.append((row.position, position))
    return Plan(delete, move, insert)


def _positions(order: Sequence[str], known: Mapping[str, Stored], block: int) -> dict[str, int]:
    """Returns where each event goes: where it is, new ones behind; else all into a new block."""
    places = [known[event_id].position for event_id in order if event_id in known]
    known_first = all(event_id in known for event_id in order[: len(places)])
    if places and known_first and places == sorted(places):
        places += [places[-1] + 1 + step for step in range(len(order) - len(places))]
        return dict(zip(order, places, strict=True))
    return {event_id: block + place for place, event_id in enumerate(order)}
