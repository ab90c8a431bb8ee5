"""Replacing: what adding a document again changes. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from adkpg.memory.drafts import Draft
from adkpg.memory.write.plan import Plan


@dataclass(frozen=True)
class Piece:
    """A piece of a document that is stored already.

    Attributes:
      memory_id: Its id.
      position: Its place.
      timestamp: When it was first added with this text.
      content: ``types.Content`` as JSON text.
      digest: Hash of what was given.
    """

    memory_id: str
    position: int
    timestamp: datetime
    content: str
    digest: str


def change(
    stored: Sequence[Piece],
    texts: Sequence[str],
    draft: Callable[[str, datetime | None], Draft],
    start: int,
) -> Plan:
    """Plans how a document's stored pieces become the given ones.

    Pieces of the same text are the same, in their order if there are several: they keep their ids,
    vectors and times. They stay where they are if the new ones fit around them; else the document
    goes to another place, and they move.

    Args:
      stored: By position.
      texts: What is to be stored, in the document's order.
      draft: Makes a piece of a text and its time, None for the document's.
      start: Where to go if the places do not fit.
    """
    drafts = [draft(text, None) for text in texts]
    same: dict[str, list[Piece]] = {}
    for piece in reversed(stored):
        same.setdefault(piece.content, []).append(piece)
    kept = [same[each.content].pop() if same.get(each.content) else None for each in drafts]
    starts = {piece.position - place for place, piece in enumerate(kept) if piece is not None}
    start = starts.pop() if len(starts) == 1 else start
    staying = {piece.memory_id for piece in kept if piece is not None}
    plan = Plan(delete=[piece.position for piece in stored if piece.memory_id not in staying])
    for position, (text, new, old) in enumerate(zip(texts, drafts, kept, strict=True), start):
        if old is None:
            plan.insert.append((position, new))
            continue
        if old.position != position:
            plan.move.append((old.position, position))
        if (again := draft(text, old.timestamp)).digest != old.digest:
            plan.alter.append((position, again))
    return plan
