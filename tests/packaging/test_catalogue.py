"""The page for ADK's catalogue has the form of google/adk-docs' docs/integrations/*.md.

Its program runs like those of every page, in test_programs.py.
"""

import re
from xml.etree import ElementTree

import yaml

import adkpg
from tests.fakes.checkout import CHECKOUT
from tests.fakes.pages import blocks

PAGE = CHECKOUT / "docs" / "catalogue" / "adkpg.md"
# Those that the catalogue filters by.
TAGS = {"code", "connectors", "data", "evaluation", "google", "mcp", "observability", "resilience"}


def test_the_front_matter_is_the_catalogues() -> None:
    opening, front, page = PAGE.read_text(encoding="utf-8").split("---\n", 2)
    assert opening == ""
    given = yaml.safe_load(front)
    assert [*given] == ["catalog_title", "catalog_description", "catalog_icon", "catalog_tags"]
    assert given["catalog_title"] == "adkpg"
    assert 20 < len(given["catalog_description"]) <= 120
    assert given["catalog_tags"]
    assert set(given["catalog_tags"]) <= TAGS
    heading, tag = page.strip().split("\n\n")[:2]
    assert heading == "# adkpg integration for ADK"
    assert tag.startswith('<div class="language-support-tag">')
    assert '<span class="lst-python">Python</span>' in tag


def test_the_icon_lies_beside_the_page() -> None:
    named = re.search(r"^catalog_icon: /integrations/assets/(\S+)$", PAGE.read_text(), re.MULTILINE)
    assert named
    assert ElementTree.parse(PAGE.with_name(named[1])).getroot().tag.endswith("svg")


def test_links_work_from_another_site() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8")):
        assert target.startswith("https://"), target


def test_the_example_is_whole_and_the_services_exist() -> None:
    assert len([*blocks(PAGE, "python")]) == 1
    for service in re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        assert service in adkpg.__all__
