"""SQL is built where a file's name says so, and what builds it does no I/O."""

import re
from pathlib import Path

import adkpg

PACKAGE = Path(adkpg.__file__).parent
NAMED = re.compile(r"(.+_)?(statements|queries|tables|rules)\.py")
SERVERS = {PACKAGE / "database" / each for each in ("", "migrating", "cluster")}
"""Whose statements are about the server and the schema, beside what runs them."""
BUILDS = re.compile(r"^from (?:sqlalchemy(?!\.ext)|pgvector)\b", re.MULTILINE)
REACHES = re.compile(
    r"^(?:import|from) (?:asyncpg|adkpg\.(?:database|embedded|embedding)|sqlalchemy\.ext)\b",
    re.MULTILINE,
)


def test_sql_is_built_where_a_name_says_so_and_without_io() -> None:
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if NAMED.fullmatch(path.name):
            assert not REACHES.search(text), path
        elif path.parent not in SERVERS:
            assert not BUILDS.search(text), path
