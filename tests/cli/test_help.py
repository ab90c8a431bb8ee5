"""Every command has a help with an example, and is documented."""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from adkpg import Settings, __version__, errors
from tests.fakes.checkout import CHECKOUT
from tests.fakes.commands import Adkpg
from tests.fakes.help import COMMANDS, GENERATE

DOCS = Path(__file__).parents[2] / "docs"


LEAVES = [name for name, (command, _) in COMMANDS.items() if not isinstance(command, click.Group)]


def options(name: str) -> set[str]:
    command, _ = COMMANDS[name]
    return {option for parameter in command.params for option in parameter.opts}


def test_the_table_of_commands_is_the_one_promised() -> None:
    assert {
        "adkpg db upgrade",
        "adkpg db current",
        "adkpg db check",
        "adkpg db downgrade",
        "adkpg db sql",
        "adkpg db url",
        "adkpg sessions list",
        "adkpg sessions show",
        "adkpg memory search",
        "adkpg memory index",
        "adkpg demo",
    } <= set(LEAVES)


PRINTED = ("adkpg db grants", "adkpg db sql")
"""Commands that print SQL and do not connect."""
OF_ADK = ("adkpg web", "adkpg api-server", "adkpg run")
"""Commands whose options are all ADK's."""


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_a_sentence_and_an_example(name: str) -> None:
    command, context = COMMANDS[name]
    text = command.get_help(context)
    assert command.get_short_help_str(limit=60).endswith(".")
    assert "..." not in command.get_short_help_str(limit=60)
    example = text.partition("Example:\n")[2].partition("\n\n")[0]
    assert name in example or isinstance(command, click.Group)
    assert "adkpg " in example


@pytest.mark.parametrize("name", COMMANDS)
def test_help_keeps_to_80_columns(name: str) -> None:
    command, _ = COMMANDS[name]
    narrow = click.Context(command, info_name=name, terminal_width=80)
    assert [line for line in command.get_help(narrow).splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", LEAVES)
def test_every_option_says_what_it_does(name: str) -> None:
    command, _ = COMMANDS[name]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, parameter.name


# The last is of the embedded server alone, and stopped.
UNCONNECTED = (*PRINTED, *OF_ADK, "adkpg db upgrade-server")


@pytest.mark.parametrize("name", [name for name in LEAVES if name not in UNCONNECTED])
def test_every_command_that_connects_takes_a_database_url(name: str) -> None:
    assert "--database-url" in options(name)


@pytest.mark.parametrize(
    "name",
    [name for name in LEAVES if name not in (*PRINTED, *OF_ADK, "adkpg demo", "adkpg console")],
)
def test_every_command_answers_as_json(name: str) -> None:
    assert "--json" in options(name)


@pytest.mark.parametrize(
    "name",
    [
        "adkpg db downgrade",
        "adkpg forget",
        "adkpg memory delete",
        "adkpg memory prune",
        "adkpg models drop",
    ],
)
def test_every_removal_can_be_tried_and_agreed_to(name: str) -> None:
    assert {"--dry-run", "--yes"} <= options(name)


@pytest.mark.parametrize("name", LEAVES)
def test_what_has_a_limit_goes_on_by_a_cursor(name: str) -> None:
    if name != "adkpg facts profile":  # a profile is its user's most important facts, no page
        assert ("--limit" in options(name)) == ("--cursor" in options(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_command_is_documented(name: str) -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert re.search(rf"^#+ {re.escape(name)}$", text, re.MULTILINE)


@pytest.mark.parametrize("page", GENERATE.PAGES)
def test_page_is_what_the_code_says(page: str) -> None:
    written = (DOCS / page).read_text(encoding="utf-8")
    assert written == GENERATE.PAGES[page](), "run: make docs"


@pytest.mark.parametrize(
    "words",
    [
        "The database URL has no scheme; did you mean",
        "The database URL begins with a quotation mark",
        "adkpg speaks to Postgres through asyncpg, not to",
        "since its host is not known",
        "refused the user or password of",
        "may not create the extension pgvector in database",
        "The settings hold what adkpg cannot use",
        "is no setting of adkpg and is ignored",
        "have waited for a vector for over a minute",
        "No database is named; set ADKPG_DATABASE_URL or give --database-url",
        "let the session's runs take turns by sessions.invocation",
    ],
)
def test_what_is_met_in_the_first_hour_is_found_by_its_text(words: str) -> None:
    assert words in (DOCS / "troubleshooting.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_has_an_entry_that_says_what_it_means(name: str) -> None:
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {name}\n\n\w.{{10,}}\.", text, re.MULTILINE)


def test_every_setting_is_explained() -> None:
    text = (DOCS / "settings.md").read_text(encoding="utf-8")
    for name, field in Settings.model_fields.items():
        assert f"| `ADKPG_{name.upper()}` |" in text
        assert field.description
        if name.endswith("_s"):
            assert "in seconds" in field.description


def test_help_answers_without_a_database(adkpg: Adkpg) -> None:
    outcome = adkpg("--help")
    assert outcome.code == 0
    assert "Commands:" in outcome.out


def test_version(adkpg: Adkpg) -> None:
    assert __version__ in adkpg("--version").out


_TYPED = re.compile(r"\badkpg((?: [a-z][a-z-]*)+)([^`\"#|,;\n]*)")
_WRITTEN = [
    CHECKOUT / "README.md",
    *sorted((CHECKOUT / "docs").rglob("*.md")),
    *sorted((CHECKOUT / "adkpg").rglob("*.py")),
]


@pytest.mark.parametrize("path", _WRITTEN, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_commands_that_are_named_have_the_options_they_are_named_with(path: Path) -> None:
    for words, rest in _TYPED.findall(path.read_text(encoding="utf-8")):
        names = ["adkpg", *words.split()]
        while len(names) > 1 and " ".join(names) not in COMMANDS:
            names.pop()
        name = " ".join(names)
        if name in LEAVES and name not in OF_ADK:
            given = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", rest))
            assert given <= options(name) | {"--help"}, (name, rest)


def test_bash_completes_after_the_line_of_the_page() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^eval .*bash_source.*$", text, re.MULTILINE)
    pressed = "COMP_WORDS=(adkpg mem); COMP_CWORD=1; _adkpg_completion adkpg; echo ${COMPREPLY[*]}"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shell = ["bash", "-c", f"{line}\n{pressed}"]
    done = subprocess.run(shell, env={"PATH": path}, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("memory\n", "")
