"""Help, version, completion and wrong usage answer without importing the library."""

import json
import os
import subprocess
import sys

import click
import pytest

from adkpg.memory import filters
from adkpg.tooling.cli import main
from adkpg.tooling.cli.options import KINDS
from tests.fakes.commands import Adkpg

PROGRAM = """
import contextlib, io, json, sys
from adkpg.tooling.cli import main
codes = []
for arguments in json.loads(sys.argv[1]):
    quiet = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        try:
            main(arguments, prog_name="adkpg")
        except SystemExit as ended:
            codes.append(ended.code)
print(json.dumps([codes, sorted(sys.modules)]))
"""
LIGHT = ("adkpg.tooling.cli", "adkpg.tooling.filled", "adkpg.tooling.terminal")
WING = "adkpg.tooling"
"""The package of what people run, which imports no room by itself."""
OF_ADK = {"run"}
"""Commands whose help is ADK's own."""


def paths(command: click.Command, *path: str) -> list[list[str]]:
    children = command.commands.items() if isinstance(command, click.Group) else ()
    return [[*path], *(found for name, child in children for found in paths(child, *path, name))]


def answered(*calls: list[str], **variables: str) -> tuple[list[int], list[str]]:
    """The exit codes of some calls in one process, and what of the library they imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(calls)],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    codes, modules = json.loads(done.stdout.splitlines()[-1])
    heavy = ("google.adk", "sqlalchemy", "alembic", "asyncpg", "pydantic", "numpy")
    return codes, [
        name
        for name in modules
        if name in heavy
        or (name.startswith("adkpg.") and name != WING and not name.startswith(LIGHT))
    ]


@pytest.mark.program
def test_help_and_version_import_click_alone() -> None:
    calls = [[*path, "--help"] for path in paths(main) if not OF_ADK.intersection(path)]
    codes, imported = answered(["--version"], *calls)
    assert imported == []
    assert set(codes) == {0}
    assert len(codes) > 30


@pytest.mark.program
def test_wrong_usage_imports_click_alone() -> None:
    scope = ["--app", "a", "--user", "u"]
    calls = [
        ["nosuch"],
        ["memory", "nosuch"],
        ["memory", "search"],
        ["memory", "list", *scope, "--kind", "rumour"],
        ["memory", "list", *scope, "--limit", "0"],
        ["memory", "prune", "--older-than", "365"],
        ["memory", "delete", *scope],
        ["memory", "config", "german", "--by-script", *scope[:2]],
        ["worker", "--poll-interval", "0s"],
        ["demo", "--say", "x"],
        ["forget", "--user", "u"],
    ]
    codes, imported = answered(*calls)
    assert imported == []
    assert codes == [2] * len(calls)


@pytest.mark.program
@pytest.mark.parametrize(
    "words", ["adkpg ", "adkpg memory search --k", "adkpg memory list --kind "]
)
def test_completion_imports_click_alone(words: str) -> None:
    place = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    codes, imported = answered([], _ADKPG_COMPLETE="bash_complete", **place)
    assert (codes, imported) == ([0], [])


def test_a_demo_without_the_embedded_server_says_so_before_anything_else(
    adkpg: Adkpg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if "site-packages" not in entry])
    outcome = adkpg("demo")
    assert (outcome.code, outcome.out) == (1, "")
    assert "pip install 'adkpg[embedded]'" in outcome.err
    assert outcome.err.count("\n") == 1


def test_choices_are_those_of_the_library() -> None:
    assert KINDS == filters.KINDS
