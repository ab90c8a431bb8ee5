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
OF_ADK = ("adkpg run",)
"""Commands whose options are all ADK's."""
SERVERS = ("adkpg web", "adkpg api-server")
"""Commands that serve ADK's app, on services that URIs name."""


def test_help_has_a_sentence_and_an_example() -> None:
    for name, (command, context) in COMMANDS.items():
        text = command.get_help(context)
        assert command.get_short_help_str(limit=60).endswith("."), name
        assert "..." not in command.get_short_help_str(limit=60), name
        example = text.partition("Example:\n")[2].partition("\n\n")[0]
        assert name in example or isinstance(command, click.Group)
        assert "adkpg " in example, name


def test_help_keeps_to_80_columns() -> None:
    for name, (command, _) in COMMANDS.items():
        narrow = click.Context(command, info_name=name, terminal_width=80)
        assert [line for line in command.get_help(narrow).splitlines() if len(line) > 80] == []


def test_every_option_says_what_it_does() -> None:
    for name in LEAVES:
        for parameter in COMMANDS[name][0].params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.help, (name, parameter.name)


# The last is of the embedded server alone, and stopped.
UNCONNECTED = {*PRINTED, *OF_ADK, *SERVERS, "adkpg db upgrade-server"}
INTERACTIVE = {"adkpg demo", "adkpg console"}


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


def test_commands_are_documented() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert {*COMMANDS} <= {*re.findall(r"^#+ (adkpg.*)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", GENERATE.PAGES)
def test_page_is_what_the_code_says(page: str) -> None:
    written = (DOCS / page).read_text(encoding="utf-8")
    assert written == GENERATE.PAGES[page](), "run: make docs"


MET_IN_THE_FIRST_HOUR = (
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
)


def test_what_is_met_in_the_first_hour_is_found_by_its_text() -> None:
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert [words for words in MET_IN_THE_FIRST_HOUR if words not in text] == []


def test_every_error_has_an_entry_that_says_what_it_means() -> None:
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert {*errors.__all__} <= {*re.findall(r"^## (\w+)\n\n\w.{10,}\.", text, re.MULTILINE)}


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
@pytest.mark.program
def test_bash_completes_after_the_line_of_the_page() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^eval .*bash_source.*$", text, re.MULTILINE)
    pressed = "COMP_WORDS=(adkpg mem); COMP_CWORD=1; _adkpg_completion adkpg; echo ${COMPREPLY[*]}"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shell = ["bash", "-c", f"{line}\n{pressed}"]
    done = subprocess.run(shell, env={"PATH": path}, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("memory\n", "")
