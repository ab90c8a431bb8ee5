"""Switches: what is off when a command begins, though people expect it to be on."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import click

import adkpg

REMEMBERING_IS_OFF = (
    "Remembering is off, so nothing that is said becomes memory by itself; set "
    "ADKPG_REMEMBER=true, or =redacted to leave out keys and passwords."
)

_TIMEOUT_S = 3.0
_LONG_S = 600.0


def say_switches() -> None:
    """Says on standard error what the settings leave off, and which work no worker does.

    It says nothing of a database that does not answer, because the command itself does so.
    """
    settings = adkpg.Settings()
    if settings.database_url is None:
        return
    say_remembering(remembers=bool(settings.remember))
    if settings.embedder == "none":
        click.echo(
            "ADKPG_EMBEDDER=none, so memory is searched by words alone, not by meaning; unset it, "
            "or name an embedder.",
            err=True,
        )
    if settings.database_url.get_secret_value().strip() not in ("embedded", "adkpg://embedded"):
        asyncio.run(_say_idle())


def say_remembering(*, remembers: bool) -> None:
    """Says on standard error that remembering is off, if it is."""
    if not remembers:
        click.echo(REMEMBERING_IS_OFF, err=True)


async def say_waiting(
    database: adkpg.Database, *, done: Collection[str], longest_s: float = 0.0
) -> None:
    """Says on standard error which work waits without a worker for it.

    Args:
      database: Where it waits.
      done: The kinds of work that this process does; nothing is said of them.
      longest_s: How long the first may have waited, in seconds.

    Raises:
      AdkpgError: The database does not answer, or its tables are not those of this version.
    """
    from adkpg.tooling.operations.memory_statements import select_queue

    for row in await database.run.fetch(select_queue()):
        if row["work"] in done or not row["waiting"] or row["oldest_s"] <= longest_s:
            continue
        extract = row["work"] == "extract"
        click.echo(
            f"{row['waiting']} memories wait for {'facts' if extract else 'their vectors'}, the "
            f"first for {row['oldest_s'] / 60:.0f} minutes; start adkpg worker"
            f"{' --extract MODEL' if extract else ''}.",
            err=True,
        )


async def _say_idle() -> None:
    from adkpg.errors import AdkpgError

    once = adkpg.Settings(auto_upgrade=False).model_copy(update={"retry_timeout_s": 0.0})
    try:
        with adkpg.every_scope():
            async with asyncio.timeout(_TIMEOUT_S), adkpg.Database(settings=once) as database:
                await say_waiting(database, done=(), longest_s=_LONG_S)
    except (AdkpgError, TimeoutError):
        pass
