"""Near-duplicates: which of some texts say the same. Pure."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from adkpg.memory import records
from adkpg.text.normal_forms import nfc

# Sentence punctuation at the borders of words. Brackets and signs tell texts apart.
_QUOTES = "\"'\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u300a\u300b\u300c\u300d\u300e\u300f"
_BEFORE = _QUOTES + "\u00bf\u00a1"  # of Spanish questions and exclamations
_AFTER = _QUOTES + ".,;:!?\u2026\u3001\u3002\uff0c\uff01\uff1f\uff1a\uff1b"


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
    """A text as it is compared; one without a word is compared as it is."""
    own = nfc(text[: records.BODY_LIMIT]).lower()
    words = (word.rstrip(_AFTER).lstrip(_BEFORE) for word in own.split())
    return " ".join(filter(None, words)) or own.strip()
