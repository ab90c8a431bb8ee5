"""The rooms of the code: SQL where a file's name says so, and no folder that nobody can survey."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import adkpg

PACKAGE = Path(adkpg.__file__).parent
SQL = re.compile(r"(.+_)?(statements|steps|sql|tables)")
SERVERS = (PACKAGE / "database", PACKAGE / "database" / "migrating")
"""Whose statements are about the server and the schema, beside what runs them."""
MOST_FILES = 16


def imported(module: Path) -> Iterator[str]:
    """The modules that a file imports, by their dotted names."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def builds_sql(module: Path) -> bool:
    return any(
        name.startswith(("sqlalchemy.", "pgvector.")) and not name.startswith("sqlalchemy.ext.")
        for name in imported(module)
    )


def test_sql_is_built_where_a_name_says_so() -> None:
    found = [path for path in PACKAGE.rglob("*.py") if builds_sql(path)]
    assert {"statements", "tables", "sql"} <= {path.stem for path in found}
    elsewhere = [
        str(path.relative_to(PACKAGE))
        for path in found
        if not SQL.fullmatch(path.stem) and path.parent not in SERVERS
    ]
    assert elsewhere == []


def test_each_folder_can_be_surveyed() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    counts = {str(each.relative_to(PACKAGE)): len(list(each.glob("*.py"))) for each in folders}
    assert len(counts) > 10
    assert {name: count for name, count in counts.items() if count > MOST_FILES} == {}


def test_what_builds_sql_does_no_io() -> None:
    found = [path for path in PACKAGE.rglob("*.py") if SQL.fullmatch(path.stem)]
    assert len(found) > 15
    outward = ("asyncpg", "adkpg.database", "adkpg.embedded", "adkpg.embedding", "sqlalchemy.ext.")
    reaching = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in found
        for name in imported(path)
        if name.startswith(outward)
    ]
    assert reaching == []
