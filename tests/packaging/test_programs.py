"""Every fenced program of the README and the documents runs.

A block fenced as ``python`` is a whole program. It runs on a database of its own, migrated,
that ADKPG_DATABASE_URL names; a Postgres URL written in it is replaced by that one, and
``embedded`` is a server of the test's own. A block fenced as ``py`` is a fragment, which may await
at top level, and is only compiled. Those fenced as ``sh`` are tests/packaging/test_commands.py's.
"""

import ast
import asyncio
import os
import sys
from pathlib import Path

import pytest

from adkpg.testing.server import Server
from tests.fakes.checkout import CHECKOUT
from tests.fakes.pages import DOCUMENTS, URL, blocks, name


async def run(program: str, url: str, embedded_dir: Path, directory: Path) -> tuple[int, str]:
    """Runs a program and returns its exit code and what it printed."""
    script = directory / "program.py"
    script.write_text(URL.sub(lambda _: url, program), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(script)),
        cwd=directory,
        env=os.environ | {"ADKPG_DATABASE_URL": url, "ADKPG_EMBEDDED_DIR": str(embedded_dir)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode(errors="replace")


@pytest.mark.program
@pytest.mark.parametrize(
    "document", [page for page in DOCUMENTS if any(blocks(page, "python"))], ids=name
)
async def test_programs_run(
    document: Path, server: Server, embedded_dir: Path, tmp_path: Path
) -> None:
    for block in blocks(document, "python"):
        directory = tmp_path / str(block.line)
        directory.mkdir()
        database = await server.create(template=server.template)
        try:
            url = server.url_of(database)
            code, printed = await run(block.text, url, embedded_dir, directory)
        finally:
            await server.drop(database)
        assert code == 0, f"{name(document)}:{block.line} failed:\n{printed}"


def test_fragments_compile() -> None:
    for document in DOCUMENTS:
        for block in blocks(document, "py"):
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
            assert compile(block.text, f"{document.name}:{block.line}", "exec", flags).body


def test_the_readme_shows_a_program() -> None:
    assert [*blocks(CHECKOUT / "README.md", "python")]


@pytest.mark.program
async def test_a_program_gets_this_tests_database(
    database_url: str, embedded_dir: Path, tmp_path: Path
) -> None:
    program = "import os; assert 'postgresql://me@host/x' == os.environ['ADKPG_DATABASE_URL']"
    assert await run(program, database_url, embedded_dir, tmp_path) == (0, "")


@pytest.mark.program
async def test_a_program_that_fails_is_noticed(
    database_url: str, embedded_dir: Path, tmp_path: Path
) -> None:
    program = "raise SystemExit('broken')"
    assert await run(program, database_url, embedded_dir, tmp_path) == (1, "broken\n")
