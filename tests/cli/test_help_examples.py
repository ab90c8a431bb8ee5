"""The examples in the help of every command can be typed as they are."""

import asyncio
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.cli import main
from adkpg.tooling.models import Models
from adkpg.tooling.testing import said
from tests.fakes.commands import Adkpg
from tests.fakes.help import COMMANDS

ALICE: dict[str, Any] = {"app_name": "my_agent", "user_id": "alice"}
_ENDS = {"|", ">", "&&", ")"}

ELSEWHERE = (
    ("doctor", "finds that a server for tests may lose data; tests/cli/test_doctor.py"),
    ("demo", "tells a story, which tests/demo reads"),
    ("backup", "runs pg_dump, as tests/cli/test_backup.py does"),
    ("restore", "runs pg_restore, as tests/cli/test_backup.py does"),
    ("console", "serves until it is stopped"),
    ("web", "serves until it is stopped"),
    ("api-server", "serves until it is stopped"),
    ("run", "talks until it is stopped"),
    ("worker", "works until it is stopped, without --once"),
    ("db upgrade-server", "needs another Postgres"),
    ("db url", "starts the embedded server"),
    ("db distribute", "needs a cluster"),
    ("db upgrade", "is run by every test"),
    ("db downgrade", "takes the tables away"),
    ("memory evaluate", "reads data sets; tests/cli/test_memory_evaluate.py brings some"),
    ("import", "reads other databases; tests/cli/test_transfer.py has some"),
    ("export --app my_agent --to", "writes another database"),
    ("models activate", "wants vectors of all memories; tests/cli/test_models.py has them"),
    ("reembed", "asks Gemini or OpenAI"),
    ("forget --app my_agent --user alice --artifact-service-uri", "asks a bucket"),
)


def _examples() -> Iterator[list[str]]:
    """The arguments of each ``adkpg`` that stands in a help's examples."""
    for command, context in COMMANDS.values():
        block = command.get_help(context).partition("Example:\n")[2].partition("\n\n")[0]
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = [*lexer]
            if '"$(' in line:
                words = shlex.split(line.partition("$(")[2].partition(")")[0])
            if "adkpg" not in words:
                continue
            given = words[words.index("adkpg") + 1 :]
            ends = [place for place, word in enumerate(given) if word in _ENDS]
            yield given[: ends[0]] if ends else given


EXAMPLES = [list(given) for given in dict.fromkeys(map(tuple, _examples()))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files are that examples name."""
    for name in ("docs", "notes/old", "agents/companion", "old-postgres"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("handbook.md", "docs/old.md", "notes/old/tea.txt", "export.jsonl"):
        (tmp_path / name).write_text("She drinks tea.")
    for name in ("locomo10.json", "questions.json", "before.json", "monday.dump", "sessions.db"):
        (tmp_path / name).write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_they_are_read_as_a_whole() -> None:
    for given in EXAMPLES:
        command, rest = _chosen(given)
        assert not isinstance(command, click.Group), given
        context = command.make_context(command.name, rest)
        assert context.args == [], given


def _chosen(given: list[str]) -> tuple[click.Command, list[str]]:
    command: click.Command = main
    rest = list(given)
    while isinstance(command, click.Group):
        command = command.commands[rest.pop(0)]
    return command, rest


async def _store(url: str) -> None:
    """Stores all that examples name, and what they have deleted anew."""
    async with Database(url) as database:
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, mode="text")
        for name in ("trip-1", "trip-2"):
            if await sessions.get_session(**ALICE, session_id=name) is None:
                session = await sessions.create_session(**ALICE, session_id=name)
                await sessions.append_event(session, said("I like tea."))
        notes = [
            MemoryEntry(id=name, content=types.Content(parts=[types.Part(text=f"note {name}")]))
            for name in ("note-1", "note-2")
        ]
        await memory.add_memory(**ALICE, memories=notes)
        await Models(database).add("all-MiniLM-L6-v2-int8", dimensions=384)


def _is_run(given: list[str]) -> bool:
    line = " ".join(given)
    return line == "worker --once --revive" or not line.startswith(
        tuple(start for start, _ in ELSEWHERE)
    )


def _command(given: list[str]) -> str:
    return _chosen(given)[0].name or ""


RUN = [*filter(_is_run, EXAMPLES)]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", sorted({_command(given) for given in RUN}))
def test_they_do_what_they_say(adkpg: Adkpg, database_url: str, command: str) -> None:
    failed, is_stored = {}, False
    for given in RUN:
        if _command(given) != command:
            continue
        if not is_stored:
            asyncio.run(_store(database_url))
        is_stored = not {"delete", "forget", "prune"} & {*given}
        printing = given[:2] in (["db", "sql"], ["db", "grants"])
        place = () if printing else ("--database-url", database_url)
        outcome = adkpg(*given, *place, answer="y\n")
        if outcome.code != 0:
            failed[" ".join(given)] = outcome.err
        elif "--json" in given:
            json.loads(outcome.out)
    assert failed == {}
