"""Every fenced program of the README and the documents runs.

A block fenced as ``python`` is a whole program. It runs in a process of its own, on a fresh
migrated database that ADKPG_DATABASE_URL names; a Postgres URL written in it is replaced by that
one, and ``embedded`` is a server of the test's own. A block fenced as ``py`` is a fragment, which
may await at top level, and is only compiled.
"""

import ast
import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from adkpg.testing.server import Server
from tests.fakes.checkout import CHECKOUT

DOCUMENTS = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
URL = re.compile(r"\b(?:postgres|postgresql|postgresql\+asyncpg|adkpg)://(?!embedded)[^\s\"'`)]*")


def blocks(document: Path, language: str) -> list[tuple[int, str]]:
    """The blocks of one language with the line that each begins at."""
    text = document.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start(2)) + 1, match.group(2))
        for match in FENCE.finditer(text)
        if match.group(1) == language
    ]


@pytest.fixture
def embedded_dir() -> Iterator[Path]:
    """A place for an embedded server: as root, no other account may enter pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="adkpg-test-", dir="/tmp"))
    yield path / "server"
    shutil.rmtree(path)


async def run(program: str, url: str, embedded_dir: Path, directory: Path) -> tuple[int, str]:
    """Runs a program and returns its exit code and what it printed."""
    script = directory / "program.py"
    script.write_text(URL.sub(lambda _: url, program), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        cwd=directory,
        env=os.environ | {"ADKPG_DATABASE_URL": url, "ADKPG_EMBEDDED_DIR": str(embedded_dir)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode(errors="replace")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
async def test_programs_run(
    document: Path, server: Server, embedded_dir: Path, tmp_path: Path
) -> None:
    for line, program in blocks(document, "python"):
        directory = tmp_path / str(line)
        directory.mkdir()
        name = await server.create(template=server.template)
        try:
            code, printed = await run(program, server.url_of(name), embedded_dir, directory)
        finally:
            await server.drop(name)
        assert code == 0, f"{document.name}:{line} failed:\n{printed}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_fragments_compile(document: Path) -> None:
    for line, fragment in blocks(document, "py"):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
        assert compile(fragment, f"{document.name}:{line}", "exec", flags).body


def test_the_readme_shows_a_program() -> None:
    assert blocks(CHECKOUT / "README.md", "python")


async def test_a_program_gets_this_tests_database(
    database_url: str, embedded_dir: Path, tmp_path: Path
) -> None:
    program = "import os; assert 'postgresql://me@host/x' == os.environ['ADKPG_DATABASE_URL']"
    assert await run(program, database_url, embedded_dir, tmp_path) == (0, "")


async def test_a_program_that_fails_is_noticed(
    database_url: str, embedded_dir: Path, tmp_path: Path
) -> None:
    program = "raise SystemExit('broken')"
    assert await run(program, database_url, embedded_dir, tmp_path) == (1, "broken\n")
