"""No fenced block of a page escapes: each is run, read by what it is for, or only shown.

Programs and commands are test_programs.py's and test_commands.py's. Here are statements, which run
on a database of adkpg's tables; and it is seen that every other block that a reader may
copy is read by a test that names its page.
"""

import re
from pathlib import Path

import asyncpg
import pytest

from tests.fakes.checkout import CHECKOUT
from tests.fakes.pages import DOCUMENTS, Block, blocks, name

RUN = {"python", "py", "sh", "bash", "sql"}
# What readers write into files of their own, and the test that has adkpg or its server read it.
READ = {
    ("docs/deployment/kubernetes.md", "yaml"): "tests/packaging/test_site.py",
    ("docs/evaluation.md", "json"): "tests/evaluation/test_formats.py",
    ("docs/export-format.md", "json"): "tests/transfer/test_export_and_import.py",
    ("docs/quickstart/tester.md", "ini"): "tests/packaging/test_commands.py",
    ("docs/serving.md", "yaml"): "tests/fakes/adk_commands.py",
}
SHOWN = "text"  # what a program prints, or a drawing
TYPED = re.compile(r"^\s*(?:\$ |export |pip |python |psql |docker |make |SELECT )", re.MULTILINE)
GENERATED = (
    "docs/cli.md"  # the help of commands; tests/cli/test_help_examples.py types its examples
)


def test_every_fence_is_of_a_block_with_a_language() -> None:
    for document in DOCUMENTS:
        fences = re.findall(r"^ *(?:```|~~~)", document.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len([*blocks(document)]), name(document)


def test_every_block_is_run_or_read_or_shown() -> None:
    for document, block in ((page, block) for page in DOCUMENTS for block in blocks(page)):
        if block.language in RUN:
            continue
        if block.language == SHOWN:
            hidden = TYPED.search(block.text)
            assert name(document) == GENERATED or not hidden, f"{name(document)}:{block.line}"
            continue
        test = CHECKOUT / READ[name(document), block.language]
        assert block.title or document.name in test.read_text(encoding="utf-8"), test


def statements(block: Block) -> list[str]:
    """Each alone, as psql sends them: REINDEX CONCURRENTLY runs in no transaction."""
    return [part for part in block.text.split(";\n") if part.strip()]


WITH_STATEMENTS = [
    document
    for document in DOCUMENTS
    if any(not block.not_run for block in blocks(document, "sql"))
]


@pytest.mark.parametrize("document", WITH_STATEMENTS, ids=name)
async def test_statements_run(document: Path, connection: asyncpg.Connection) -> None:
    for block in blocks(document, "sql"):
        if block.not_run:
            continue
        for statement in statements(block):
            assert await connection.execute(statement), f"{name(document)}:{block.line}"
