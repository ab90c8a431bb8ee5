"""``adkpg memory search``: memories that answer a question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Literal

import click

import adkpg
from adkpg.tooling.cli.answers import answer, jsonable, origin_of, text_of, time_of
from adkpg.tooling.cli.connection import connected
from adkpg.tooling.cli.memory.rerankers import reranker_named
from adkpg.tooling.cli.options import app, as_json, filtered, full, limit, user_or_app
from adkpg.tooling.terminal import cell


@click.command()
@click.argument("query")
@app
@user_or_app()
@limit("memories", 10)
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "vector", "text"]),
    default="hybrid",
    show_default=True,
    help="Search by words and meaning, or by one of them.",
)
@filtered
@click.option(
    "--reranker",
    metavar="NAME",
    help="Have the best hits ordered by cohere:MODEL, tei:URL, onnx:FOLDER, or module:attribute of "
    "one of yours.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Show the words that matched, the factors, and the reranker's score.",
)
@full
@as_json
@connected
async def search(
    database: adkpg.Database,
    query: str,
    app_name: str,
    user_id: str | None,
    limit: int,
    mode: Literal["hybrid", "vector", "text"],
    filters: dict[str, Any],
    reranker: str | None,
    *,
    explain: bool,
    full: bool,
    as_json: bool,
) -> None:
    """Search memories, the best first.

    A user's search also finds what the app knows for all its users. SCORE compares hits of one
    question. COSINE is the similarity in meaning, from -1 to 1. WORDS is 0 if neither the memory
    nor a neighbouring turn contains a word of the question.

    \b
    Example:
      adkpg memory search "Which city did she move to?" --app my_agent \\
        --user alice --limit 3
      adkpg memory search refunds --app my_agent --kind document --explain
    """
    judge = None if reranker is None else reranker_named(reranker)
    memory = adkpg.PgVectorMemoryService(database, mode=mode, reranker=judge)
    if judge is not None:
        await memory.warm()  # a search would not wait until a local model is loaded
    hits = await memory.search(
        app_name=app_name,
        user_id=user_id,
        query=query,
        filters=adkpg.SearchFilters(**filters),
        top_k=limit,
    )
    answer(
        {"hits": [_jsonable(hit) for hit in hits]},
        ("SCORE", "COSINE", "WORDS", "TIME", "FROM", "MEMORY"),
        [row for hit in hits for row in _rows(hit, explain=explain)],
        as_json=as_json,
        nothing="Nothing that is remembered answers this.",
        full=full or explain,
        footer="SCORE: the higher the better; it compares hits of one search only.",
    )
    why = next((hit.reason.fused_alone for hit in hits if hit.reason.fused_alone), None)
    if why is not None:
        click.echo(f"The search kept its own order: {why}", err=True)
    why = next((hit.reason.own_alone for hit in hits if hit.reason.own_alone), None)
    if why is not None:
        click.echo(
            f"The memories that the app shares with all its users are missing: {why}", err=True
        )


def _rows(hit: adkpg.Hit, *, explain: bool) -> Iterator[tuple[object, ...]]:
    """The memory, and below it the reasons, if they are asked for."""
    reason = hit.reason
    yield (
        f"{hit.score:.3f}",
        "" if reason.cosine is None else f"{reason.cosine:.3f}",
        f"{reason.lexical:.3f}",
        time_of(hit.memory.timestamp),
        origin_of(hit.memory),
        text_of(hit.memory),
    )
    below = []
    if explain:
        matched = ", ".join(reason.lexemes) or "no word"
        factors = f"recency {reason.recency:.3f}, importance {reason.importance:.3f}"
        judged = "" if reason.rerank is None else f", reranker {reason.rerank:.3f}"
        folded = f", {len(hit.folded)} alike folded" if hit.folded else ""
        below.append(f"= {matched}; {factors}{judged}{folded}")
    for text in below:
        yield ("", "", "", "", "", cell(text, "dim"))


def _jsonable(hit: adkpg.Hit) -> dict[str, Any]:
    return {
        "score": hit.score,
        "cosine": hit.reason.cosine,
        "lexical": hit.reason.lexical,
        "reason": asdict(hit.reason),
        "memory": jsonable(hit.memory),
        "folded": list(hit.folded),
    }
