"""docs/logging.md has every logger, with the levels that it logs at."""

import ast
import re
from collections import defaultdict

from tests.fakes.checkout import CHECKOUT

PAGE = CHECKOUT / "docs" / "logging.md"
LEVELS = {"exception": "ERROR"}


def test_the_table_has_every_logger_and_its_levels() -> None:
    said: dict[str, set[str]] = defaultdict(set)
    for path in (CHECKOUT / "adkpg").rglob("*.py"):
        name = ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="logger"), attr=level)):
                    said[name].add(LEVELS.get(level, level.upper()))
    rows = re.findall(r"^\| `(adkpg\S*)` \| ([A-Z, ]+) \|", PAGE.read_text(), re.MULTILINE)
    assert {name: set(levels.split(", ")) for name, levels in rows} == said
    assert [name for name, _ in rows] == sorted(said)
