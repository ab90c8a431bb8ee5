"""Replacing: what adding a document again changes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


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


@dataclass(frozen=True)
class Change:
    """What to do, in this order.

    Attributes:
      kept: For each new piece the stored one of the same text; None for those to write.
      positions: Where each new piece goes: consecutive, so that neighbours are.
      delete: Positions of stored pieces to drop.
      move: From and to position of stored pieces that go elsewhere.
    """

    kept: list[Piece | None]
    positions: list[int]
    delete: list[int]
    move: list[tuple[int, int]]


def change(stored: Sequence[Piece], contents: Sequence[str], block: int) -> Change:
    """Plans how a document's stored pieces become the given ones.

    Pieces of the same text are the same, in their order if there are several. They stay where they
    are if the new ones fit around them; else the document is dealt anew, and they move.

    Args:
      stored: By position.
      contents: What is to be stored, in the document's order.
      block: Where to go if the places do not fit.
    """
    same: dict[str, list[Piece]] = {}
    for piece in reversed(stored):
        same.setdefault(piece.content, []).append(piece)
    kept = [same[content].pop() if same.get(content) else None for content in contents]
    starts = {piece.position - place for place, piece in enumerate(kept) if piece is not None}
    start = starts.pop() if len(starts) == 1 else block
    positions = [start + place for place in range(len(contents))]
    staying = {piece.memory_id for piece in kept if piece is not None}
    return Change(
        kept=kept,
        positions=positions,
        delete=[piece.position for piece in stored if piece.memory_id not in staying],
        move=[
            (piece.position, position)
            for piece, position in zip(kept, positions, strict=True)
            if piece is not None and piece.position != position
        ],
    )
