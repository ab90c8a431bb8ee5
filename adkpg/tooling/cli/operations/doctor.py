"""``adkpg doctor``: whether all is well, and what to do if not."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

import adkpg.tooling
from adkpg.tooling.cli.answers import fail
from adkpg.tooling.cli.connection import connected
from adkpg.tooling.cli.options import as_json
from adkpg.tooling.cli.switches import REMEMBERING_IS_OFF
from adkpg.tooling.terminal import printable

_STYLES = {"ok": "green", "warning": "yellow", "failure": "red"}


@click.command()
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
@as_json
@connected
async def doctor(database: adkpg.Database, *, strict: bool, as_json: bool) -> None:
    """Examine the database, and name cures.

    It prints ok, warning or failure for each check. The line below has the command that mends it;
    one with a semicolon is for psql, any other for a shell. Exits with 1 for a failure, or if no
    database answers. It changes nothing, and reads the keys of all memories.

    \b
    Example:
      adkpg doctor
      adkpg doctor --json --strict
    """
    found = await adkpg.tooling.operations.examine(database)
    if as_json:
        click.echo(json.dumps({"status": found.status, **asdict(found)}))
    else:
        for each in found.findings:
            status = click.style(f"{each.status:8}", _STYLES[each.status])
            click.echo(f"{status} {each.check:11} {_line(each.detail)}")
            for cure in (each.cure or "").splitlines():
                click.echo(f"{'':8} {'':11} {printable(cure)}")
        if not database.captures:
            click.echo(f"{'':8} {REMEMBERING_IS_OFF}")
    counted = ("failure", "warning") if strict else ("failure",)
    wrong = [each.check for each in found.findings if each.status in counted]
    if wrong:
        fail([f"Not all is well with {', '.join(wrong)}; run the commands that the report names."])


def _line(text: str) -> str:
    return printable(" ".join(text.split()))
