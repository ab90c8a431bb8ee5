"""Any arguments: a command ends with 0, 1 or 2 and a sentence, never with a traceback."""

import os
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adkpg.tooling.cli import main
from tests.fakes.commands import Adkpg

# They change or start a server, or run until they are stopped.
_LONG: set[tuple[str, ...]] = {("demo",), ("worker",), ("backup",), ("restore",), ("reembed",)}
_LONG |= {("db", "upgrade"), ("db", "downgrade")}
_LONG |= {("web",), ("api-server",), ("run",), ("console",)}


def _commands(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Every command's path, and its options."""
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _commands(child, *path, name)
    elif path not in _LONG:
        options = [
            option for parameter in command.params for option in parameter.opts if "--" in option
        ]
        yield path, [*options, "--help", "--no-such-option"]


_COMMANDS = list(_commands(main))
_values = (
    st.sampled_from(
        ["", "-", "--", "a", "0", "-1", "1e9", "99999999999999999999", "30d", "2026-01-31", "{}"]
    )
    | st.sampled_from(
        ['{"k": 1}', "[1]", "../..", "/", "*", "\x1b[31m", "'; --", "%s", "null", "\n"]
    )
    | st.text(max_size=5)
).filter(lambda text: "\x00" not in text)  # no program can be given NUL


@st.composite
def _calls(draw: st.DrawFn) -> list[str]:
    path, options = draw(st.sampled_from(_COMMANDS))
    arguments = [*path]
    for _ in range(draw(st.integers(0, 5))):
        arguments += draw(
            st.sampled_from(options).map(lambda option: [option])
            | st.tuples(st.sampled_from(options), _values).map(list)
            | _values.map(lambda value: [value])
        )
    return arguments


def test_any_arguments_end_in_a_sentence(adkpg: Adkpg, database_url: str) -> None:
    @settings(max_examples=60)
    @given(_calls())
    @example(["sessions", "list", "--app", "a", "--cursor", "é"])
    @example(["doctor", "--strict"])  # of a server for tests, which warns and fails
    @example(["memory", "search", "x" * 2_000_000, "--app", "a", "--user", "u"])
    def run(arguments: list[str]) -> None:
        path = next(path for path, _ in _COMMANDS if tuple(arguments[: len(path)]) == path)
        rest = arguments[len(path) :]
        outcome = adkpg(*path, "--database-url", database_url, *rest)
        assert outcome.code in (0, 1, 2), arguments
        assert "Traceback" not in outcome.err
        if outcome.code:
            assert outcome.err.strip(), arguments

    run()


@pytest.mark.program
def test_arguments_that_are_no_text_end_in_a_sentence() -> None:
    """Not in this process: the real standard error writes what UTF-8 has no bytes for."""
    for path in (["db", "current"], ["sessions", "list", "--app"]):
        command = [sys.executable, "-m", "adkpg", *path, os.fsdecode(b"\xed"), "--no-such-option"]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == 2
        assert b"Traceback" not in done.stderr
        assert done.stderr.count(b"Error: ") == 1


def test_options_of_every_command_are_drawn() -> None:
    assert len(_COMMANDS) > 25
    assert all(options for _, options in _COMMANDS)
