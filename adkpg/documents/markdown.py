"""Markdown's outline: headings, and the blocks below them. Pure.

markdown-it-py reads CommonMark and GitHub's tables; here it says where a text may be cut. Texts
that are neither heading, code nor table are paragraphs, lists and quotations too.
"""

import re
from dataclasses import dataclass
from typing import Literal

from markdown_it import MarkdownIt

Kind = Literal["paragraph", "code", "table"]

_LONGEST_HEADING = 200  # a longer one stays text, since it would fill every piece below it
_FRONT_MATTER = re.compile(r"---[^\S\n]*\n((?:.*\n){0,200}?)(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)")
# A reference's definition leaves no token, and its words are text here; inline marks cut nothing.
_PARSER = MarkdownIt("commonmark").enable("table").disable(["reference", "inline"])
_BLOCKS: dict[str, Kind] = {"fence": "code", "table_open": "table"}


@dataclass(frozen=True)
class Block:
    """What is not cut without need.

    Attributes:
      kind: ``paragraph``, ``code`` (with its fences) or ``table``.
      text: Its lines.
    """

    kind: Kind
    text: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, up to the next heading.

    Attributes:
      path: The headings it stands under, outermost first, its own last; empty above the first.
      blocks: Its own blocks, without those of the headings below.
    """

    path: tuple[str, ...]
    blocks: list[Block]


def sections(text: str) -> list[Section]:
    """Reads a Markdown text; the first section and those without blocks of their own count too.

    Args:
      text: Its lines end with a line feed alone.
    """
    front = _FRONT_MATTER.match(text)
    found = [Section((), paragraphs(front[1]) if front else [])]
    lines = text[front.end() if front else 0 :].split("\n")
    headings: list[tuple[str, str]] = []
    place = 0
    tokens = _PARSER.parse("\n".join(lines))
    for number, token in enumerate(tokens):
        kind, title = _BLOCKS.get(token.type), ""
        if token.type == "heading_open":
            title = tokens[number + 1].content.replace("\n", " ")
        cuts = kind or (token.type in ("heading_open", "hr") and token.level == 0)
        if token.map is None or not cuts or len(title) > _LONGEST_HEADING:
            continue
        begin, end = token.map
        found[-1].blocks.extend(paragraphs("\n".join(lines[place:begin])))
        place = end
        if kind:
            found[-1].blocks.append(Block(kind, "\n".join(lines[begin:end])))
        elif token.type == "heading_open":
            headings = [above for above in headings if above[0] < token.tag]
            headings.append((token.tag, title))
            found.append(Section(tuple(title for _, title in headings if title), []))
    found[-1].blocks.extend(paragraphs("\n".join(lines[place:])))
    return found


def paragraphs(text: str) -> list[Block]:
    """Reads a plain text: what blank lines divide.

    Args:
      text: Its lines end with a line feed alone.
    """
    pieces = re.split(r"\n[^\S\n]*(?=\n)", text)
    return [Block("paragraph", piece.strip("\n")) for piece in pieces if piece.strip()]
