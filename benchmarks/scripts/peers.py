"""adkpg and what a user would pick instead, question by question.

    python -m benchmarks.scripts.peers [NAME…] [--way vectors] [--size 40] [--memories 10000]
    python -m benchmarks.scripts.peers --ingest [NAME…] [--size 10000] [--memories 10000]

    python -m benchmarks.scripts.peers sqlspec --size 100 --memories 250000
    python -m benchmarks.scripts.peers "ADK SqliteMemoryService" --way words --size 10000

Needs the environment of ``make bench``, whose contenders these are, filled as there. ``make bench``
asks each in blocks: a machine that becomes slow in one of them makes its contender slow. Here each
question is put to all of them, in random order, before the next one, and so is each batch of 100
with ``--ingest``. The ratio of the medians comes with its interval of 95 % (bootstrap over the
questions). No question comes twice, so no package answers from what it keeps. What was found is not
looked at: docs/benchmarks.md says who is correct.
"""

import argparse
import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.contenders.memory import CONTENDERS
from benchmarks.contenders.memory.contender import Contender, Way
from benchmarks.contenders.memory.memshield import borrowed_role
from benchmarks.contenders.memory.pgvector_memory import PgVectorMemory
from benchmarks.corpus import Corpus, Texts, Vocabulary
from benchmarks.server import chosen_server
from benchmarks.suites.memory_stage import BATCH, Store, filled

WARM = 20
"""Questions or batches that are put to all and do not count."""

RESAMPLES = 2_000


@dataclass
class Side:
    """One contender and how long it took.

    Attributes:
      store: Its database, filled.
      took: Of each question or batch, in ms.
    """

    store: Store
    took: list[float] = field(default_factory=list)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Notes how long its block takes."""
        began = time.perf_counter()
        yield
        self.took.append((time.perf_counter() - began) * 1000)


def shuffled(sides: Sequence[Side]) -> list[Side]:
    return random.sample(sides, len(sides))


async def search(
    sides: Sequence[Side], corpus: Corpus, vocabulary: Vocabulary, way: Way, questions: int
) -> None:
    users = list(corpus.users)
    asked = corpus.questions(users, -(-(WARM + questions) // len(users)), seed=3)
    for question in asked[: WARM + questions]:
        vector = vocabulary.embed(question.text)
        for side in sides:
            side.store.embedding.learn(question.text, vector)
        for side in shuffled(sides):
            with side.timed():
                await side.store.contender.search(question.user, question.text, way)


async def ingest(sides: Sequence[Side], corpus: Corpus, batches: int) -> None:
    users = list(corpus.users)
    for number in range(WARM + batches):
        batch, user = corpus.spare(BATCH * number, BATCH), users[number % len(users)]
        for side in sides:
            side.store.embedding.learn_all(batch, corpus)
        for side in shuffled(sides):
            with side.timed():
                await side.store.contender.ingest(user, batch)


def compared(own: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Returns how many times as long the other takes, by the medians, and the interval of it."""
    places = np.random.default_rng(1).integers(0, len(own), (RESAMPLES, len(own)))
    ratios = np.median(np.array(other)[places], axis=1) / np.median(np.array(own)[places], axis=1)
    low, high = np.percentile(ratios, (2.5, 97.5))
    return float(np.median(other) / np.median(own)), float(low), float(high)


def shown(title: str, sides: Sequence[Side]) -> Table:
    table = Table("", "p50 ms", "x adkpg", "95 %", title=title)
    own = sides[0].took[WARM:]
    for side in sides:
        took = side.took[WARM:]
        ratio, low, high = compared(own, took)
        times = ("", "") if side is sides[0] else (f"{ratio:.2f}", f"{low:.2f} to {high:.2f}")
        table.add_row(side.store.contender.name, f"{np.median(took):.2f}", *times)
    return table


async def measure(server_url: str, arguments: argparse.Namespace) -> None:
    way: Way = arguments.way
    make: list[type[Contender]] = [PgVectorMemory]
    make += [each for each in CONTENDERS if each.name in arguments.names]
    if not arguments.ingest:
        make = [each for each in make if way in each.ways]
    users = max(1, arguments.memories // arguments.size)
    vocabulary = Vocabulary(seed=1)
    spare = BATCH * (WARM + arguments.count) if arguments.ingest else 0
    texts = Texts(vocabulary, users * arguments.size + spare, seed=2)
    corpus = Corpus(texts, {f"user-{number}": arguments.size for number in range(users)})
    async with borrowed_role(server_url), AsyncExitStack() as opened:
        sides = []
        with Progress() as progress:
            for each in progress.track(make, description="filled"):
                store = filled(server_url, each, (corpus,))
                sides.append(Side(await opened.enter_async_context(store)))
        if arguments.ingest:
            what = "ingest of 100"
            await ingest(sides, corpus, arguments.count)
        else:
            what = f"search, {way}"
            await search(sides, corpus, vocabulary, way, arguments.count)
        title = f"{what}: {arguments.size:,} of {corpus.size:,} memories, {arguments.count:,} times"
        Console().print(shown(title, sides))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    others = [each.name for each in CONTENDERS if each is not PgVectorMemory]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"Default all: {others}")
    parser.add_argument("--way", choices=("vectors", "words", "both"), default="vectors")
    parser.add_argument("--size", type=int, default=40, help="Memories of each user.")
    parser.add_argument("--memories", type=int, default=10_000, help="Of all users.")
    parser.add_argument("--count", type=int, default=1_000, help="Questions, or batches.")
    parser.add_argument("--ingest", action="store_true", help="Writes batches instead.")
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.names} - {*others}):
        parser.error(f"no contender is called {unknown}; there are {others}")
    arguments.names = arguments.names or others
    with chosen_server() as url:
        asyncio.run(measure(url, arguments))


if __name__ == "__main__":
    main()
