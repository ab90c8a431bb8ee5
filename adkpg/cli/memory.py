"""``adkpg memory``: what is remembered of users, and what an app knows for all of them."""

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click
from rich.text import Text

from adkpg.cli.connection import database_url, run
from adkpg.cli.memory_catalog import count, delete, get, list_, update
from adkpg.cli.memory_documents import add, sources
from adkpg.cli.memory_options import app, as_json, duration, filtered, user
from adkpg.cli.memory_rows import jsonable, origin_of, text_of, time_of
from adkpg.cli.memory_upkeep import config, index, jobs
from adkpg.database import Database
from adkpg.memory.filters import SearchFilters
from adkpg.memory.search.hits import Hit
from adkpg.memory.search.options import Mode
from adkpg.memory.service import PgVectorMemoryService
from adkpg.terminal import cell, console, table


@click.group()
def memory() -> None:
    """Search, list and change memories, and add documents.

    Each command works on one user's memories, or, without --user, on what the app knows for all
    its users.

    \b
    Example:
      adkpg memory search "Which city did she move to?" --app my_agent --user alice
      adkpg memory add docs/ --app my_agent
    """


@memory.command()
@click.argument("query")
@app
@user
@click.option(
    "--top-k",
    default=10,
    show_default=True,
    type=click.IntRange(min=1),
    help="At most so many memories.",
)
@click.option(
    "--min-score",
    type=click.FloatRange(-1, 1),
    help="Lowest cosine of a hit without a common word.  [default: the embedder's floor]",
)
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "vector", "text"]),
    default="hybrid",
    show_default=True,
    help="Words and meaning together, or one of them alone.",
)
@filtered
@click.option(
    "--half-life",
    callback=duration,
    metavar="SPAN",
    help="After this time a memory's score counts half: 30d, 12h.",
)
@click.option(
    "--max-tokens", type=click.IntRange(min=1), help="Most tokens of all hits, estimated."
)
@click.option(
    "--neighbours",
    default=0,
    show_default=True,
    type=click.IntRange(0, 10),
    help="With so many turns or pieces on each side of a hit.",
)
@click.option("--explain", is_flag=True, help="With the words that matched, and the factors.")
@as_json
@database_url
def search(
    query: str,
    app_name: str,
    user_id: str | None,
    top_k: int,
    min_score: float | None,
    mode: Mode,
    filters: SearchFilters,
    half_life: timedelta | None,
    max_tokens: int | None,
    neighbours: int,
    explain: bool,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Search memories, the best first.

    A user's search finds what the app knows for all its users too. The score is relative to the
    question; the cosine is the likeness in meaning, from -1 to 1; the words' score is 0 where no
    word of the question was said.

    \b
    Example:
      adkpg memory search "Which city did she move to?" --app my_agent --user alice --top-k 3
      adkpg memory search refunds --app my_agent --kind document --explain
      adkpg memory search tea --app my_agent --user alice --after 2026-01-01 --half-life 30d
    """

    async def read(database: Database) -> list[Hit]:
        service = PgVectorMemoryService(database, mode=mode)
        return await service.search(
            app_name=app_name,
            user_id=user_id,
            query=query,
            filters=filters,
            top_k=top_k,
            min_score=min_score,
            half_life=half_life,
            max_tokens=max_tokens,
            neighbours=neighbours,
        )

    hits = run(database_url, read)
    if as_json:
        click.echo(json.dumps({"hits": [_jsonable(hit) for hit in hits]}))
        return
    if not hits:
        click.echo("Nothing that is remembered answers this.")
        return
    shown = table("SCORE", "COSINE", "WORDS", "TIME", "FROM", "MEMORY")
    for hit in hits:
        reason = hit.reason
        shown.add_row(
            f"{hit.score:.3f}",
            "" if reason.cosine is None else f"{reason.cosine:.3f}",
            f"{reason.lexical:.3f}",
            cell(time_of(hit.memory.timestamp)),
            cell(origin_of(hit.memory)),
            _said(hit, explain=explain),
        )
    console().print(shown)


def _said(hit: Hit, *, explain: bool) -> Text:
    """The memory's text, and below it those around it and the reasons, if they are asked for."""
    said = cell(text_of(hit.memory))
    for neighbour in hit.neighbours:
        said += cell(f"\n  ~ {text_of(neighbour)}", "dim")
    if explain:
        reason = hit.reason
        matched = ", ".join(reason.lexemes) or "no word"
        factors = f"recency {reason.recency:.3f}, importance {reason.importance:.3f}"
        folded = f", {len(hit.folded)} alike folded" if hit.folded else ""
        said += cell(f"\n  = {matched}; {factors}{folded}", "dim")
    return said


def _jsonable(hit: Hit) -> dict[str, Any]:
    return {
        "score": hit.score,
        "cosine": hit.reason.cosine,
        "lexical": hit.reason.lexical,
        "reason": asdict(hit.reason),
        "memory": jsonable(hit.memory),
        "neighbours": [jsonable(neighbour) for neighbour in hit.neighbours],
        "folded": list(hit.folded),
    }


for command in (list_, get, count, update, delete, add, sources, config, jobs, index):
    memory.add_command(command)
