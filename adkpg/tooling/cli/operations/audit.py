"""``adkpg audit``: who changed what by hand."""

from __future__ import annotations

from dataclasses import asdict

import click

import adkpg.tooling
from adkpg.tooling.cli.answers import answer, time_of
from adkpg.tooling.cli.connection import connected
from adkpg.tooling.cli.options import (
    ALL_USERS,
    APP_WIDE,
    any_app,
    as_json,
    cursor,
    full,
    limit,
    whose,
)


@click.command()
@any_app
@whose(APP_WIDE, missing=ALL_USERS)
@limit("entries")
@cursor
@full
@as_json
@connected
async def audit(
    database: adkpg.Database,
    app_name: str | None,
    user_id: str | adkpg.Users,
    limit: int,
    cursor: str | None,
    *,
    full: bool,
    as_json: bool,
) -> None:
    """List who changed what by hand, newest first.

    USER is empty if the app's own rows were changed, or if the person was forgotten. OUTCOME is
    done, the error that ended the change, or begun if its end is not known.

    \b
    Example:
      adkpg audit --app my_agent --user alice
      adkpg audit --app my_agent --app-wide --json | jq -r '.entries[].action'
    """
    page = await adkpg.audit.Audit(database).entries(
        app_name=app_name, user_id=user_id, limit=limit, cursor=cursor
    )
    entries = [
        asdict(each) | {"changed_at": each.changed_at.isoformat(timespec="microseconds")}
        for each in page.items
    ]
    columns = ("actor", "app_name", "user_id", "action", "outcome", "subject")
    answer(
        {"entries": entries, "next_cursor": page.next_cursor},
        ("TIME", "WHO", "APP", "USER", "ACTION", "OUTCOME", "SUBJECT"),
        [
            (time_of(each["changed_at"]), *(each[column] or "" for column in columns))
            for each in entries
        ],
        as_json=as_json,
        nothing="The audit has no such change.",
        full=full,
    )
