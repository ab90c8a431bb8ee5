"""Other constants of the ranking, tried on data sets by the replica, question by question.

    python -m benchmarks.scripts.ranking FILE [FILE ...] --set vector=1 --set covered=0.5
                                         [--vectors FOLDER]

FILE is one that `adkpg memory evaluate` takes. Prints recall@10 and MRR with the constants as they
are and as they are set, with the paired difference and its 95 % bootstrap interval; FOLDER keeps
the vectors of each file for the next run. A value is a number, or numbers with commas between.
"""

import argparse
import asyncio
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from adkpg.embedding.default import default_embedder
from adkpg.embedding.embedder import floor_of
from adkpg.memory.search.ranking import RANKING, Ranking
from adkpg.settings import Settings
from adkpg.tooling.evaluation import read
from adkpg.tooling.evaluation.asking import ask
from adkpg.tooling.evaluation.evaluation import remembered
from adkpg.tooling.evaluation.figures import differences
from adkpg.tooling.evaluation.remembering import APP
from benchmarks.replica import Asked, Replica, read_question, read_scope

FIGURES = ("recall@10", "MRR")


async def measure(path: Path, ranking: Ranking, vectors: Path | None, table: Table) -> None:
    data = read(path)
    embedder = default_embedder(Settings().embedder)
    kept = None if vectors is None else vectors / f"{path.name}.vectors"
    async with remembered("embedded", data.stores, embedder=embedder, vectors=kept) as (
        memory,
        measured,
    ):
        scopes = {
            store.name: await read_scope(memory.database, APP, store.name) for store in data.stores
        }
        questions: dict[tuple[str, datetime], Asked] = {}
        for store in data.stores:
            end = max(turn.moment for chat in store.chats for turn in chat.turns)
            for question in store.questions:
                moment = question.moment or end
                questions[question.text, moment] = await read_question(
                    memory.database, APP, question.text, moment, measured
                )
    floor = 0.0 if embedder is None else floor_of(embedder)
    reports = [
        (
            await ask(path.name, Replica(scopes, questions, floor, ranking=each), data.stores)
        ).report()
        for each in (RANKING, ranking)
    ]
    before, after = reports
    found = differences(after.per_question, before.per_question, FIGURES)
    for name in FIGURES:
        means = [f"{report.estimates[name].mean:.3f}" for report in reports]
        each = found[name]
        table.add_row(
            path.name, name, *means, f"{each.mean:+.3f} [{each.low:+.3f}, {each.high:+.3f}]"
        )


def constant(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or name not in Ranking.__dataclass_fields__:
        raise argparse.ArgumentTypeError(f"{text!r} is no constant of Ranking=value")
    numbers = [float(each) for each in value.split(",")]
    if isinstance(getattr(RANKING, name), tuple):
        return name, tuple(numbers)
    return name, int(numbers[0]) if isinstance(getattr(RANKING, name), int) else numbers[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--set", action="append", type=constant, default=[], metavar="NAME=VALUE")
    parser.add_argument("--vectors", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    ranking = replace(RANKING, **dict(arguments.set))
    table = Table("FILE", "FIGURE", "AS IT IS", "AS SET", "DIFFERENCE")
    for path in arguments.files:
        asyncio.run(measure(path, ranking, arguments.vectors, table))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
