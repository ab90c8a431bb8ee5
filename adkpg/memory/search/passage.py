"""Which passage of a long memory answers a question. Pure."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from adkpg.memory.search.ranking import RANKING
from adkpg.memory.tokenizer import searchable
from adkpg.memory.vectors.passages import PASSAGE_TOKENS, passages

# As `searchable` leaves them: beyond ASCII there are letters, marks and numerals only.
_WORD = re.compile("[0-9A-Za-z_\u0080-\U0010ffff]+")
_STEM = 5  # of English words, so many letters tell enough: allergy, allergies
# In a few passages even these look rare.
_COMMON = re.compile(
    "about|an?|and|are|at|be|been|can|could|d(?:id|oes|o)|for|from|ha[dsv]e?|how|i[nst]?|me|my|o[fnr]|"
    "should|that|the|this|to|user|was|were|wh(?:at|en|ere|ich|o|om|ose|y)|with|would|your?"
)


class Part(NamedTuple):
    """A passage as a search knows it.

    Attributes:
      start: Where it begins in the memory's text, in characters.
      end: Where it ends.
      cosine: With the question; None if words alone were searched.
    """

    start: int
    end: int
    cosine: float | None


def best_part(text: str, parts: Sequence[Part], question: str) -> Part | None:
    """Returns the passage that matches a question best, by words and by vector as memories do.

    Args:
      text: The memory's.
      parts: Its passages, in any order; none are made here, of a text that is long.
      question: What was asked.

    Returns:
      None for a text that is no longer than a passage, or that has ended before all of them.
    """
    if not parts:
        parts = [Part(start, end, None) for start, end, _ in passages(None, text, PASSAGE_TOKENS)]
    parts = sorted(part for part in parts if part.start < len(text))
    if not parts:
        return None
    asked = _words(question)
    said = [asked & _words(text[part.start : part.end]) for part in parts]
    holders = Counter(word for words in said for word in words)
    weights = {word: math.log(1 + len(parts) / count) for word, count in holders.items()}
    all_words = sum(weights.values()) or 1.0
    cosines = [part.cosine for part in parts if part.cosine is not None]
    low, high = min(cosines, default=0.0), max(cosines, default=0.0)
    spread = high - low or 1.0

    def score(place: int) -> float:
        cosine = parts[place].cosine
        meaning = 0.0 if cosine is None else (cosine - low) / spread
        return sum(map(weights.__getitem__, said[place])) / all_words + RANKING.vector * meaning

    return parts[max(range(len(parts)), key=lambda place: (score(place), -place))]


def _words(text: str) -> set[str]:
    if not text.isascii():
        text = searchable(text)
    words = _WORD.findall(text.casefold())
    return {
        word[:_STEM] if word.isalpha() else word for word in words if not _COMMON.fullmatch(word)
    }
