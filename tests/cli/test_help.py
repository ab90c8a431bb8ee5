"""Every command has a help, and takes the options that all commands of its kind take."""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from adkpg import __version__
from tests.fakes.checkout import CHECKOUT
from tests.fakes.commands import Adkpg
from tests.fakes.help import COMMANDS, GENERATE
from tests.fakes.pages import blocks

DOCS = CHECKOUT / "docs"
LEAVES = [name for name, (command, _) in COMMANDS.items() if not isinstance(command, click.Group)]
PRINTED = ("adkpg db grants", "adkpg db sql")
"""Commands that print SQL and do not connect."""
OF_ADK = ("adkpg run",)
"""Commands whose options are all ADK's."""
SERVERS = ("adkpg web", "adkpg api-server")
"""Commands that serve ADK's app, on services that URIs name."""
# The last is of the embedded server alone, and stopped.
UNCONNECTED = {*PRINTED, *OF_ADK, *SERVERS, "adkpg db upgrade-server"}
INTERACTIVE = {"adkpg demo", "adkpg console"}


def options(name: str) -> set[str]:
    command, _ = COMMANDS[name]
    return {option for parameter in command.params for option in parameter.opts}


def test_every_command_has_a_help(adkpg: Adkpg) -> None:
    for name in COMMANDS:
        outcome = adkpg(*name.split()[1:], "--help")
        assert (outcome.code, outcome.err) == (0, ""), name
        assert outcome.out.startswith(f"Usage: {name}"), name


def test_every_command_that_connects_takes_a_database_url() -> None:
    without = {name for name in LEAVES if "--database-url" not in options(name)}
    assert without <= UNCONNECTED


def test_every_command_answers_as_json() -> None:
    without = {name for name in LEAVES if "--json" not in options(name)}
    assert without <= {*PRINTED, *OF_ADK, *SERVERS, *INTERACTIVE}


def test_every_removal_can_be_tried_and_agreed_to() -> None:
    for name in ("db downgrade", "forget", "memory delete", "memory prune", "models drop"):
        assert {"--dry-run", "--yes"} <= options(f"adkpg {name}"), name


def test_what_has_a_limit_goes_on_by_a_cursor() -> None:
    # A search is its best hits, no page.
    for name in {*LEAVES} - {"adkpg memory search"}:
        assert ("--limit" in options(name)) == ("--cursor" in options(name)), name


def test_the_pages_are_what_the_code_says() -> None:
    for page, render in GENERATE.PAGES.items():
        assert (DOCS / page).read_text(encoding="utf-8") == render(), "run: make docs"


def test_the_page_fits_its_column() -> None:
    help_texts = [block.text for block in blocks(DOCS / "cli.md", "text")]
    assert not [line for text in help_texts for line in text.splitlines() if len(line) > 80]


def test_the_page_says_once_what_nearly_every_command_takes() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert not re.search(r"^  --(help|json)  ", text, re.MULTILINE)
    for name in ("--database-url", "--json"):
        (line,) = re.findall(rf"^\* `{name}.*?\.$(?=\n\S|\n\n)", text, re.MULTILINE | re.DOTALL)
        excepted = re.findall(r"`([a-z -]+)`", " ".join(line.partition("except")[2].split()))
        assert {f"adkpg {each}" for each in excepted} == {
            leaf for leaf in LEAVES if name not in options(leaf)
        }


def test_version(adkpg: Adkpg) -> None:
    assert __version__ in adkpg("--version").out


_TYPED = re.compile(r"\badkpg((?: [a-z][a-z-]*)+)([^`\"#|,;\n]*)")
_WRITTEN = [
    CHECKOUT / "README.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((CHECKOUT / "adkpg").rglob("*.py")),
]


def test_commands_that_are_named_have_the_options_they_are_named_with() -> None:
    for path in _WRITTEN:
        for words, rest in _TYPED.findall(path.read_text(encoding="utf-8")):
            names = ["adkpg", *words.split()]
            while len(names) > 1 and " ".join(names) not in COMMANDS:
                names.pop()
            name = " ".join(names)
            if name in LEAVES and name not in OF_ADK:
                given = set(re.findall(r"(?<![\w-])--[a-z][a-z_-]+", rest))
                assert given <= options(name) | {"--help"}, (path, name, rest)


@pytest.mark.program
def test_bash_completes_after_the_line_of_the_page() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^eval .*bash_source.*$", text, re.MULTILINE)
    pressed = "COMP_WORDS=(adkpg mem); COMP_CWORD=1; _adkpg_completion adkpg; echo ${COMPREPLY[*]}"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shell = ["bash", "-c", f"{line}\n{pressed}"]
    done = subprocess.run(shell, env={"PATH": path}, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("memory\n", "")
