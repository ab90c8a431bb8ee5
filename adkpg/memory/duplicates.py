"""Near-duplicates: which of some texts say the same. Pure.

The one rule for what a search folds, what an action on a hit reaches, and which facts are equal.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from adkpg.memory import records
from adkpg.text.normal_forms import JOINER, nfc

# Sentence punctuation at the borders of words. Brackets, single quotes, question marks and signs
# tell texts apart.
_QUOTES = '"\u201c\u201d\u201e\u00ab\u00bb\u300a\u300b\u300c\u300d\u300e\u300f'
_STOPS = ".,;:!\u2026\u3001\u3002\uff0c\uff01\uff1a\uff1b"
_WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))

IGNORED = _WHITE_SPACE + _QUOTES + _STOPS + JOINER
"""Characters that one of two texts that say the same may have where the other one has none."""


def groups(texts: Sequence[str], source: Callable[[int], Hashable]) -> list[list[int]]:
    """Puts those together that say the same.

    Two do if one author said both, with artifacts of the same names, and the texts are equal but
    for case, white space, and sentence punctuation at the borders of words. Every other sign,
    number, word and emoji tells two texts apart: one that is hidden could be the answer.

    Args:
      texts: What is said.
      source: Who said what is at a place, and the names of its artifacts; few are asked for.

    Returns:
      The places of each group, ascending; groups by their first place.
    """
    said = [normal(text) for text in texts]
    times = Counter(said)
    found: dict[Hashable, list[int]] = {}
    for place, own in enumerate(said):
        key = place if times[own] == 1 else (own, source(place))
        found.setdefault(key, []).append(place)
    return list(found.values())


def groups_of_rows(rows: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Puts stored memories together that say the same, as `groups` does."""

    def source(place: int) -> Hashable:
        row = rows[place]
        return row["author"], frozenset(records.artifacts_of(row))

    return groups([records.said_in(row) for row in rows], source)


def normal(text: str) -> str:
    """Returns the form that texts which say the same have in common."""
    return " ".join(map(_bare, nfc(records.storable_text(text)).lower().split()))


def _bare(word: str) -> str:
    """A word without punctuation; one that has nothing else stays as it is."""
    bare = word.rstrip(_QUOTES + _STOPS)
    if bare[-1:].isdigit():
        bare = word.rstrip(_STOPS)  # 6" is a length
    return bare.lstrip(_QUOTES) or word
