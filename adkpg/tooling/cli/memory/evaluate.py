"""``adkpg memory evaluate``: how well memory recalls, on a file of questions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

import adkpg.tooling
from adkpg.tooling.cli.answers import fail
from adkpg.tooling.cli.connection import database_url, run
from adkpg.tooling.cli.memory.rerankers import reranker_named
from adkpg.tooling.cli.options import as_json, user_or_app
from adkpg.tooling.terminal import bars, printable, show

if TYPE_CHECKING:
    from adkpg.reranking import Reranker
    from adkpg.tooling.evaluation import DataSet, Estimate, Evaluation

    Told = Callable[[str, int, int], None]

_MODES = ("text", "vector", "hybrid")


@click.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path), metavar="FILE")
@click.option("--app", "app_name", help="Ask the stored memories of this app, and write nothing.")
@user_or_app(user="The user whose memories answer questions that name no user.")
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(_MODES),
    help="Search by words and meaning, or by one of them; repeated, side by side.  "
    "[default: hybrid]",
)
@click.option("--stores", type=click.IntRange(1), metavar="N", help="The first N stores only.")
@click.option(
    "--questions", type=click.IntRange(1), metavar="N", help="The first N questions of each store."
)
@click.option(
    "--min-recall",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit with 1 if recall@10 is below this, in any mode.",
)
@click.option(
    "--min-mrr",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit with 1 if MRR is below this, in any mode.",
)
@click.option(
    "--compare",
    "earlier",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The output of an earlier --json: show the differences, and exit with 1 if recall@10 or "
    "MRR fell beyond chance.",
)
@click.option(
    "--misses",
    default=0,
    type=click.IntRange(0),
    metavar="N",
    help="List N questions whose answers are not all among the first ten.",
)
@click.option(
    "--vectors",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep a data set's vectors there for the next run.",
)
@click.option(
    "--reranker",
    metavar="NAME",
    help="Measure each mode reranked, too: cohere:MODEL, tei:URL, onnx:FOLDER, or "
    "module:attribute of one of yours.",
)
@click.option(
    "--gather",
    is_flag=True,
    help="Measure each mode also with all that it gathers, by tokens.",
)
@as_json
@database_url
def evaluate(
    file: Path,
    app_name: str | None,
    user_id: str | None,
    modes: tuple[Literal["text", "vector", "hybrid"], ...],
    stores: int | None,
    questions: int | None,
    min_recall: float | None,
    min_mrr: float | None,
    earlier: Path | None,
    misses: int,
    vectors: Path | None,
    reranker: str | None,
    gather: bool,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Measure how well memory recalls, on a file of questions.

    FILE is a data set's own file (LoCoMo, LongMemEval, BEAM, MSC), conversations with questions of
    yours, or questions alone; JSON or JSON lines, also as .gz. Conversations are remembered in a
    database of their own on the server, which is dropped at the end. Questions alone are asked of
    the stored memories of --app. docs/evaluation.md describes the formats and figures.

    \b
    Example:
      adkpg memory evaluate locomo10.json --mode text --mode hybrid
      adkpg memory evaluate questions.json --app my_agent --user alice \\
        --min-recall 0.8
      adkpg memory evaluate questions.json --app my_agent --json > before.json
      adkpg memory evaluate questions.json --app my_agent --compare before.json
    """
    from adkpg.tooling import evaluation
    from adkpg.tooling.evaluation.evaluation import losses

    if user_id is not None and app_name is None:
        raise click.UsageError("--user goes with --app APP.")
    if vectors is not None and app_name is not None:
        raise click.UsageError("--vectors goes with conversations, which need no --app.")
    kept = _kept(earlier)
    data = evaluation.read(file).first(stores=stores, questions=questions)
    chosen = list(modes) or ["hybrid"]
    judge = reranker_named(reranker) if reranker is not None else None
    with bars() as told:
        if app_name is not None:
            found = run(database_url, _stored(data, app_name, user_id, chosen, judge, gather, told))
        else:
            found = _apart(database_url, data, chosen, judge, gather, vectors, told)
    since = found.since(kept) if kept is not None else {}
    failed = [
        f"{name} of {way} is {report.estimates[name].mean:.3f}, below {least:g}."
        for way, report in found.reports.items()
        for name, least in (("recall@10", min_recall), ("MRR", min_mrr))
        if least is not None and report.estimates[name].mean < least
    ]
    failed += losses(since)
    if as_json:
        click.echo(json.dumps(_document(found, since)))
    else:
        _print(found, since, misses)
    if failed:
        fail(failed)


def _stored(
    data: DataSet,
    app_name: str,
    user_id: str | None,
    modes: list[Any],
    reranker: Reranker | None,
    gathered: bool,
    told: Told,
) -> Callable[[adkpg.Database], Awaitable[Evaluation]]:
    from adkpg.tooling import evaluation

    async def asked(database: adkpg.Database) -> Evaluation:
        words = modes == ["text"]
        memory = adkpg.PgVectorMemoryService(
            database, mode="text" if words else "hybrid", reranker=reranker
        )
        return await evaluation.evaluate_stored(
            data,
            memory=memory,
            app_name=app_name,
            user_id=user_id,
            modes=modes,
            reranked=reranker is not None,
            gathered=gathered,
            told=told,
        )

    return asked


def _apart(
    url: str | None,
    data: DataSet,
    modes: list[Any],
    reranker: Reranker | None,
    gathered: bool,
    vectors: Path | None,
    told: Told,
) -> Evaluation:
    import asyncio
    import signal

    from adkpg.tooling import evaluation

    settings = adkpg.Settings()
    named = settings.direct_url or settings.database_url
    server = url or (named.get_secret_value() if named else "embedded")
    # What CI ends must not leave its database behind, either.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with adkpg.every_scope():  # a command is an operator's
            return asyncio.run(
                evaluation.evaluate_apart(
                    data,
                    server_url=server,
                    modes=modes,
                    reranker=reranker,
                    gathered=gathered,
                    vectors=vectors,
                    told=told,
                )
            )
    finally:
        signal.signal(signal.SIGTERM, before)


def _kept(earlier: Path | None) -> Mapping[str, Any] | None:
    if earlier is None:
        return None
    try:
        kept = json.loads(earlier.read_text(encoding="utf-8"))
    except UnicodeDecodeError as exc:  # as PowerShell's > writes
        raise click.UsageError(f"{earlier} is not text in UTF-8; save it as UTF-8.") from exc
    except (OSError, ValueError, RecursionError) as exc:
        raise click.UsageError(
            f"{earlier} is not JSON ({exc}); give a file that --json wrote."
        ) from exc
    if not isinstance(kept, dict):
        raise click.UsageError(f"{earlier} is not an earlier run; give a file that --json wrote.")
    return kept


def _document(found: Evaluation, since: Mapping[str, Mapping[str, Estimate]]) -> dict[str, Any]:
    from dataclasses import asdict

    compared = {
        way: {name: asdict(each) for name, each in differences.items()}
        for way, differences in since.items()
    }
    return found.document() | ({"compared": compared} if compared else {})


def _print(found: Evaluation, since: Mapping[str, Mapping[str, Estimate]], misses: int) -> None:
    from adkpg.tooling.evaluation import tabulation

    def searches(number: int) -> str:
        return tabulation.counted(number, "search", "searches")

    for sentence in tabulation.sentences(found.data):
        click.echo(printable(sentence))
    tables = tabulation.tables(found)
    if since:
        tables.append(tabulation.compared("SINCE THEN", since))
    for columns, rows in tables:
        click.echo()
        show(columns, rows)
    for way, report in found.reports.items():
        if report.words_alone:
            click.echo(
                f"\nWords alone answered {searches(report.words_alone)} in mode {way}: the "
                "embedder failed, was too slow, or is not the app's."
            )
        if report.own_alone:
            click.echo(
                f"\n{searches(report.own_alone)} of {way} lacked the memories of the app itself: "
                "the cluster's node that has them was away."
            )
        if report.fused_alone:
            click.echo(f"\n{searches(report.fused_alone)} of {way} got no answer of the reranker.")
    if misses:
        click.echo()
        show(
            ("RECALL@10", "MODE", "QUESTION"),
            [(f"{miss.recall:.3f}", miss.way, miss.question) for miss in found.misses[:misses]],
        )
