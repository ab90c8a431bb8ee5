"""Writes the pages of docs/ that are made from the code; ``make docs`` runs it."""

import importlib
import inspect
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from messages import Module  # beside this script
from pydantic import PositiveInt

from adkpg import Settings, errors
from adkpg.cli import main

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


def commands(
    command: click.Command, *path: str
) -> Iterator[tuple[tuple[str, ...], click.Command, click.Context]]:
    """Yields every group and command below one, itself first, as path, command and context."""
    context = click.Context(command, info_name=" ".join(path), max_content_width=100)
    context.terminal_width = 100
    yield path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from commands(child, *path, name)


def cli() -> str:
    """Returns docs/cli.md: the help of every command."""
    parts = [_NOTE, "# Command line\n", _COMPLETION]
    for path, command, context in commands(main, "adkpg"):
        parts.append(f"{'#' * (len(path) + 1)} {' '.join(path)}\n")
        parts.append(f"```text\n{command.get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


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
            "Each is read from the environment when a `Database` or `Settings` is made; arguments",
            "given in code win. An empty variable counts as none. A value that cannot work is an",
            "error that names the variable.\n",
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


_ADVICE = {
    "ArtifactGone": "[Files](artifacts.md).",
    "ArtifactStoreError": "[Files](artifacts.md).",
    "Busy": "Try again. If it comes often: [connections](deployment/connections.md).",
    "ConfigurationError": "Correct what the sentence names: [settings](settings.md).",
    "DatabaseUnavailable": "adkpg has repeated the call for `ADKPG_RETRY_TIMEOUT_S` "
    "already. Look whether the server runs, and whether host, port, user and database of the "
    "sentence are what you meant: "
    "[connections](deployment/connections.md), [TLS](deployment/tls.md), [poolers](poolers.md).",
    "DiskFull": "[When something is wrong](incidents.md).",
    "EventConflict": "[Sessions](sessions.md).",
    "ExtensionMissing": "[What adkpg needs](upgrades.md#what-it-needs).",
    "InvalidInput": "Nothing was written. [Limits](limits.md) has what is too large.",
    "InvalidArtifact": "[Files](artifacts.md).",
    "InvocationLost": "[Invocations](invocations.md).",
    "PermissionDenied": "[Roles](isolation.md#roles).",
    "ReadOnly": "[Failover](failover.md).",
    "SchemaError": "`adkpg db upgrade`: [upgrades](upgrades.md).",
    "ScopeMissing": "[Row-level security](isolation.md#row-level-security).",
    "SessionExists": "[Sessions](sessions.md).",
    "SessionNotFound": "[Sessions](sessions.md).",
    "StaleSession": "Load the session again, or let requests queue: "
    "[several requests at the same time](sessions.md#several-requests-at-the-same-time), "
    "[what a failover loses](failover.md#what-a-failover-loses).",
    "EmbeddedServerError": "Any other Postgres does as well: set `ADKPG_DATABASE_URL`.",
    "ModelNotActive": "[Changing the model](models.md#changing-the-model).",
    "ModelError": "[Changing the model](models.md#changing-the-model).",
    "ModelUnavailable": "Memories wait, and words find them meanwhile: "
    "[embedders](embedders.md#an-embedder-that-hangs-or-is-away).",
}


_FURTHER = {
    "At the command line": "What commands say on standard error and end with 1 or 2.",
    "Warnings": "What is logged at WARNING or ERROR while adkpg goes on: [logging](logging.md).",
    "In the report of an import": "Why a line or row could not be read: [moving](moving.md).",
}
_KINDS = {
    "ClickException": "At the command line",
    "UsageError": "At the command line",
    "BadParameter": "At the command line",
    "fail": "At the command line",
    "warning": "Warnings",
    "error": "Warnings",
    "exception": "Warnings",
}
_OF_REPORTS = {"ValueError": "In the report of an import"}


def troubleshooting() -> str:
    """Returns docs/troubleshooting.md: each error, and the sentences that the code says it in."""
    sentences: dict[str, set[str]] = {name: set() for name in (*errors.__all__, *_FURTHER)}
    for path in sorted((_HERE.parent / "adkpg").rglob("*.py")):
        kinds = _KINDS | (_OF_REPORTS if "transfer" in path.parts else {})
        for name, said in Module(path).said([*errors.__all__, *kinds]):
            sentences[kinds.get(name, name)].add(said)
    parts = [
        _NOTE,
        "# Troubleshooting: every error, by its message\n",
        "Search this page for some words of the message. A … stands for what differs: a host, a",
        "name, a number. Each message says cause and cure; what the driver said is the",
        "exception's `__cause__`. The classes are in `adkpg.errors`; those that ADK has a type for",
        "are subclasses of it.\n",
        "A sentence that names `ADKPG_…` is about a [setting](settings.md). What adkpg logs is in",
        "[logging](logging.md). Is all well? `adkpg doctor` ([operations](operations.md)).\n",
    ]
    for name in errors.__all__:
        raised = getattr(errors, name)
        parents = [p.__name__ for p in raised.__bases__ if p.__module__.startswith("adkpg")]
        kind = f" A kind of {' and '.join(f'`{parent}`' for parent in parents)}." if parents else ""
        parts += [f"## {name}\n", f"{(inspect.getdoc(raised) or '').splitlines()[0]}{kind}"]
        parts += [f"{_ADVICE[name]}\n"] if name in _ADVICE else [""]
        parts += [f"* {_literal(said)}" for said in sorted(sentences[name])]
        parts += [""] if sentences[name] else []
    for name, meaning in _FURTHER.items():
        parts += [f"## {name}\n", f"{meaning}\n"]
        parts += [f"* {_literal(said)}" for said in sorted(sentences[name])] + [""]
    parts += ["## ADK's own\n", "What ADK says while it looks for adkpg.\n"]
    parts += [f"* {_literal(said)}: {cure}" for said, cure in _OF_ADK.items()]
    return "\n".join(parts).rstrip() + "\n"


_OF_ADK = {
    "Invalid database URL format or argument '…'.": "`adk` has read no `services.py` that knows "
    "`adkpg://`; `adkpg run`, `adkpg web` and `adkpg api-server` need none: [serving](serving.md).",
}


def _literal(text: str) -> str:
    """Returns a text that Markdown shows as it is."""
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


REFERENCE = {
    "adkpg": "Databases, sessions, memory, files",
    "adkpg.adk": "ADK's commands, plugins, middleware",
    "adkpg.artifacts": "Files",
    "adkpg.audit": "The audit",
    "adkpg.console": "The console",
    "adkpg.documents": "Documents",
    "adkpg.embedding": "Embedders",
    "adkpg.erasure": "Erasing",
    "adkpg.errors": "Errors",
    "adkpg.evaluation": "Evaluation",
    "adkpg.facts": "Facts",
    "adkpg.models": "Models",
    "adkpg.operations": "Operations",
    "adkpg.reranking": "Rerankers",
    "adkpg.testing": "Testing",
    "adkpg.tools": "Tools",
    "adkpg.transfer": "Moving",
}
"""Every public package, and what is in it."""


def reference(package: str) -> Callable[[], str]:
    """Returns what writes the page of a package, which mkdocstrings fills from its docstrings."""

    def page() -> str:
        module = importlib.import_module(package)
        # A function that is called as its own module is taken for that module.
        hidden = [
            f"\n::: {package}.{name}.{name}\n    options: {{show_root_heading: true}}\n"
            for name in module.__all__
            if getattr(getattr(module, name), "__module__", "") == f"{package}.{name}"
        ]
        return "".join([f"{_NOTE}\n# {package}\n\n::: {package}\n", *hidden])

    return page


PAGES = {
    "cli.md": cli,
    "settings.md": settings,
    "troubleshooting.md": troubleshooting,
    **{f"reference/{package}.md": reference(package) for package in REFERENCE},
}

if __name__ == "__main__":
    for page, render in PAGES.items():
        (_HERE / page).parent.mkdir(exist_ok=True)
        (_HERE / page).write_text(render(), encoding="utf-8")
