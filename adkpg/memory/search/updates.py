"""Updates: of two hits that contradict each other, the newer one comes first. Pure.

Facts say so, where they are drawn: what a superseded fact came from stands below the fact that
replaced it, and below what that one came from. Else words tell it. Two turns of one author speak of
the same thing if they have most of their words in common, those of the question among them. If the
score hardly tells them apart, time does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from adkpg.memory.search.passage import telling_words
from adkpg.memory.search.ranking import RANKING, Ranking

Drawn = Mapping[str, Sequence[tuple[str, str | None]]]
"""By a memory's id, the facts drawn from it, each with the fact that superseded it, if one did."""

_LOOKED_AT = 2_000  # characters of a text
_LEAST_COMMON = 2  # words


class Compared(NamedTuple):
    """What is compared of a hit.

    Attributes:
      ids: Its memory's, and those of its near-duplicates.
      kind: As in `records.Memory`.
      author: Who said it.
      session_id: Where; none or empty if it came from no session.
      timestamp: When.
      superseded_by: Id of the fact that replaced it.
      score: What orders the hits.
      tells: Whether it tells something: a turn that asks, or says that it was noted, is no news.
      said: Reads what it says; of a long memory, the passage that matched.
    """

    ids: tuple[str, ...]
    kind: str
    author: str | None
    session_id: str | None
    timestamp: datetime
    superseded_by: str | None
    score: float
    tells: bool
    said: Callable[[], str]


def newest_first(
    found: Sequence[Compared],
    question: str | None,
    drawn: Drawn,
    ranking: Ranking = RANKING,
) -> list[tuple[int, float]]:
    """Returns the order in which each hit that replaces another stands before it.

    Others keep their order. One that is put before another has that one's score.

    Args:
      found: The best first.
      question: What was asked; None if nothing was, so that words tell nothing.
      drawn: The facts of these memories.
      ranking: The constants.

    Returns:
      Each hit's place among those that were found, and its score.
    """
    heirs = {fact: heir for facts in drawn.values() for fact, heir in facts if heir}
    facts = [_facts(each, drawn) for each in found]
    outdated = [frozenset(_heirs(own, heirs)) for own in facts]
    words = _Words(found, question, ranking)
    order: list[int] = []
    scores = [each.score for each in found]
    for later in range(len(found)):
        place = len(order)
        for rank, earlier in enumerate(order):
            if _told(found, facts, outdated, earlier, later, ranking) or words.tell(earlier, later):
                place = rank
                scores[later] = max(scores[later], scores[earlier])
                break
        order.insert(place, later)
    return [(n, scores[n]) for n in order]


def _facts(one: Compared, drawn: Drawn) -> Sequence[tuple[str, str | None]]:
    """The facts drawn from a hit, or what it is itself."""
    own = [each for id in one.ids for each in drawn.get(id, ())]
    if one.kind == "fact":
        own.append((one.ids[0], one.superseded_by))
    return own


def _heirs(facts: Sequence[tuple[str, str | None]], heirs: Mapping[str, str]) -> Iterator[str]:
    """The facts that replaced some, and those that replaced these."""
    seen: set[str] = set()
    for _, heir in facts:
        following = heir
        while following is not None and following not in seen:
            seen.add(following)
            yield following
            following = heirs.get(following)


def _told(
    found: Sequence[Compared],
    facts: Sequence[Sequence[tuple[str, str | None]]],
    outdated: Sequence[frozenset[str]],
    earlier: int,
    later: int,
    ranking: Ranking,
) -> bool:
    """Whether facts say that a hit replaces one that stands before it.

    Not if it says much less of what is asked: one turn may have facts of several things.
    """
    if not outdated[earlier] or found[later].score < ranking.superseded * found[earlier].score:
        return False
    return any(fact in outdated[earlier] for fact, _ in facts[later]) and not any(
        fact in outdated[later] for fact, _ in facts[earlier]
    )


class _Words:
    """Tells by words whether a hit replaces another; those of a hit are read when asked for."""

    def __init__(self, found: Sequence[Compared], question: str | None, ranking: Ranking) -> None:
        self._found = found
        self._ranking = ranking
        self._read: dict[int, frozenset[str]] = {}
        self._asked = frozenset() if question is None else _words(question)

    def tell(self, earlier: int, later: int) -> bool:
        """Whether the later one says anew what the earlier one said."""
        if later >= self._ranking.updates_among or not self._asked:
            return False
        old, new = self._found[earlier], self._found[later]
        if (
            not new.tells
            or new.score < self._ranking.updated * old.score
            or old.author != new.author
            or old.kind != new.kind
            # Within one conversation a turn completes another more often than it corrects it.
            or (old.kind == "turn" and old.session_id == new.session_id)
            or old.timestamp >= new.timestamp
        ):
            return False
        one, other = self._of(earlier), self._of(later)
        common = one & other
        if len(common) < _LEAST_COMMON:
            return False
        return len(common) >= self._ranking.alike * min(len(one), len(other)) and len(
            self._asked & common
        ) >= max(1, self._ranking.same_question * len(self._asked & (one | other)))

    def _of(self, number: int) -> frozenset[str]:
        if number not in self._read:
            self._read[number] = _words(self._found[number].said())
        return self._read[number]


def _words(text: str) -> frozenset[str]:
    return frozenset(telling_words(text[:_LOOKED_AT]))
