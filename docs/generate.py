"""Writes docs/cli.md and docs/settings.md from the code; ``make docs`` runs it."""

import copy
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from pydantic import PositiveInt

from adkpg import Settings
from adkpg.tooling.cli import main

_HERE = Path(__file__).resolve().parent
_NOTE = "<!-- Written by docs/generate.py from the code; run `make docs` instead of editing. -->\n"
_COMPLETION = """\
The Tab key completes commands, options and choices when the shell has read this, from `~/.bashrc`,
`~/.zshrc` or `~/.config/fish/completions/adkpg.fish`:

```text
eval "$(_ADKPG_COMPLETE=bash_source adkpg)"
eval "$(_ADKPG_COMPLETE=zsh_source adkpg)"
_ADKPG_COMPLETE=fish_source adkpg | source
```
"""
_WIDTH = 80
"""Columns of a command's help; docs/assets/site.css makes room for as many."""
_SAID_ONCE = {
    "--database-url": (
        "postgresql://user:password@host/database, or embedded.  [default: ADKPG_DATABASE_URL]",
        "`--database-url URL` names the database: `postgresql://user:password@host/database`, or"
        " `embedded`. The default is `ADKPG_DATABASE_URL`.",
    ),
    "--json": ("Print JSON, and nothing else.", "`--json` prints JSON, and nothing else."),
}
"""Options that nearly every command takes: their help, which the page leaves out, and its words."""


def commands(
    command: click.Command, *path: str
) -> Iterator[tuple[tuple[str, ...], click.Command, click.Context]]:
    """Yields every group and command below one, itself first, as path, command and context."""
    context = click.Context(command, info_name=" ".join(path), terminal_width=_WIDTH)
    yield path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from commands(child, *path, name)


def cli() -> str:
    """Returns docs/cli.md: the help of every command."""
    every = [*commands(main, "adkpg")]
    parts = [_NOTE, "# Command line\n", _COMPLETION, _said_once(every)]
    for path, command, context in every:
        parts.append(f"{'#' * (len(path) + 1)} {' '.join(path)}\n")
        parts.append(f"```text\n{_shortened(command).get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


def _said_once(every: list[tuple[tuple[str, ...], click.Command, click.Context]]) -> str:
    """Explains the options that the help of the commands then lacks."""
    lines = ["The texts below leave out three options:\n", "* `--help` prints a command's help."]
    for name, (_, words) in _SAID_ONCE.items():
        without = [
            f"`{' '.join(path[1:])}`"
            for path, command, _ in every
            if not isinstance(command, click.Group)
            and not any(name in option.opts for option in command.params)
        ]
        names = f"{', '.join(without[:-1])} and {without[-1]}"
        line = f"* {words} All commands take this option except {names}."
        lines.append(textwrap.fill(line, 100, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(lines) + "\n"


def _shortened(command: click.Command) -> click.Command:
    """Returns a command without the options that the page has explained."""
    short = copy.copy(command)
    short.add_help_option = False
    short.params = [option for option in command.params if not _is_said_once(option)]
    return short


def _is_said_once(option: click.Parameter) -> bool:
    texts = [_SAID_ONCE[name][0] for name in option.opts if name in _SAID_ONCE]
    return getattr(option, "help", None) in texts


def settings() -> str:
    """Returns docs/settings.md: a table of every setting."""
    rows = [
        "| variable | values | default | meaning |",
        "|---|---|---|---|",
    ]
    prefix = Settings.model_config.get("env_prefix", "")
    for name, field in Settings.model_fields.items():
        default = "none" if field.default is None else f"`{str(field.default).lower()}`"
        meaning = (field.description or "").replace("|", "\\|")
        rows.append(f"| `{prefix}{name.upper()}` | {_values(field)} | {default} | {meaning} |")
    return "\n".join(
        [
            _NOTE,
            "# Settings\n",
            "adkpg reads the environment when a `Database` or `Settings` is made. Arguments given",
            "in code win. An empty variable counts as none. A value that cannot work is an error",
            "that names the variable, never its value. `adkpg console` also reads",
            "[`ADKPG_CONSOLE_TOKEN`](console.md).\n",
            *rows,
            "",
        ]
    )


def _values(field: Any) -> str:
    """Says what a field takes: its words, or its type with the limits of the numbers."""
    kinds = [field.annotation]
    if typing.get_origin(field.annotation) is not typing.Literal:
        kinds = [*typing.get_args(field.annotation)] or kinds
    names = [_value(kind) for kind in kinds if kind is not type(None)]
    signs = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    limits = [
        f"{sign} {getattr(rule, attribute):g}"
        for rule in field.metadata
        for attribute, sign in signs.items()
        if getattr(rule, attribute, None) is not None
    ]
    return ", ".join([*names, *limits])


def _value(kind: Any) -> str:
    """Says what one type is: its words, or its name."""
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(f"`{word}`" for word in typing.get_args(kind))
    if kind is PositiveInt:
        return "whole number, at least 1"
    return {
        "SecretStr": "text",
        "str": "text",
        "Path": "directory",
        "bool": "`true`, `false`",
        "int": "whole number",
        "float": "number",
    }[kind.__name__]


PAGES = {"cli.md": cli, "settings.md": settings}

if __name__ == "__main__":
    for page, render in PAGES.items():
        (_HERE / page).write_text(render(), encoding="utf-8")
