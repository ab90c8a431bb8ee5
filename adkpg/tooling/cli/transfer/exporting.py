"""``adkpg export``: an app, a person or a session, as JSON Lines or a database of ADK's."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

import adkpg.tooling
from adkpg.tooling.cli.answers import fail, say
from adkpg.tooling.cli.connection import connected
from adkpg.tooling.cli.options import app, as_json
from adkpg.tooling.terminal import rate_bar

_SURROUNDING = ('{"type":"export"', '{"type":"end"', '{"type":"user_state"')
"""Beginnings of lines that an export of nothing has; of a session, its user's state too."""


@click.command()
@app
@click.option("--user", "user_id", help="Only this user.")
@click.option("--session", "session_id", help="Only this session of the user.")
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to a file, and replace its content.  [default: standard output]",
)
@click.option(
    "--to",
    "url",
    metavar="URL",
    help="Write into a database of ADK's own instead, such as sqlite:///sessions.db.",
)
@click.option(
    "--no-objects",
    is_flag=True,
    help="Write only the names of files in the object store, not their bytes, for a database "
    "that takes over the store.",
)
@as_json
@connected
async def export(
    database: adkpg.Database,
    app_name: str,
    user_id: str | None,
    session_id: str | None,
    output: Path | None,
    url: str | None,
    *,
    no_objects: bool,
    as_json: bool,
) -> None:
    """Write sessions, states and memories as JSON Lines.

    `adkpg import` reads them back; docs/export-format.md describes the lines. With --user it
    exports everything that is stored of a person. --json prints a report about the file. --to
    writes sessions, events and states for ADK's own service (schema v1), without memories. The
    export fails if nothing is stored under these names, and says which apps store data of the user.

    \b
    Example:
      adkpg export --app my_agent --output my_agent.jsonl
      adkpg export --app my_agent --user alice --output alice.jsonl
      adkpg export --app my_agent --to sqlite:///sessions.db
    """
    if session_id is not None and user_id is None:
        raise click.UsageError(
            "--session needs --user, too: an id of a session is unique only for its user."
        )
    if url is not None:
        if output is not None:
            raise click.UsageError("--to and --output are two places; give one.")
        await _leave(database, url, app_name, user_id, session_id, as_json=as_json)
        return
    from adkpg.tooling.transfer import export as exported

    lines = exported(
        database,
        app_name=app_name,
        user_id=user_id,
        session_id=session_id,
        objects=not no_objects,
    )
    surrounding = _SURROUNDING if session_id is not None else _SURROUNDING[:2]
    if output is None:
        out: IO[bytes] = sys.stdout.buffer
        found = False
        async for line in lines:
            out.write(line.encode() + b"\n")
            found = found or not line.startswith(surrounding)
        out.flush()
        if not found:
            fail([await _nothing(database, app_name, user_id, session_id)])
        return
    file = _File(output)
    found = False
    try:
        async for line in lines:
            file.write(line)
            found = found or not line.startswith(surrounding)
        if not found:
            fail([await _nothing(database, app_name, user_id, session_id)])
        file.finish()
    finally:
        file.close()
    say(
        f"Written: {file.path}, {file.lines} lines, {file.size} bytes.",
        {"file": str(file.path), "lines": file.lines, "bytes": file.size},
        as_json=as_json,
    )


async def _nothing(
    database: adkpg.Database, app_name: str, user_id: str | None, session_id: str | None
) -> str:
    """Says that nothing is kept of what was to be exported, and where the user is kept."""
    if user_id is None:
        return f"Nothing is kept of app {app_name!r}."
    of = "" if session_id is None else f" session {session_id!r} of"
    said = f"Nothing is kept of{of} user {user_id!r} in app {app_name!r}"
    apps = await adkpg.tooling.operations.apps_of(database, user_id=user_id)
    others = [repr(each.app_name) for each in apps if each.app_name != app_name]
    return f"{said}; the user is kept in {', '.join(others)}." if others else f"{said}."


async def _leave(
    database: adkpg.Database,
    url: str,
    app_name: str,
    user_id: str | None,
    session_id: str | None,
    *,
    as_json: bool,
) -> None:
    from adkpg.tooling.transfer import export_to_adk

    with rate_bar("events") as shown:
        report = await export_to_adk(
            database,
            url=url,
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            progress=lambda events: shown("Exporting", 0, 0, events),
        )
    say(
        f"Written to {report.target}: {report.sessions} new sessions, {report.events} new events; "
        f"{report.known} events were there already.",
        report.as_json(),
        as_json=as_json,
    )
    if not report.read and not report.unwritten.count:
        fail([await _nothing(database, app_name, user_id, session_id)])
    if report.unwritten.count:
        fail(
            [
                *report.unwritten.first[:20],
                f"{report.unwritten.count} of the records do not fit ADK's tables; all others were "
                "written.",
            ]
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
        with self._explained():
            # Of a name that nothing can stand under already, and for its owner alone.
            descriptor, part = tempfile.mkstemp(
                prefix=f".{self.path.name[:100]}.", suffix=".part", dir=self.path.parent
            )
        self._part = Path(part)
        self._file = open(descriptor, "wb")  # noqa: SIM115 - closed by close

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
