"""Near-duplicates: which of some texts say the same. Pure."""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from adkpg.memory import records
from adkpg.memory.tokenizer import searchable

DUPLICATE_SHARE = 0.9
"""Share of common pairs of words (Jaccard) from which two texts are near-duplicates."""

_FEW = 100
# As `searchable` leaves them: beyond ASCII there are letters, marks and numerals only.
_WORD = re.compile("[0-9A-Za-z_\u0080-\U0010ffff]+")
_DIGIT = re.compile("[0-9]")
_BETWEEN = "\x1f"  # ASCII's unit separator
_SPACED = bytes(
    byte if _WORD.match(chr(byte)) or chr(byte) == _BETWEEN else ord(" ") for byte in range(256)
)


def groups(texts: Sequence[str], source: Callable[[int], Hashable]) -> list[list[int]]:
    """Puts those together that say the same.

    Two are near-duplicates if one author said both, they share `DUPLICATE_SHARE` of their
    pairs of neighbouring words (one word more in nine, or another one in thirty-eight; case and
    punctuation do not count), all words with digits, and the names of their artifacts. So orders
    9981 and 9982 are not alike, nor are what Ana owes Bob and what Bob owes Ana.

    Args:
      texts: What is said.
      source: Who said what is at a place, and the names of its artifacts; few are asked for.

    Returns:
      The places of each group, ascending, beginning with the one that the others are like; groups
      by this place.
    """
    words = _words(texts) if texts else []
    suspects = _suspects(words)
    if not suspects:
        return [[place] for place in range(len(texts))]
    found = {place: [place] for place in {*range(len(texts))}.difference(suspects)}
    keys = {place: (source(place), _numbers(words[place])) for place in suspects}
    for some in _alike_by(keys):
        for place, leader in _leaders({place: words[place] for place in some}):
            found.setdefault(leader, []).append(place)
    return [found[place] for place in sorted(found)]


def _alike_by(keys: Mapping[int, Hashable]) -> Iterable[Sequence[int]]:
    """Puts places together that have the same key, in their order."""
    parts: dict[Hashable, list[int]] = {}
    for place, key in keys.items():
        parts.setdefault(key, []).append(place)
    return parts.values()


def _words(texts: Sequence[str]) -> list[list[str]]:
    """Of each text the words without case; one that has none is a word itself."""
    cut = [text[: records.BODY_LIMIT].replace(_BETWEEN, " ") for text in texts]
    texts = _BETWEEN.join(cut).casefold().split(_BETWEEN)
    if all(map(str.isascii, texts)):  # as below, in a third of the time
        spaced = _BETWEEN.join(texts).encode().translate(_SPACED).decode()
        found = [own.split() for own in spaced.split(_BETWEEN)]
    else:
        beyond = [text for text in texts if not text.isascii()]
        read = iter(searchable(_BETWEEN.join(beyond)).casefold().split(_BETWEEN))
        found = [_WORD.findall(text if text.isascii() else next(read)) for text in texts]
    return [own or [text.strip()] for own, text in zip(found, texts, strict=True)]


def _numbers(words: Sequence[str]) -> frozenset[str]:
    return frozenset(word for word in words if not word.isalpha() and _DIGIT.search(word))


def _suspects(words: Sequence[Sequence[str]]) -> Sequence[int]:
    """The places of those that may be like another one, whoever said it.

    A word that one text alone has is the end of a pair that no other has. So one with more of these
    than pairs may be missing is like no other. Of many texts few have such words.
    """
    if len(words) > _FEW:
        return range(len(words))
    sets = [{*own} for own in words]
    once: set[str] = set()
    again: set[str] = set()
    for own in sets:
        again |= own & once
        once |= own
    return [
        place for place, own in enumerate(sets) if len(own - again) <= _spare(len(words[place]))
    ]


def _leaders(words: Mapping[int, Sequence[str]]) -> Iterator[tuple[int, int]]:
    """By place, the one that each is folded into: the first that is alike and leads itself."""
    pairs: dict[int, frozenset[tuple[str, str]]] = {}
    holders: dict[int, list[int]] = {}
    for place, own_words in words.items():
        own = frozenset(pairwise(["", *own_words]))
        telling = _telling(own)
        near = {leader for pair in telling for leader in holders.get(pair, ())}
        leader = next((each for each in sorted(near) if _alike(own, pairs[each])), place)
        yield place, leader
        if leader == place:
            pairs[place] = own
            for pair in telling:
                holders.setdefault(pair, []).append(place)


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
