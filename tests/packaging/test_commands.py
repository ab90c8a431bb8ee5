"""Every command of the documentation runs, in the order of its page.

The blocks of a page that are fenced as ``sh`` or ``bash`` are one shell script, in a directory and
on a migrated database of the page's own; blocks with a title are the files that a reader saves.
Servers must take connections before the page goes on, and run until its end. A
Postgres URL, and ``embedded``, are replaced by that database, a port by a free one. ``pip`` looks
whether what is to be installed is there, ``kubectl`` whether its manifests are what Kubernetes
takes; ``docker``, ``gcloud`` and the like, which need a machine of their own, are only read.
Everything else is the real program.
"""

import asyncio
import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from adkpg.tooling.testing.server import Server
from tests.fakes import page_programs, readers
from tests.fakes.checkout import CHECKOUT
from tests.fakes.pages import DOCUMENTS, URL, Block, blocks, name

SHELL = ("sh", "bash")  # the latter on the page for ADK's catalogue, whose pages have it
PORT = re.compile(r"(?<=[: =])(?:8000|8001|8002)\b")
EMBEDDED = re.compile(r"(?<=ADKPG_DATABASE_URL=)embedded\b")
# The README's one embedded server is real; elsewhere another database is as good, and quicker.
REAL_SERVER = {"README.md"}
HAVE = f"{shlex.quote(sys.executable)} -m {readers.__name__}"
# What the reader of a page has: files, or sessions.
GIVEN = {
    "docs/embedders.md": [f"{HAVE} sessions questions"],
    "docs/evaluation.md": [f"{HAVE} sessions questions"],
    "docs/forgetting.md": [f"{HAVE} sessions"],
    "docs/incidents.md": [
        f"{HAVE} sessions",
        "adkpg backup monday.dump --yes",
    ],
    "docs/languages.md": [f"{HAVE} sessions"],
    "docs/models.md": [f"{HAVE} sessions"],
    "docs/serving.md": [f"{HAVE} agents"],
    "docs/sessions.md": [f"{HAVE} sessions agents"],
    "docs/catalogue/adkpg.md": [f"mkdir -p path/to && (cd path/to && {HAVE} agents)"],
    "docs/documents.md": [
        "mkdir -p docs; echo 'Refunds take three days.' | tee docs/a.md > handbook.md"
    ],
    "docs/moving.md": [f"{HAVE} sessions adk"],
}
# Adds packages or names settings, which tests of their own read: nothing to see from running it.
HARMLESS = re.compile(r"(?:export \w+=|pip install )")


def is_to_run(block: Block) -> bool:
    return not block.not_run and not all(map(HARMLESS.match, block.text.splitlines()))


PAGES = [page for page in DOCUMENTS if any(map(is_to_run, blocks(page, *SHELL)))]


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def script(page: list[Block], replaced: Callable[[str], str]) -> str:
    """Returns one script of the commands and files of a page."""
    lines = ["set -euo pipefail", "trap 'echo \"failed: line $LINE\" >&2' ERR", "LINE=0 SERVERS="]
    for block in page:
        lines.append(f"LINE={block.line}")
        text = replaced(block.text)
        if block.title:
            lines += [f"cat > {shlex.quote(block.title)} <<'END OF FILE'", text + "END OF FILE"]
        elif block.keeps_running:
            lines.append(f'({text.strip()}\n) &\nSERVER=$! SERVERS="$SERVERS $!"')
            for port in re.findall(r"--\S*port (\d+)", text):
                reached = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null"
                lines.append(
                    f"until {reached}; do kill -0 $SERVER; read -rt 0.1 <> <(:) || :; done"
                )
        else:
            lines.append(text)
    return "\n".join([*lines, "for server in $SERVERS; do kill -0 $server; done"])


async def run(text: str, directory: Path, **variables: str) -> tuple[int, str]:
    """Runs a script, ends what it left running, and returns its exit code and what it printed."""
    # To a file: of a pipe, waiting for the shell would wait for the servers that it started, too.
    with (directory / ".printed").open("w+b") as printed:
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", text),
            cwd=directory,
            env=os.environ | variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=printed,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        printed.seek(0)
        return code, printed.read().decode(errors="replace")


@pytest.mark.program
@pytest.mark.parametrize("document", PAGES, ids=name)
async def test_commands_run_in_the_order_of_the_page(
    document: Path, server: Server, tmp_path: Path, embedded_dir: Path
) -> None:
    page = [
        block
        for block in blocks(document)
        if (block.language in SHELL or block.title) and not block.not_run
    ]
    stand_ins = page_programs.write_programs(
        embedded_dir.with_name("bin")
    )  # a socket's path is short
    path = os.pathsep.join([str(stand_ins), str(Path(sys.executable).parent), os.environ["PATH"]])
    (tmp_path / "page").mkdir()
    database = await server.create(template=server.template)
    url = server.url_of(database)
    ports: dict[str, str] = {}

    def replaced(text: str) -> str:
        if name(document) not in REAL_SERVER:
            text = EMBEDDED.sub(f"'{url}'", text)
        text = URL.sub(lambda _: f"'{url}'", text)
        return PORT.sub(lambda m: ports.setdefault(m[0], str(free_port())), text)

    before = [page_programs.warm(stand_ins), *GIVEN.get(name(document), ())]
    try:
        code, printed = await run(
            "\n".join([*before, script(page, replaced)]),
            tmp_path / "page",
            PATH=path,
            ADKPG_DATABASE_URL=url,
            ADKPG_EMBEDDED_DIR=str(embedded_dir),
            BROWSER="true",  # opens nothing
            PIP_NO_INPUT="1",
            PYTHONPATH=str(CHECKOUT),
        )
        assert code == 0, f"{name(document)}:\n{printed}"
    finally:
        await server.drop(database)


@pytest.mark.program
def test_bash_can_read_what_is_not_run() -> None:
    for document in DOCUMENTS:
        for block in blocks(document, *SHELL):
            read = subprocess.run(
                ["bash", "-n"], input=block.text, capture_output=True, text=True, check=False
            )
            assert (read.returncode, read.stderr) == (0, ""), f"{name(document)}:{block.line}"
