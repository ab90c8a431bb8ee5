"""Every fenced program and statement of the README and the documents runs.

A block fenced as ``python`` is a whole program. It runs on a database of its own, migrated,
that ADKPG_DATABASE_URL names; a Postgres URL written in it is replaced by that one, and
``embedded`` is a server of the test's own. One with a title is a file that the commands of its page
run: those, fenced as ``sh``, are tests/packaging/test_commands.py's. A block fenced as ``py`` is a
fragment, which may await at top level, and is only compiled.
"""

import ast
import asyncio
import os
import sys
from pathlib import Path

import asyncpg
import pytest

from adkpg.tooling.testing.server import Server
from tests.fakes.pages import DOCUMENTS, URL, Block, blocks, name


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


def programs(page: Path) -> list[Block]:
    return [block for block in blocks(page, "python") if not block.title]


@pytest.mark.program
@pytest.mark.parametrize("document", [*filter(programs, DOCUMENTS)], ids=name)
async def test_programs_run(
    document: Path, server: Server, embedded_dir: Path, tmp_path: Path
) -> None:
    for block in programs(document):
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


def statements(page: Path) -> list[str]:
    """Each alone, as psql sends them: REINDEX CONCURRENTLY runs in no transaction."""
    text = ";\n".join(block.text for block in blocks(page, "sql") if not block.not_run)
    return [part for part in text.split(";\n") if part.strip()]


@pytest.mark.parametrize("document", [*filter(statements, DOCUMENTS)], ids=name)
async def test_statements_run(document: Path, connection: asyncpg.Connection) -> None:
    for statement in statements(document):
        assert await connection.execute(statement), statement
