"""Near-duplicates: which of some texts say the same. Pure."""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from adkpg.memory import records
from adkpg.memory.tokenizer import searchable

DUPLICATE_SHARE = 0.9
"""Share of common pairs of words (Jaccard) from which two texts are near-duplicates."""

# As `searchable` leaves them: beyond ASCII there are letters, marks and numerals only.
_WORD = re.compile("[0-9A-Za-z_\u0080-\U0010ffff]+")
_DIGITS = re.compile("[0-9]+")


class Said(NamedTuple):
    """What is compared.

    Attributes:
      author: Who said it.
      artifacts: The names of its artifacts.
      text: As `compared` makes it.
    """

    author: str | None
    artifacts: frozenset[str]
    text: str


def compared(text: str) -> str:
    """Returns of a text what is compared: without case, and beyond ASCII in words."""
    text = text[: records.BODY_LIMIT].strip().casefold()
    return text if text.isascii() else searchable(text).casefold()


def groups(said: Sequence[Said]) -> list[list[int]]:
    """Puts those together that say the same.

    Two are near-duplicates if one author said both, they share `DUPLICATE_SHARE` of their
    pairs of neighbouring words (one word more in nine, or another one in thirty-eight; case and
    punctuation do not count), all words with digits, and the names of their artifacts. So orders
    9981 and 9982 are not alike, nor are what Ana owes Bob and what Bob owes Ana.

    Returns:
      The places of each group, ascending, beginning with the one that the others are like; groups
      by this place.
    """
    texts = [each.text for each in said]
    digits = [frozenset(_DIGITS.findall(text)) for text in texts]
    # What near-duplicates have equal tells most apart, for less than their words would take.
    equal = _split(
        range(len(said)), lambda place: (said[place].author, said[place].artifacts, digits[place])
    )
    found: dict[int, list[int]] = {}
    for places in equal:
        for some in _split(places, lambda place: digits[place] and _numbers(texts[place])):
            for place, leader in zip(some, _leaders([texts[each] for each in some]), strict=True):
                found.setdefault(some[leader], []).append(place)
    return [found[place] for place in sorted(found)]


def _split(places: Sequence[int], key: Callable[[int], Hashable]) -> Collection[Sequence[int]]:
    """Puts those together that have the same key, in their order."""
    if len(places) < 2:
        return [places]
    parts: dict[Hashable, list[int]] = {}
    for place in places:
        parts.setdefault(key(place), []).append(place)
    return parts.values()


def _numbers(text: str) -> frozenset[str]:
    return frozenset(
        word for word in _words(text) if not word.isalpha() and _DIGITS.search(word) is not None
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(text) or [text]


def _leaders(texts: Sequence[str]) -> list[int]:
    """The place of the text that each is folded into: the first that is alike and leads itself."""
    leaders = list(range(len(texts)))
    if len(texts) < 2:
        return leaders
    words = [_words(text) for text in texts]
    pairs: dict[int, frozenset[tuple[str, str]]] = {}
    holders: dict[int, list[int]] = {}
    for place in _suspects(words):
        own = pairs[place] = frozenset(pairwise(["", *words[place]]))
        telling = _telling(own)
        near = {leader for pair in telling for leader in holders.get(pair, ())}
        leader = next((each for each in sorted(near) if _alike(own, pairs[each])), place)
        leaders[place] = leader
        if leader == place:
            for pair in telling:
                holders.setdefault(pair, []).append(place)
    return leaders


def _suspects(words: Sequence[Sequence[str]]) -> Iterable[int]:
    """The places of those that may be like another one.

    A word that one text alone has is the end of a pair that no other has. So one with more of these
    than pairs may be missing is like no other.
    """
    having = Counter(chain.from_iterable(map(set, words)))
    for place, own in enumerate(words):
        alone = [word for word in {*own} if having[word] == 1]
        if len(alone) <= _spare(len(own)):
            yield place


def _telling(pairs: frozenset[tuple[str, str]]) -> list[int]:
    """Some pairs: two sets as alike as `DUPLICATE_SHARE` have one of them in common.

    The first of each in one order, by their hash, as many as may be missing and one (prefix
    filtering: Chaudhuri, Ganti, Kaushik 2006). Words would be told faster, but common ones are
    shared by most texts, which would all be compared.
    """
    return sorted(map(hash, pairs))[: _spare(len(pairs)) + 1]


def _spare(pairs: int) -> int:
    """How many of so many pairs at most a near-duplicate may lack."""
    return pairs - math.ceil(DUPLICATE_SHARE * pairs)


def _alike(one: frozenset[tuple[str, str]], other: frozenset[tuple[str, str]]) -> bool:
    a, b = len(one), len(other)
    if a < DUPLICATE_SHARE * b or b < DUPLICATE_SHARE * a:  # whatever they share
        return False
    shared = len(one & other)
    return shared >= DUPLICATE_SHARE * (a + b - shared)
