"""Other constants of the ranking, and better embedders, on data sets, question by question.

    python -m benchmarks.scripts.ranking FILE [FILE ...] [--set asks=1 --set previous=0.5,0.3]
                                         [--weight 0.4] [--share 0.3] [--vectors FOLDER]

FILE is one that `adkpg memory evaluate` takes. Asks all its questions by words, by vectors and by
both, and by both with the constants as they are set, by the service's own search. Prints recall@10
and MRR, and the paired difference of the last two with its 95 % bootstrap interval. With --share
each question's vector is moved by that much towards the mean of its evidence's: a better embedder,
simulated. FOLDER keeps the vectors of each file for the next run.
"""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from adkpg.embedding.default import default_embedder
from adkpg.embedding.embedder import Embedder
from adkpg.memory.records import unit_vector
from adkpg.memory.search.hits import Hit
from adkpg.memory.search.options import SearchOptions
from adkpg.memory.search.ranking import RANKING, Ranking
from adkpg.memory.search.search import Search
from adkpg.memory.service import PgVectorMemoryService
from adkpg.memory.vectors.vectors import Vectors
from adkpg.settings import Settings
from adkpg.tooling.evaluation import read
from adkpg.tooling.evaluation.asking import Memory, ask
from adkpg.tooling.evaluation.dataset import DataSet
from adkpg.tooling.evaluation.evaluation import remembered
from adkpg.tooling.evaluation.figures import differences
from adkpg.tooling.evaluation.remembering import APP

FIGURES = ("recall@10", "MRR")


class Moved:
    """An embedder whose questions are nearer to what answers them; the rest is the other one's.

    Args:
      embedder: What embeds.
      evidence: By question, the texts that answer it.
      share: How far a question's vector is moved towards the mean of these, in [0, 1].
      weight: What it states; None is the other one's.
    """

    def __init__(
        self,
        embedder: Embedder,
        evidence: Mapping[str, Sequence[str]],
        share: float,
        weight: float | None,
    ) -> None:
        self._embedder = embedder
        self._evidence = evidence
        self._share = share
        self.model = embedder.model
        self.dimensions = embedder.dimensions
        self.embed_documents = embedder.embed_documents
        if weight is not None:
            self.weight = weight

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    async def embed_query(self, text: str) -> list[float]:
        """Returns a question's vector, moved."""
        vector = unit_vector(await self._embedder.embed_query(text))
        texts = list(self._evidence.get(text, ()))
        if not self._share or not texts:
            return vector
        answers = [unit_vector(each) for each in await self.embed_documents(texts)]
        mean = unit_vector([sum(numbers) for numbers in zip(*answers, strict=True)])
        pairs = zip(vector, mean, strict=True)
        return [(1 - self._share) * own + self._share * other for own, other in pairs]


def evidence_of(data: DataSet) -> dict[str, list[str]]:
    """Returns the texts that answer each question."""
    found: dict[str, list[str]] = {}
    for store in data.stores:
        turns = {turn.id: turn for chat in store.chats for turn in chat.turns}
        for question in store.questions:
            said = [turns[name] for name in question.evidence if name in turns]
            found[question.text] = [f"{turn.author}: {turn.text}" for turn in said]
    return found


class Tuned:
    """The service's search with other constants."""

    def __init__(self, memory: PgVectorMemoryService, embedder: Embedder, ranking: Ranking) -> None:
        self._search = Search(memory.database, Vectors(memory.database, embedder), ranking=ranking)

    async def search(
        self, *, app_name: str, user_id: str, query: str, **overrides: Any
    ) -> list[Hit]:
        """Does what `PgVectorMemoryService.search` does."""
        options = SearchOptions().changed(**overrides)
        return await self._search.hits(app_name, user_id, query, options)


async def measure(
    path: Path, ranking: Ranking, arguments: argparse.Namespace, table: Table
) -> None:
    data = read(path)
    offline = default_embedder(Settings().embedder)
    if offline is None:
        raise SystemExit("There is no embedder; run pip install 'adkpg[local]'.")
    evidence = evidence_of(data)
    kept = None if arguments.vectors is None else arguments.vectors / f"{path.name}.vectors"
    async with remembered("embedded", data.stores, embedder=offline, vectors=kept) as (
        memory,
        measured,
    ):
        assert measured is not None

        async def figures(mode: str, constants: Ranking, weight: float | None) -> Any:
            embedder = Moved(measured, evidence, arguments.share, weight)
            tuned = cast(PgVectorMemoryService, Tuned(memory, embedder, constants))
            system = Memory(tuned, APP, overrides={"mode": cast(Any, mode)})
            return (await ask(path.name, system, data.stores)).report()

        words, vectors, before, after = (
            await figures("text", RANKING, None),
            await figures("vector", RANKING, None),
            await figures("hybrid", RANKING, None),
            await figures("hybrid", ranking, arguments.weight),
        )
    found = differences(after.per_question, before.per_question, FIGURES)
    for name in FIGURES:
        means = [f"{each.estimates[name].mean:.3f}" for each in (words, vectors, before, after)]
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
    parser.add_argument("--weight", type=float, help="of the embedder, with the constants as set")
    parser.add_argument("--share", type=float, default=0.0, help="towards the evidence, 0 to 1")
    parser.add_argument("--vectors", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    ranking = replace(RANKING, **dict(arguments.set))
    columns = ("WORDS", "VECTORS", "BOTH", "AS SET", "DIFFERENCE")
    table = Table("FILE", "FIGURE", *columns)
    for path in arguments.files:
        asyncio.run(measure(path, ranking, arguments, table))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
