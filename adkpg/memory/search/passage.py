"""Which passage of a long memory answers a question. Pure."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from adkpg.memory.tokenizer import searchable
from adkpg.memory.vectors.passages import PASSAGE_TOKENS, passages

# As `searchable` leaves them: beyond ASCII there are letters, marks and numerals only.
_WORD = re.compile("[0-9A-Za-z_\u0080-\U0010ffff]+")
_BLOCK = 8_000  # characters of a text that is split at once
_LOOKED_AT = 2_000  # characters of a question
_FEW = 32  # words
_MEANING = 0.75  # weight of the cosine, scaled over the passages, against all of the words
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
        parts = _made(text, question)
    parts = sorted(part for part in parts if part.start < len(text))
    if not parts:
        return None
    asked = telling_words(question[:_LOOKED_AT])
    said = _said(asked, text, parts)
    holders = Counter(word for words in said for word in words)
    weights = {word: math.log(1 + len(parts) / count) for word, count in holders.items()}
    all_words = sum(weights.values()) or 1.0
    cosines = [part.cosine for part in parts if part.cosine is not None]
    low, high = min(cosines, default=0.0), max(cosines, default=0.0)
    spread = high - low or 1.0

    def score(place: int) -> float:
        cosine = parts[place].cosine
        meaning = 0.0 if cosine is None else (cosine - low) / spread
        return sum(map(weights.__getitem__, said[place])) / all_words + _MEANING * meaning

    return parts[max(range(len(parts)), key=lambda place: (score(place), -place))]


def _made(text: str, question: str) -> list[Part]:
    """The passages of a text without vectors; of a huge one, those where the words are."""
    first, end = 0, len(text)
    if end > 2 * _BLOCK:
        blocks = [Part(start, min(start + _BLOCK, end), None) for start in range(0, end, _BLOCK)]
        best = best_part(text, blocks, question) or blocks[0]
        first, end = best.start, best.end
    found = passages(None, text[first:end], PASSAGE_TOKENS)
    return [Part(first + start, first + stop, None) for start, stop, _ in found]


def _said(asked: set[str], text: str, parts: Sequence[Part]) -> list[set[str]]:
    """The words of the question that each passage has."""
    if len(asked) > _FEW or not text.isascii():
        return [asked & telling_words(text[part.start : part.end]) for part in parts]
    # Searching for a few words is much quicker than taking the text apart.
    text = text.lower()
    return [{word for word in asked if _has(text, word, part)} for part in parts]


def _has(text: str, word: str, part: Part) -> bool:
    """Whether a word begins in a passage."""
    last = part.end + len(word) - 1
    cut = len(word) == _STEM and word.isalpha()
    place = text.find(word, part.start, last)
    while place >= 0:
        end = place + len(word)
        begins = place == 0 or not _is_part(text[place - 1])
        if begins and (cut or end == len(text) or not _is_part(text[end])):
            return True
        place = text.find(word, end, last)
    return False


def _is_part(char: str) -> bool:
    return char.isalnum() or char == "_"


def telling_words(text: str) -> set[str]:
    """Returns the words of a text that tell something, cut to the letters that endings leave."""
    if not text.isascii():
        text = searchable(text)
    words = _WORD.findall(text.casefold())
    return {
        word[:_STEM] if word.isalpha() else word for word in words if not _COMMON.fullmatch(word)
    }
