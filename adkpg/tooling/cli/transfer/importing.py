"""``adkpg import``: sessions and tasks of ADK's databases, and what `adkpg export` wrote."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import click

import adkpg.tooling
from adkpg.tooling.cli.answers import fail
from adkpg.tooling.cli.connection import connected
from adkpg.tooling.cli.options import as_json, time
from adkpg.tooling.terminal import printable, rate_bar, show

if TYPE_CHECKING:
    from adkpg.tooling.transfer.records import Progress
    from adkpg.tooling.transfer.report import ImportReport


@click.command("import")
@click.argument("source", metavar="SOURCE")
@click.option("--app", "app_name", help="Only this app; tasks without an app become this one's.")
@click.option("--user", "user_id", help="Only this user.")
@click.option(
    "--since",
    type=time,
    metavar="TIME",
    help="Only sessions and tasks updated at this time or later.",
)
@click.option(
    "--source-timezone",
    metavar="ZONE",
    help="Time zone of the source's writer, such as Europe/Vienna, for times without one.",
)
@click.option("--source-schema", metavar="NAME", help="The Postgres schema of the source's tables.")
@click.option("--remember", is_flag=True, help="Fill the users' memory too, by the policy.")
@click.option("--dry-run", is_flag=True, help="Read and compare everything, and write nothing.")
@as_json
@connected
async def import_(
    database: adkpg.Database,
    source: str,
    app_name: str | None,
    user_id: str | None,
    since: datetime | None,
    source_timezone: str | None,
    source_schema: str | None,
    *,
    remember: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Bring in sessions and tasks of ADK's databases, or an export.

    SOURCE is a file or a URL: an export of adkpg, or a database of ADK's DatabaseSessionService
    (SQLite, Postgres, MySQL, MariaDB), of its SqliteSessionService, of adk-js or adk-go, or of
    tasks of the A2A sdk. It is only read. Running the import again writes what is missing; a
    session that is stored with other events is left alone. The import fails if something could not
    be read or differs, and lists it; everything else is stored.

    \b
    Example:
      adkpg import sqlite:///sessions.db --dry-run
      adkpg import postgresql://user:password@localhost/adk --app my_agent
      adkpg import export.jsonl
    """
    from adkpg.tooling.transfer import import_from

    with rate_bar("events") as shown:

        def progress(state: Progress) -> None:
            shown("Importing", state.done, state.total, state.events)

        report = await import_from(
            database,
            source=source,
            app_name=app_name,
            user_id=user_id,
            since=since,
            source_timezone=source_timezone,
            source_schema=source_schema,
            remember=remember,
            dry_run=dry_run,
            progress=progress,
        )
    if as_json:
        click.echo(json.dumps(report.as_json()))
    else:
        _show(report)
    if not report.complete:
        fail(_failures(report))


def _show(report: ImportReport) -> None:
    would = "would be " if report.dry_run else ""
    rows = [
        ("sessions read", report.sessions),
        (f"sessions {would}created", report.created),
        (f"sessions {would}extended", report.extended),
        ("sessions there already", report.unchanged),
        ("events read", report.events),
        (f"events {would}written", report.events_written),
        ("shared states read", report.states),
    ]
    if report.memories or report.memories_written:
        rows += [
            ("memories read", report.memories),
            ("memories written", report.memories_written),
        ]
    if report.tombstones:
        rows.append(("marks of deleted memories read", report.tombstones))
    if report.artifacts:
        rows.append(("versions of files read", report.artifacts))
    if report.rows:
        rows.append(("tasks and other rows read", report.rows))
    if report.verified:
        rows.append(("sessions compared", report.verified))
    show(("WHAT", "NUMBER"), rows)
    for note in report.notes:
        click.echo(printable(f"Note: {note}"))
    for heading, listing in (
        ("Could not be read", report.unread),
        ("Differs", report.differing),
    ):
        for sentence in listing.first:
            click.echo(printable(f"{heading}: {sentence}"))
        if listing.count > len(listing.first):
            click.echo(f"{heading}: {listing.count - len(listing.first)} more.")
    if report.dry_run:
        click.echo("Nothing was written.")


def _failures(report: ImportReport) -> list[str]:
    failures = []
    if report.unread.count:
        failures.append(
            f"{report.unread.count} of the source's records could not be read or stored whole; "
            "they are listed above with the reason, and all others were."
        )
    if report.differing.count:
        failures.append(
            f"{report.differing.count} differences between the source and what is stored are "
            "listed above; the stored data were left as they are."
        )
    return failures
