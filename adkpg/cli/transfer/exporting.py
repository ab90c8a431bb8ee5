"""``adkpg export``: an app, a person or a session, as JSON Lines or a database of ADK's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

import adkpg
from adkpg.cli.answers import say
from adkpg.cli.connection import connected
from adkpg.cli.options import app, as_json


@click.command()
@app
@click.option("--user", "user_id", help="Only this user.")
@click.option("--session", "session_id", help="Only this session of the user.")
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to a file, over what it holds.  [default: standard output]",
)
@as_json
@connected
async def export(
    database: adkpg.Database,
    app_name: str,
    user_id: str | None,
    session_id: str | None,
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Write sessions, states and memories as JSON Lines.

    `adkpg import` reads them back: sessions with their events, states, memories with facts and what
    they were drawn from, marks of deleted memories, documents, and the app's settings. With --user
    it is what is stored of a person. docs/export-format.md describes the lines. --json says what a
    file got; without a file, the lines are JSON anyway.

    \b
    Example:
      adkpg export --app my_agent --output my_agent.jsonl
      adkpg export --app my_agent --user alice > alice.jsonl
    """
    if session_id is not None and user_id is None:
        raise click.UsageError("--session needs --user, too: a session is named by both.")
    from adkpg.transfer import export as exported

    lines = exported(database, app_name=app_name, user_id=user_id, session_id=session_id)
    if output is None:
        out: IO[bytes] = sys.stdout.buffer
        async for line in lines:
            out.write(line.encode() + b"\n")
        out.flush()
        return
    file = _File(output)
    try:
        async for line in lines:
            file.write(line)
        file.finish()
    finally:
        file.close()
    say(
        f"Written: {file.path}, {file.lines} lines, {file.size} bytes.",
        {"file": str(file.path), "lines": file.lines, "bytes": file.size},
        as_json=as_json,
    )


class _File:
    """A file that appears whole or not at all, and that its owner alone may read."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        self.lines = self.size = 0
        if not self.path.parent.is_dir():
            raise click.ClickException(
                f"There is no folder {self.path.parent}; make it, or name another."
            )
        self._part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        with self._explained():
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            self._file = open(os.open(self._part, flags, 0o600), "wb")  # noqa: SIM115 - closed by close

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise click.ClickException(f"{self.path} cannot be written ({exc.strerror}).") from exc

    def write(self, line: str) -> None:
        with self._explained():
            self.size += self._file.write(line.encode() + b"\n")
        self.lines += 1

    def finish(self) -> None:
        with self._explained():
            self._file.close()
            os.replace(self._part, self.path)

    def close(self) -> None:
        with self._explained():
            self._file.close()
            self._part.unlink(missing_ok=True)
