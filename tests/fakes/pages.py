"""The pages of the documentation, and the fenced blocks in them.

A block is fenced as in ```` ```python title="app.py" ````. A comment right above one, such as
``<!-- not run: needs a bucket of yours -->`` or ``<!-- keeps running -->``, says how a test
takes it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.checkout import CHECKOUT

DOCUMENTS = sorted(
    [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md"), CHECKOUT / "examples" / "README.md"]
)
URL = re.compile(r"\b(?:postgres|postgresql|postgresql\+asyncpg|adkpg)://(?!embedded)[^\s\"'`)]+")
"""A database's address, which a test replaces by its own; the embedded one's is kept, and `adkpg://`."""

_FENCE = re.compile(
    r"^(?:<!-- (?P<remark>(?:not run: |keeps running)[^\n]*?) -->\n\n?)?"
    r"(?P<indent> *)```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?[^\n]*\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


def name(document: Path) -> str:
    """How a test's id says which page it is about."""
    return document.relative_to(CHECKOUT).as_posix()


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
      language: The word after the fence.
      line: Where its text begins.
      title: The name of the file that a reader saves it as, if the page gives one.
      keeps_running: Whether it is a server, which runs while the reader goes on.
      not_run: Why no test runs it, or None.
    """

    language: str
    line: int
    text: str
    title: str | None = None
    keeps_running: bool = False
    not_run: str | None = None


def blocks(document: Path, *languages: str) -> Iterator[Block]:
    """Yields the blocks of a page in order, of some languages or of all."""
    page = document.read_text(encoding="utf-8")
    for found in _FENCE.finditer(page):
        if languages and found["language"] not in languages:
            continue
        remark = found["remark"] or ""
        text = re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
        yield Block(
            found["language"],
            page.count("\n", 0, found.start("text")) + 1,
            text,
            found["title"],
            remark == "keeps running",
            remark.removeprefix("not run: ") if remark.startswith("not run") else None,
        )
