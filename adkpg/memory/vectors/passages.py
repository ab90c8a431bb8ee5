"""Passages: a long text in parts that an embedder reads whole. Pure, linear in the text's length.

Borders are, in this order, those of sentences and lines, words, characters. A passage begins with
the last sentences of the one before, if these are short; the last begins as early as it can, so
that its vector tells something.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

PASSAGE_TOKENS = 200
"""Estimated tokens of a passage; see docs/retrieval.md for what was measured."""

_OVERLAP = 4  # as part of a passage

# WordPiece's tokens of six letters or three digits, about; any other character is one of its own.
_TOKEN = re.compile(r"[A-Za-z]{1,6}|[0-9]{1,3}|[^\sA-Za-z0-9]")
# Where a text may end: at whitespace after the end of a sentence, or after an East Asian full stop.
SENTENCES = re.compile(r"(?<=[.!?…؟।])[\"'”’»)\]*_]*\s+|(?<=[。！？｡])[”’」』）]*\s*")  # noqa: RUF001 - scripts' own marks
_BORDERS = re.compile(rf"{SENTENCES.pattern}|\n\s*")
_AUTHOR_SHARE = 4  # a longer name than this part of a passage is not repeated in each
_LEAST = 16  # tokens of a text that is not too long for any embedder


class Passage(NamedTuple):
    """A part of a memory's text.

    Attributes:
      start: Where it begins in the text, in characters.
      end: Where it ends.
      text: What is embedded: with the author before it, as all that is said has.
    """

    start: int
    end: int
    text: str


class _Unit(NamedTuple):
    start: int
    end: int
    cost: int


def tokens(text: str) -> int:
    """Estimates how many tokens an embedder reads: of WordPiece's count 0.8 to 1.2 in prose."""
    return len(_TOKEN.findall(text))


def passages(
    author: str | None,
    body: str,
    window: int,
    fits: Callable[[str], bool] = lambda text: True,
) -> list[Passage]:
    """Returns the passages of a memory, in order; none if an embedder reads it whole.

    Together they have every word of it, and each has `PASSAGE_TOKENS` at most, or what the window
    holds.

    Args:
      author: Who said it.
      body: ``author: text``, or the text alone without an author.
      window: Estimated tokens that the embedder reads of one text, 16 or more.
      fits: Whether the embedder reads a text to its end; estimates may be wrong by half.
    """
    if (len(body) <= window or tokens(body) <= window) and fits(body):
        return []
    prefix, text = _parted(author, body)
    room = min(PASSAGE_TOKENS, window)
    if tokens(prefix) * _AUTHOR_SHARE > room:
        prefix = ""
    room -= tokens(prefix)
    return [
        part
        for start, end in _spans(list(_units(text, room)), text, room)
        for part in _fitting(Passage(start, end, prefix + text[start:end]), fits)
    ]


def whole(author: str | None, body: str) -> Passage:
    """Returns a memory as its only passage."""
    return Passage(0, len(_parted(author, body)[1]), body)


def halves(passage: Passage) -> list[Passage]:
    """Returns a passage in passages of about half its size; none if it is too short for any."""
    said = passage.end - passage.start
    prefix, text = passage.text[:-said], passage.text[-said:]
    size = tokens(text)
    if not said or size <= _LEAST:
        return []
    room = (size + 1) // 2
    return [
        Passage(passage.start + start, passage.start + end, prefix + text[start:end])
        for start, end in _spans(list(_units(text, room)), text, room)
    ]


def _parted(author: str | None, body: str) -> tuple[str, str]:
    """What names the author, and the rest."""
    prefix = "" if author is None else f"{author}: "
    if not body.startswith(prefix):
        prefix = ""
    return prefix, body[len(prefix) :]


def _fitting(passage: Passage, fits: Callable[[str], bool]) -> Iterator[Passage]:
    """A passage, or as many smaller ones as it takes."""
    parts = [] if fits(passage.text) else halves(passage)
    if not parts:
        yield passage
    for part in parts:
        yield from _fitting(part, fits)


def _spans(units: list[_Unit], text: str, room: int) -> Iterator[tuple[int, int]]:
    """Groups neighbouring parts, as many as fit; leaves whitespace around them out."""
    new = 0
    while new < len(units):
        first = last = new
        size = units[new].cost
        while first and size - units[new].cost + units[first - 1].cost <= room // _OVERLAP:
            if size + units[first - 1].cost > room:
                break
            first -= 1
            size += units[first].cost
        while last + 1 < len(units) and size + units[last + 1].cost <= room:
            last += 1
            size += units[last].cost
        if last + 1 == len(units):  # the end: with what goes before it, as far as that fits
            while first and size + units[first - 1].cost <= room:
                first -= 1
                size += units[first].cost
        whole = text[units[first].start : units[last].end]
        start = units[first].start + len(whole) - len(whole.lstrip())
        if whole.strip():
            yield start, start + len(whole.strip())
        new = last + 1


def _units(text: str, room: int) -> Iterator[_Unit]:
    """The sentences and lines of a text; those that fit no passage are cut at words."""
    start = 0
    for end in [*(match.end() for match in _BORDERS.finditer(text)), len(text)]:
        if end > start:
            cost = tokens(text[start:end])
            if cost > room:
                yield from _cut(text, start, end, room)
            else:
                yield _Unit(start, end, cost)
            start = end


def _cut(text: str, start: int, end: int, room: int) -> Iterator[_Unit]:
    """Cuts after words, or where a run of characters without any is too long, between tokens."""
    places = [match.start() for match in _TOKEN.finditer(text, start, end)]
    first = 0
    while len(places) - first > room:
        last = first + room
        while last > first + room // 2 and not text[places[last] - 1].isspace():
            last -= 1
        if not text[places[last] - 1].isspace():
            last = letter = first + room
            # Marks stay on their letter, if they leave a passage anything else.
            while letter > first and _is_mark(text[places[letter]]):
                letter -= 1
            last = letter if letter > first else last
        yield _Unit(start, places[last], last - first)
        start, first = places[last], last
    yield _Unit(start, end, len(places) - first)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"
