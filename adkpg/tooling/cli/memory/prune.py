"""``adkpg memory prune``: erases memories that expired, faded or are too many."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

import click

import adkpg
from adkpg.tooling.cli.connection import database_url, run
from adkpg.tooling.cli.options import ALL_USERS, APP_WIDE, KINDS, MOST, app_or_all, span, whose
from adkpg.tooling.cli.removal import Removal, removes
from adkpg.tooling.terminal import show

_REASONS = ("expired", "superseded", "faded", "surplus", "drawn", "total")


@click.command()
@app_or_all
@whose(APP_WIDE, ALL_USERS)
@click.option("--older-than", type=span, help="Erase memories older than this.")
@click.option(
    "--max-importance",
    type=click.FloatRange(0, 1),
    help="Erase memories of at most this importance; with --older-than only the old ones.",
)
@click.option(
    "--max-memories",
    type=click.IntRange(0, MOST),
    help="Keep at most this many of each user, the most important and latest.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(KINDS),
    help="Apply those three rules to this kind; repeatable.  [default: all except document]",
)
@click.option("--superseded", is_flag=True, help="Also erase facts that others replaced.")
@removes
@database_url
def prune(
    app_name: str | None,
    user_id: str | adkpg.Users,
    older_than: timedelta | None,
    max_importance: float | None,
    max_memories: int | None,
    kinds: tuple[str, ...],
    superseded: bool,
    database_url: str | None,
    **consent: bool,
) -> None:
    """Erase memories that are old, unimportant or too many.

    Expired memories are always erased, others by the given rules. Facts and summaries that were
    drawn from an erased memory are erased with it. FADED counts the memories of --older-than and
    --max-importance, SURPLUS those above --max-memories, and DRAWN the facts and summaries.
    Memories of the app itself are erased only if they expired or were superseded.

    \b
    Example:
      adkpg memory prune --all-apps --all-users --dry-run
      adkpg memory prune --app my_agent --all-users --older-than 365d \\
        --max-importance 0.3
      adkpg memory prune --app my_agent --user alice --max-memories 5000 --yes
    """
    chosen = {"kinds": kinds} if kinds else {}

    def erase(dry_run: bool) -> list[adkpg.erasure.Pruned]:
        return run(
            database_url,
            lambda database: adkpg.erasure.prune(
                database,
                app_name=app_name,
                user_id=user_id,
                older_than=older_than,
                max_importance=max_importance,
                max_memories=max_memories,
                superseded=superseded,
                dry_run=dry_run,
                **chosen,
            ),
        )

    Removal(
        remove=erase,
        show=_show,
        jsonable=lambda pruned: {"pruned": [asdict(each) for each in pruned]},
        question="Erase these memories for good?",
        nothing="There is no memory to erase.",
    ).carry_out(**consent)


def _show(pruned: list[adkpg.erasure.Pruned]) -> None:
    rows = [
        (
            each.app_name,
            "(app-wide)" if each.user_id is None else each.user_id,
            *(getattr(each, reason) for reason in _REASONS),
        )
        for each in pruned
    ]
    show(("APP", "USER", *(reason.upper() for reason in _REASONS)), rows)
