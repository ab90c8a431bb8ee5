"""Unicode's normal forms in a time that grows linearly with the text. Pure.

Python sorts the marks of a character by insertion, so a run of n marks takes it n² steps, in which
no other thread runs. The Stream-Safe Text Process (Unicode Standard Annex #15, section 13) breaks
such a run after every 30 marks, more than any language writes on one character.
"""

import re
import unicodedata
from collections.abc import Iterator

_MOST_MARKS = 30
JOINER = "\u034f"  # COMBINING GRAPHEME JOINER, which no mark moves across
# Two letters, by their category, that NFKC makes marks of.
_VOICED = "\uff9e\uff9f"
# All marks are in such runs: none is a letter or a digit to `re`.
_MAY_BE_MARKS = re.compile(rf"[\W{_VOICED}]{{{_MOST_MARKS + 1},}}")


def nfc(text: str) -> str:
    """Returns a text in NFC, with a joiner after every 30 marks of a character."""
    return unicodedata.normalize("NFC", _stream_safe(text))  # noqa: TID251 - no run is long


def nfkc(text: str) -> str:
    """Returns a text in NFKC, with a joiner after every 30 marks of a character."""
    return unicodedata.normalize("NFKC", _stream_safe(text))  # noqa: TID251 - no run is long


def _stream_safe(text: str) -> str:
    if text.isascii():
        return text
    return _MAY_BE_MARKS.sub(lambda run: "".join(_broken(run[0])), text)


def _broken(run: str) -> Iterator[str]:
    marks = 0
    for character in run:
        marks = marks + 1 if _is_mark(character) else 0
        if marks > _MOST_MARKS:
            yield JOINER
            marks = 1
        yield character


def _is_mark(character: str) -> bool:
    if character == JOINER:
        return False
    return unicodedata.category(character)[0] == "M" or character in _VOICED
