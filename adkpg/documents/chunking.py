"""Chunking: a document in pieces that an embedder reads whole. Pure, linear in the text's length.

A piece is never of two sections, and says the headings that it stands under. Borders are, in this
order, those of blocks, sentences, lines, words. Pieces do not overlap: a search counts the words of
the pieces around a hit for it too (`adkpg.memory.search.statements`).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from adkpg.documents import markdown
from adkpg.documents.markdown import Block
from adkpg.memory.vectors.passages import SENTENCES, tokens

CHUNK_TOKENS = 200
"""Estimated tokens of a piece; see docs/documents.md for what was measured."""

BLOCK_TOKENS = 1_000
"""Estimated tokens up to which a code block or a table is kept whole."""

_LINES = re.compile(r"\n+")
_BLANKS = re.compile(r"\s+")


def chunks(text: str, *, as_markdown: bool, max_tokens: int = CHUNK_TOKENS) -> list[str]:
    """Cuts a document into pieces, in its order.

    Every word of the document is in a piece. A piece of a Markdown section begins with the
    headings it stands under, as ``Guide > Install``, which count as its own words. A code block or
    table above `max_tokens` is a piece of its own; above `BLOCK_TOKENS` it is cut at its lines,
    and each part has the block's fences, or the table's head.

    Args:
      text: The document.
      as_markdown: Whether headings, code and tables are Markdown's; else blank lines divide it.
      max_tokens: Estimated tokens of a piece, its headings included; they get half at most.

    Returns:
      Pieces without whitespace around them; none for a text of whitespace.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not as_markdown:
        return list(_packed(markdown.paragraphs(text), max_tokens))
    pieces: list[str] = []
    outline = markdown.sections(text)
    for place, section in enumerate(outline):
        heading = " > ".join(section.path)
        room = max(max_tokens - tokens(heading), max_tokens // 2)
        if section.blocks:
            prefix = f"{heading}\n\n" if heading else ""
            pieces += [prefix + piece for piece in _packed(section.blocks, room)]
        elif heading and not any(
            below.path[: len(section.path)] == section.path
            for below in outline[place + 1 : place + 2]
        ):
            pieces.append(heading)
    return pieces


def _packed(blocks: Sequence[Block], room: int) -> Iterator[str]:
    """Fills pieces with blocks, and cuts those that fit none."""
    parts = (part for block in blocks for part in _parts(block, room))
    return map("\n\n".join, _filled(parts, room))


def _filled(parts: Iterable[str], room: int) -> Iterator[list[str]]:
    """Groups neighbouring parts, as many as fit."""
    held: list[str] = []
    size = 0
    for part in parts:
        cost = tokens(part)
        if held and size + cost > room:
            yield held
            held, size = [], 0
        held.append(part)
        size += cost
    if held:
        yield held


def _parts(block: Block, room: int) -> Iterator[str]:
    text = block.text.strip("\n") if block.kind == "code" else block.text.strip()
    if tokens(text) <= (room if block.kind == "paragraph" else max(room, BLOCK_TOKENS)):
        yield text
    elif block.kind == "paragraph":
        yield from _cut(text, room, (SENTENCES, _LINES, _BLANKS))
    else:
        yield from _cut_lines(block, room)


def _cut_lines(block: Block, room: int) -> Iterator[str]:
    """The parts of a code block or table, each with its fences or its head."""
    lines = block.text.split("\n")
    closed = block.kind == "code" and len(lines) > 1 and not lines[-1].strip().strip("`~")
    head, rest = (lines[:1], lines[1:]) if block.kind == "code" else (lines[:2], lines[2:])
    tail = [rest.pop()] if closed and rest else []
    around = tokens("\n".join(head + tail))
    for part in _cut("\n".join(rest), max(room - around, room // 2), (_LINES, _BLANKS)):
        yield "\n".join([*head, part, *tail])


def _cut(text: str, room: int, borders: Sequence[re.Pattern[str]]) -> Iterator[str]:
    """Cuts at the first kind of border that leaves small enough pieces, as few times as fit.

    A piece keeps its first line's indent, which code needs; one of whitespace alone is left out.
    """
    for group in _filled(_pieces(text, room, borders), room):
        piece = "".join(group)
        if piece.strip():
            yield piece.strip("\n").rstrip()


def _pieces(text: str, room: int, borders: Sequence[re.Pattern[str]]) -> Iterator[str]:
    if not borders:
        yield from _cut_anywhere(text, room)
        return
    for piece in _split(text, borders[0]):
        if tokens(piece) > room:
            yield from _pieces(piece, room, borders[1:])
        else:
            yield piece


def _split(text: str, border: re.Pattern[str]) -> Iterator[str]:
    """The pieces between borders, each with the border after it."""
    start = 0
    for match in border.finditer(text):
        if match.end() > start:
            yield text[start : match.end()]
            start = match.end()
    if start < len(text):
        yield text[start:]


def _cut_anywhere(text: str, room: int) -> Iterator[str]:
    """Cuts text without whitespace; every character may be a token, marks stay on their letter."""
    start = 0
    while start < len(text):
        end = start + room
        while end < len(text) and unicodedata.category(text[end])[0] == "M":
            end += 1
        yield text[start:end]
        start = end
