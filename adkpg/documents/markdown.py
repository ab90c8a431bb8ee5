"""Markdown's outline: headings, and the blocks below them. Pure, linear in the text's length.

The part of CommonMark that says where a text may be cut: ATX and setext headings, fenced code,
GitHub's tables, front matter. Everything else is a paragraph, lists and quotations too.
"""

import re
from dataclasses import dataclass
from typing import Literal

LONGEST_HEADING = 200
"""Characters; a longer line is taken for a paragraph, since it would fill every piece below it."""

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*")
_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)?(`{3,}|~{3,})(.*)")
_DELIMITERS = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_NO_TITLE = re.compile(r"\s*(?:[-*+>|]|\d{1,9}[.)])(?:\s|$)|\s{4}|\s*[|>]")
_LONGEST_FRONT_MATTER = 200


@dataclass(frozen=True)
class Block:
    """What is not cut without need.

    Attributes:
      kind: ``paragraph``, ``code`` (with its fences) or ``table``.
      text: Its lines.
    """

    kind: Literal["paragraph", "code", "table"]
    text: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, up to the next heading.

    Attributes:
      path: The headings it stands under, outermost first, its own last; empty above the first.
      blocks: Its own blocks, without those of the headings below.
    """

    path: tuple[str, ...]
    blocks: tuple[Block, ...]


def sections(text: str) -> list[Section]:
    """Reads a Markdown text; a section without blocks of its own is there too.

    Args:
      text: Its lines end with a line feed alone.
    """
    return _Reader(text.split("\n")).read()


def paragraphs(text: str) -> list[Block]:
    """Reads a plain text: what blank lines divide.

    Args:
      text: Its lines end with a line feed alone.
    """
    pieces = re.split(r"\n[^\S\n]*(?=\n)", text)
    return [Block("paragraph", piece.strip("\n")) for piece in pieces if piece.strip()]


class _Reader:
    """Reads line by line; what is open is in `_lines`."""

    def __init__(self, lines: list[str]) -> None:
        self._source = lines
        self._sections: list[Section] = []
        self._path: list[tuple[int, str]] = []
        self._blocks: list[Block] = []
        self._lines: list[str] = []

    def read(self) -> list[Section]:
        place = self._front_matter()
        while place < len(self._source):
            line = self._source[place]
            if fence := _opening(line):
                place = self._code(place, fence)
            elif heading := _heading(line):
                self._begin(*heading)
                place += 1
            elif self._is_underline(line):
                title = self._lines[-1].strip()
                self._lines.clear()
                self._begin(1 if line.strip().startswith("=") else 2, title)
                place += 1
            elif self._begins_table(place):
                place = self._table(place)
            else:
                if line.strip() and not _RULE.fullmatch(line):
                    self._lines.append(line)
                else:
                    self._end_paragraph()
                place += 1
        self._end_section()
        return self._sections

    def _front_matter(self) -> int:
        """Takes a file's first lines between ``---``; returns where the rest begins."""
        if self._source[0].rstrip() != "---":
            return 0
        for place, line in enumerate(self._source[1:_LONGEST_FRONT_MATTER], 1):
            if line.rstrip() in ("---", "..."):
                self._add("paragraph", self._source[1:place])
                return place + 1
        return 0

    def _code(self, place: int, fence: str) -> int:
        self._end_paragraph()
        end = place + 1
        while end < len(self._source) and not _closes(self._source[end], fence):
            end += 1
        self._add("code", self._source[place : end + 1])
        return end + 1

    def _begins_table(self, place: int) -> bool:
        if "|" not in self._source[place] or place + 1 == len(self._source):
            return False
        following = self._source[place + 1]
        return "|" in following and "-" in following and bool(_DELIMITERS.fullmatch(following))

    def _table(self, place: int) -> int:
        self._end_paragraph()
        end = place + 2
        while end < len(self._source) and "|" in self._source[end]:
            end += 1
        self._add("table", self._source[place:end])
        return end

    def _is_underline(self, line: str) -> bool:
        if len(self._lines) != 1 or not _UNDERLINE.fullmatch(line):
            return False
        title = self._lines[0]
        return len(title) <= LONGEST_HEADING and not _NO_TITLE.match(title)

    def _begin(self, level: int, title: str) -> None:
        self._end_section()
        while self._path and self._path[-1][0] >= level:
            self._path.pop()
        self._path.append((level, title))

    def _end_paragraph(self) -> None:
        self._add("paragraph", self._lines)
        self._lines.clear()

    def _end_section(self) -> None:
        self._end_paragraph()
        if self._path or self._blocks:
            path = tuple(title for _, title in self._path if title)
            self._sections.append(Section(path, tuple(self._blocks)))
        self._blocks.clear()

    def _add(self, kind: Literal["paragraph", "code", "table"], lines: list[str]) -> None:
        if any(line.strip() for line in lines):
            self._blocks.append(Block(kind, "\n".join(lines)))


def _heading(line: str) -> tuple[int, str] | None:
    match = _HEADING.fullmatch(line) if len(line) <= LONGEST_HEADING else None
    return None if match is None else (len(match[1]), (match[2] or "").strip())


def _opening(line: str) -> str | None:
    match = _FENCE.fullmatch(line)
    return match[1] if match and not (match[1][0] == "`" and "`" in match[2]) else None


def _closes(line: str, fence: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(fence) and set(stripped) == {fence[0]}
