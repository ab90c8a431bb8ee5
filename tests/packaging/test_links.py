"""Links of the pages lead somewhere: to files, headings and loggers that exist."""

import importlib.util
import re
from pathlib import Path

from tests.fakes.checkout import CHECKOUT
from tests.fakes.pages import DOCUMENTS, name

LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]*)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
SCHEMES = {"gh-light-mode-only", "gh-dark-mode-only"}
"""After a picture's address: GitHub and the site show it in the light or in the dark."""


def anchors(page: Path) -> set[str]:
    """The ids that GitHub and the site give to a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in headings]
    return {re.sub(r"\s", "-", heading) for heading in plain}


def test_links_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for link in LINK.findall(CODE.sub("", document.read_text(encoding="utf-8"))):
            path, _, anchor = link.partition("#")
            target = (document.parent / path).resolve() if path else document
            assert target.is_relative_to(CHECKOUT), (name(document), link)
            assert target.exists(), (name(document), link)
            known = SCHEMES if target.suffix == ".png" else anchors(target) if anchor else set()
            assert not anchor or anchor in known, (name(document), link)


def test_loggers_are_those_of_modules() -> None:
    page = (CHECKOUT / "docs" / "logging.md").read_text(encoding="utf-8")
    for logger in re.findall(r"^\| `(adkpg\S*)` \| [A-Z]", page, re.MULTILINE):
        assert importlib.util.find_spec(logger), logger
