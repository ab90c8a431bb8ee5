"""``adkpg memory``: what is remembered, and the index of the largest users."""

import json
from typing import Any

import click

from adkpg.cli.connection import database_url, run
from adkpg.database import Database
from adkpg.memory.hits import Hit
from adkpg.memory.options import Mode
from adkpg.memory.service import PgVectorMemoryService
from adkpg.terminal import cell, console, table


@click.group()
def memory() -> None:
    """Search what is remembered of a user.

    \b
    Example:
      adkpg memory search "Which city did she move to?" --app my_agent --user alice
    """


@memory.command()
@click.argument("query")
@click.option("--app", "app_name", required=True, help="The app's name.")
@click.option("--user", "user_id", required=True, help="The user's id.")
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@database_url
def search(
    query: str,
    app_name: str,
    user_id: str,
    top_k: int,
    min_score: float | None,
    mode: Mode,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Search one user's memories, the best first.

    The score is relative to the question; the cosine is the likeness in meaning, from -1 to 1;
    the words' score is 0 where no word of the question was said.

    \b
    Example:
      adkpg memory search "Which city did she move to?" --app my_agent --user alice --top-k 3
    """

    async def read(database: Database) -> list[Hit]:
        service = PgVectorMemoryService(database, mode=mode, min_score=min_score, top_k=top_k)
        return await service.search(app_name=app_name, user_id=user_id, query=query)

    hits = run(database_url, read)
    if as_json:
        click.echo(json.dumps({"hits": [_jsonable(hit) for hit in hits]}))
        return
    if not hits:
        click.echo("Nothing that is remembered answers this.")
        return
    shown = table("SCORE", "COSINE", "WORDS", "TIME", "AUTHOR", "MEMORY")
    for hit in hits:
        shown.add_row(
            f"{hit.score:.3f}",
            "" if hit.reason.cosine is None else f"{hit.reason.cosine:.3f}",
            f"{hit.reason.lexical:.3f}",
            cell((hit.memory.timestamp or "")[:19].replace("T", " ")),
            cell(hit.memory.author or ""),
            cell(_text(hit)),
        )
    console().print(shown)


@memory.command()
@database_url
def index(database_url: str | None) -> None:
    """Index users with more than ADKPG_EXACT_LIMIT memories.

    Their searches by meaning then answer from an HNSW index; everybody else's are exact and need
    none. Searches go on meanwhile. Idempotent; needs the role that migrates.

    \b
    Example:
      adkpg memory index
    """

    async def build(database: Database) -> int:
        return await PgVectorMemoryService(database).index_large_scopes()

    click.echo(f"Vectors put into the index: {run(database_url, build)}.")


def _text(hit: Hit) -> str:
    return "\n".join(part.text for part in hit.memory.content.parts or [] if part.text)


def _jsonable(hit: Hit) -> dict[str, Any]:
    return {
        "score": hit.score,
        "cosine": hit.reason.cosine,
        "lexical": hit.reason.lexical,
        "memory": hit.memory.model_dump(mode="json", exclude_none=True),
    }
