"""Recall on LoCoMo in the units that others publish theirs in, from one search of each question.

    python -m benchmarks.scripts.published locomo10.json

FILE is LoCoMo's own (https://github.com/snap-research/locomo). The service searches with its
defaults and the offline embedder, without a reranker and without a language model. The first k
turns, chunks (six consecutive turns of a session) or sessions are those of the best hits. Prints
the mean share of a question's evidence in them, and how often they hold any or all of it.
"""

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table

from adkpg.tooling.evaluation import read
from adkpg.tooling.evaluation.asking import Memory
from adkpg.tooling.evaluation.dataset import DataSet, Store
from adkpg.tooling.evaluation.evaluation import remembered
from adkpg.tooling.evaluation.remembering import APP
from adkpg.tooling.terminal import bars

CUTOFFS = (5, 10)
CHUNK = 6
ADVERSARIAL = "adversarial"  # category 5, which some leave out

Shares = dict[str, list[list[float]]]


def places(store: Store) -> dict[str, dict[str, str]]:
    """Returns, by kind of unit, in which unit each turn lies."""
    turns = [
        (chat.id, place, turn.id) for chat in store.chats for place, turn in enumerate(chat.turns)
    ]
    return {
        "turns": {turn: turn for _, _, turn in turns},
        f"chunks of {CHUNK} turns": {
            turn: f"{chat} {place // CHUNK}" for chat, place, turn in turns
        },
        "sessions": {turn: chat for chat, _, turn in turns},
    }


async def measure(data: DataSet) -> Mapping[str, Shares]:
    """Returns the shares at each cutoff, question by question, by category and unit."""
    found: dict[str, Shares] = defaultdict(lambda: defaultdict(list))
    asked = 0
    with bars() as told:
        async with remembered("embedded", data.stores, told=told) as (memory, embedder):
            system = Memory(memory, APP, embedder=embedder)
            for store in data.stores:
                units = places(store)
                end = max(turn.moment for chat in store.chats for turn in chat.turns)
                for question in store.questions:
                    if not question.answerable:
                        continue
                    recalled = await system.ask(store.name, replace(question, moment=end))
                    hits = [name for hit in recalled.hits for name in hit.names]
                    for unit, of in units.items():
                        order = list(dict.fromkeys(of[name] for name in hits if name in of))
                        wanted = {of[turn] for turn in question.evidence}
                        found[question.category][unit].append(
                            [len(wanted & set(order[:k])) / len(wanted) for k in CUTOFFS]
                        )
                    asked += 1
                    told("questions asked", asked, data.questions)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path, metavar="FILE")
    found = asyncio.run(measure(read(parser.parse_args().file)))
    table = Table(
        "QUESTIONS", "UNIT", *(f"{what} @{k}" for k in CUTOFFS for what in ("SHARE", "ANY", "ALL"))
    )
    for name, left_out in (("all", ()), ("without adversarial", (ADVERSARIAL,))):
        for unit in next(iter(found.values())):
            rows = [row for each, of in found.items() if each not in left_out for row in of[unit]]
            columns = list(zip(*rows, strict=True))
            means = [
                fmean(each)
                for column in columns
                for each in (column, [x > 0 for x in column], [x == 1 for x in column])
            ]
            table.add_row(f"{len(rows):,} {name}", unit, *(f"{mean:.3f}" for mean in means))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
