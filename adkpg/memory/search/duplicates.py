"""Near-duplicates: which of some texts say the same. Pure."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from adkpg.memory import records
from adkpg.text.normal_forms import nfc

# Sentence punctuation at the borders of words. Brackets, single quotes, question marks and signs
# tell texts apart.
_QUOTES = '"\u201c\u201d\u201e\u00ab\u00bb\u300a\u300b\u300c\u300d\u300e\u300f'
_STOPS = ".,;:!\u2026\u3001\u3002\uff0c\uff01\uff1a\uff1b"


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
    said = [_said(text) for text in texts]
    times = Counter(said)
    found: dict[Hashable, list[int]] = {}
    for place, own in enumerate(said):
        key = place if times[own] == 1 else (own, source(place))
        found.setdefault(key, []).append(place)
    return list(found.values())


def _said(text: str) -> str:
    """A text as it is compared."""
    return " ".join(map(_bare, nfc(text[: records.BODY_LIMIT]).lower().split()))


def _bare(word: str) -> str:
    """A word without punctuation; one that has nothing else stays as it is."""
    bare = word.rstrip(_QUOTES + _STOPS)
    if bare[-1:].isdigit():
        bare = word.rstrip(_STOPS)  # 6" is a length
    return bare.lstrip(_QUOTES) or word
