"""Plans: what writing memories changes. Pure."""

import secrets
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from adkpg.keys import APP_WIDE
from adkpg.memory.drafts import Draft

_PLACES = 1 << 62


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
      delete: Positions of memories to drop.
      move: From and to position of memories, by their places so far.
      rewrite: Position and draft of memories that get another text; their attributes stay.
      alter: Position and draft of memories that get other attributes; their texts stay.
      insert: Position and draft of memories to write.
    """

    delete: list[int] = field(default_factory=list)
    move: list[tuple[int, int]] = field(default_factory=list)
    rewrite: list[tuple[int, Draft]] = field(default_factory=list)
    alter: list[tuple[int, Draft]] = field(default_factory=list)
    insert: list[tuple[int, Draft]] = field(default_factory=list)


def new_place(user_id: str) -> int:
    """Returns a place at random among 2**62, where nothing else is.

    The memories that are written after it are its neighbours. So sessions and documents, whose
    memories follow each other, stay apart, and notes stand alone. Places of the app-wide scope are
    negative, those of users are not, so a search of both is told which is which.
    """
    place = secrets.randbelow(_PLACES)
    return -1 - place if user_id == APP_WIDE else place


def next_position(stored: Sequence[Stored], plan: Plan) -> int | None:
    """Returns the place after a session's memories once a plan is done; None without any."""
    gone = {*plan.delete, *(origin for origin, _ in plan.move)}
    places = {row.position for row in stored} - gone
    places |= {target for _, target in plan.move} | {position for position, _ in plan.insert}
    return max(places) + 1 if places else None


def replacement(
    stored: Sequence[Stored], drafts: Sequence[Draft], deleted: AbstractSet[str], block: int
) -> Plan:
    """Plans `add_session_to_memory`: the session's memories become the given ones.

    The last version of an event wins. A stored memory whose event was not given stays, in its place
    among the others, if the event is still in the stored session. (The caller had a window of it,
    or read it before others wrote.) Else it is deleted. Deleted memories do not come back.

    Args:
      stored: The session's memories, by position.
      drafts: The given ones, in the session's order.
      deleted: Event ids with a tombstone.
      block: Where to write if they must be dealt new places.
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


def addition(drafts: Sequence[Draft], known: AbstractSet[str], start: int) -> Plan:
    """Plans `add_events_to_memory`: new events go after, known ones stay as they are.

    The first version of an event wins, among the given ones too.

    Args:
      drafts: The given ones, in their order.
      known: Event ids that are in memory, or have a tombstone.
      start: The first free place.
    """
    new: dict[str | None, Draft] = {}
    for draft in drafts:
        if draft.event_id not in known:
            new.setdefault(draft.event_id, draft)
    return Plan(insert=list(enumerate(new.values(), start)))


def _merged(stored: Sequence[Stored], wanted: list[str], kept: AbstractSet[str]) -> list[str]:
    """Returns the given events in their order, and what is kept after what it followed."""
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
    plan = Plan(delete=list(gone))
    for event_id in order:
        row, draft, position = known.get(event_id), wanted.get(event_id), positions[event_id]
        if row is None:
            assert draft is not None
            plan.insert.append((position, draft))
            continue
        if position != row.position:
            plan.move.append((row.position, position))
        if draft is not None and draft.digest != row.digest:
            plan.rewrite.append((position, replace(draft, memory_id=row.memory_id)))
    return plan


def _positions(order: Sequence[str], known: Mapping[str, Stored], block: int) -> dict[str, int]:
    """Returns where each event goes: where it is, new ones after; else all into new places."""
    places = [known[event_id].position for event_id in order if event_id in known]
    known_first = all(event_id in known for event_id in order[: len(places)])
    if places and known_first and places == sorted(places):
        places += [places[-1] + 1 + step for step in range(len(order) - len(places))]
        return dict(zip(order, places, strict=True))
    return {event_id: block + place for place, event_id in enumerate(order)}
