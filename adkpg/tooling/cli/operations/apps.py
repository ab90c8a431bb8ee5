"""``adkpg apps``: in which apps a person is kept."""

from __future__ import annotations

from dataclasses import asdict

import click

import adkpg.tooling
from adkpg.tooling.cli.answers import answer, time_of
from adkpg.tooling.cli.connection import connected
from adkpg.tooling.cli.options import as_json, user


@click.command()
@user
@as_json
@connected
async def apps(database: adkpg.Database, user_id: str, *, as_json: bool) -> None:
    """List the apps that store data of a person.

    Data that has expired counts, too. LAST SEEN is when a session was last updated or the latest
    memory was said, in UTC. One id in two apps may be two persons.

    \b
    Example:
      adkpg apps --user alice
      adkpg apps --user alice --json | jq -r '.apps[].app_name'
    """
    kept = await adkpg.tooling.operations.apps_of(database, user_id=user_id)
    counted = [
        asdict(each) | {"seen_at": each.seen_at.isoformat() if each.seen_at else None}
        for each in kept
    ]
    answer(
        {"user_id": user_id, "apps": counted},
        ("APP", "SESSIONS", "MEMORIES", "FILES", "LAST SEEN"),
        [
            (each.app_name, each.sessions, each.memories, each.files, time_of(jsonable["seen_at"]))
            for each, jsonable in zip(kept, counted, strict=True)
        ],
        as_json=as_json,
        nothing=f"No app keeps anything of user {user_id!r}.",
    )
