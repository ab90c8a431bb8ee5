"""One size of the memory benchmark: every contender's databases filled, asked and written to."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from rich.progress import Progress, TaskID

from benchmarks.contenders.memory import CONTENDERS, copying
from benchmarks.contenders.memory.bare_search import BareSearch
from benchmarks.contenders.memory.contender import (
    TOP_K,
    Contender,
    Embedding,
    Searcher,
    Way,
)
from benchmarks.contenders.memory.pgvector_memory import PgVectorMemory
from benchmarks.corpus import Corpus, Question, Texts, Vocabulary
from benchmarks.figures import Figure, percentile
from benchmarks.server import installed, own_database

SUITE = "memory"
BATCH = 100
ONE = "one"
SHARES = {0.0004: 1_000, 0.004: 50, 0.04: 5, 0.2: 1}
"""Of all memories, what a user has, and how many such users there are: 1,056 in all."""

SEARCH: dict[Way, str] = {
    "vectors": "vector search",
    "words": "search by words",
    "both": "hybrid search",
}
QUALITY: dict[Way, str] = {
    "vectors": "vector search: recall@10 against exact",
    "words": "search by words: asked memory in 10 hits",
    "both": "hybrid search: asked memory in 10 hits",
}
INGEST = "ingest, batches of 100"
ENOUGH = 0.9
"""A search that finds less than this share of what there is to find is not called correct."""


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
      blocks: Rounds in which every contender has a turn.
      questions: Asked of users of one size in a turn, after one more that is not counted.
      batches: Written in a turn; before the first turn, one more that is not counted.
      turn_s: A turn asks no further question after this time, but always one that counts.
      one: Whether one user who has all memories is asked for, too.
    """

    blocks: int
    questions: int
    batches: int
    turn_s: float
    one: bool


@dataclass
class Answers:
    """What a contender answered to users of one size, by one way.

    Attributes:
      took: Of each search, in ms.
      qualities: Of each, the share of the nearest that it found; or by words, whether it found the
        memory whose words the question repeats.
      complete: Of each, the share of the hits that there are to find that came at all.
      sound: Whether all hits were the user's own and none came twice.
    """

    took: list[float] = field(default_factory=list)
    qualities: list[float] = field(default_factory=list)
    complete: list[float] = field(default_factory=list)
    sound: bool = True


@dataclass(frozen=True)
class Source:
    """A filled database to be asked.

    Attributes:
      contender: Who asks it.
      embedding: Its embedding function.
      corpora: What it is asked for: the memories of many users, those of one, or both.
    """

    contender: Searcher
    embedding: Embedding
    corpora: tuple[Corpus, ...]


@dataclass(frozen=True)
class Store(Source):
    """A contender's own database, filled, that it also writes to.

    Attributes:
      url: Of the database.
    """

    contender: Contender
    url: str


@asynccontextmanager
async def filled(
    server_url: str, make: type[Contender], corpora: tuple[Corpus, ...]
) -> AsyncIterator[Store]:
    """Yields a contender whose own database holds the first corpus; drops it afterwards."""
    async with own_database(server_url, "memory") as url:
        await copying.allow_memory(url)
        embedding = Embedding()
        contender = make(url, embedding)
        try:
            await contender.prepare()
            await contender.load(corpora[0])
            await copying.settle(url)
            if await contender.count() != corpora[0].size:
                raise SystemExit(f"{contender.name} does not hold what it was given")
            yield Store(contender, embedding, corpora, url)
        finally:
            await contender.close()


class Stage:
    """Every contender with as many memories.

    Args:
      vocabulary: Of the texts.
      memories: How many.
      effort: How much is measured.
      progress: Shows what is being done.
    """

    def __init__(
        self, vocabulary: Vocabulary, memories: int, effort: Effort, progress: Progress
    ) -> None:
        self._vocabulary = vocabulary
        self._memories = memories
        self._effort = effort
        self._progress = progress
        self._classes = [round(memories * share) for share in SHARES]
        spare = 2 * (1 + effort.blocks * effort.batches) * BATCH
        texts = Texts(vocabulary, memories + spare, seed=2)
        users = {
            f"{size}-{number}": size
            for size, owners in zip(self._classes, SHARES.values(), strict=True)
            for number in range(owners)
        }
        self._many = Corpus(texts, users)
        self._one = Corpus(texts, {ONE: memories})
        self._corpora = (self._many, self._one) if effort.one else (self._many,)

    async def run(self, server_url: str) -> list[Figure]:
        """Returns the figures of all contenders."""
        async with AsyncExitStack() as opened:
            stores: list[Store] = []
            sources: list[Source] = []
            parts: list[tuple[type[Contender], tuple[Corpus, ...]]] = []
            for make in CONTENDERS:
                if make.whole:
                    parts.append((make, self._corpora))
                else:
                    parts += [(make, (corpus,)) for corpus in self._corpora]
            task = self._progress.add_task("", total=len(parts))
            for make, corpora in parts:
                self._tell(task, f"{make.name} is filled")
                store = await opened.enter_async_context(filled(server_url, make, corpora))
                stores.append(store)
                sources.append(store)
                if make is PgVectorMemory:
                    floor = BareSearch(store.url, store.embedding, corpora[0].users)
                    opened.push_async_callback(floor.close)
                    await floor.open()
                    sources.append(Source(floor, store.embedding, corpora))
                self._progress.advance(task)
            return await self._search(sources, task) + await self._ingest(stores, task)

    async def _search(self, sources: Sequence[Source], task: TaskID) -> list[Figure]:
        effort = self._effort
        figures = []
        for way, (corpus, size) in product(SEARCH, self._scopes()):
            asked = [source for source in sources if corpus in source.corpora]
            asked = [source for source in asked if way in source.contender.ways]
            self._tell(task, f"{SEARCH[way]}, {self._size(corpus, size)}")
            users = [user for user, count in corpus.users.items() if count == size][:5]
            each = -(-(1 + effort.questions) * effort.blocks // len(users))
            questions = corpus.questions(users, each, seed=size)
            answers = [Answers() for _ in asked]
            for block in range(effort.blocks):
                turn = questions[block * (1 + effort.questions) :][: 1 + effort.questions]
                for source, heard in zip(asked, answers, strict=True):
                    await self._turn(source, corpus, turn, way, heard)
            for source, heard in zip(asked, answers, strict=True):
                figures += self._heard(source.contender, way, self._size(corpus, size), heard)
        return figures

    def _scopes(self) -> list[tuple[Corpus, int]]:
        sizes = [size for size in self._classes if size >= TOP_K]
        scopes = [(self._many, size) for size in sizes]
        return [*scopes, (self._one, self._memories)] if self._effort.one else scopes

    async def _turn(
        self,
        source: Source,
        corpus: Corpus,
        questions: Sequence[Question],
        way: Way,
        heard: Answers,
    ) -> None:
        everybody = source.contender.whole and corpus is self._one
        begin = time.perf_counter()
        for place, question in enumerate(questions):
            source.embedding.learn(question.text, self._vocabulary.embed(question.text))
            start = time.perf_counter()
            if place > 1 and start - begin > self._effort.turn_s:
                break
            user = None if everybody else question.user
            texts = await source.contender.search(user, question.text, way)
            took = time.perf_counter() - start
            numbers = [corpus.number(text) for text in texts]
            owners = {None if number is None else corpus.owner(number) for number in numbers}
            heard.sound &= owners <= {question.user} and len({*numbers}) == len(numbers)
            if place == 0:  # warms up connections, plans and caches
                continue
            there = len(question.nearest)
            heard.took.append(1000 * took)
            heard.complete.append(len(numbers) / there)
            heard.qualities.append(
                len(question.nearest.intersection(numbers)) / there
                if way == "vectors"
                else float(question.source in numbers)
            )

    def _heard(self, contender: Searcher, way: Way, size: str, heard: Answers) -> list[Figure]:
        notes = [contender.search_notes.get(way, "")]
        quality, complete = float(np.mean(heard.qualities)), float(np.mean(heard.complete))
        # Words may be in fewer memories; the nearest vectors are always there.
        if way == "vectors" and complete < 1:
            notes.append(f"returns {TOP_K * complete:.1f} hits where there are {TOP_K}")
        elif quality < ENOUGH:
            notes.append(f"finds {quality:.2f} of what there is to find")
        if not heard.sound:
            notes.append("returns what is not the user's, or one memory twice")
        known: dict[str, Any] = {
            "suite": SUITE,
            "size": size,
            "contender": contender.name,
            "version": installed(contender.package) if contender.package else "",
            "rate": None,
            "samples": len(heard.took),
            "correct": heard.sound and quality >= ENOUGH,
            "note": "; ".join(filter(None, notes)),
        }
        return [
            Figure(
                case=SEARCH[way],
                unit="ms",
                p50=percentile(heard.took, 0.5),
                p95=percentile(heard.took, 0.95),
                **known,
            ),
            Figure(case=QUALITY[way], unit="recall", p50=quality, p95=None, **known),
        ]

    async def _ingest(self, stores: Sequence[Store], task: TaskID) -> list[Figure]:
        effort = self._effort
        each = 1 + effort.blocks * effort.batches
        figures = []
        for corpus, offset in zip(self._corpora, (0, each), strict=False):
            self._tell(task, f"{INGEST}, {self._place(corpus)}")
            writers = [store for store in stores if corpus in store.corpora]
            before = [await store.contender.count() for store in writers]
            rates: list[list[float]] = [[] for _ in writers]
            turns = [range(1 + effort.batches)]  # the first batch warms up
            while turns[-1].stop < each:
                turns.append(range(turns[-1].stop, turns[-1].stop + effort.batches))
            for turn, (store, measured) in product(turns, zip(writers, rates, strict=True)):
                for number in turn:
                    measured.append(await self._written(store, corpus, offset, number))
            for store, measured, stored in zip(writers, rates, before, strict=True):
                kept = await store.contender.count() == stored + each * BATCH
                figures.append(self._wrote(store.contender, corpus, measured[1:], kept))
        return figures

    async def _written(self, store: Store, corpus: Corpus, offset: int, number: int) -> float:
        """Writes a batch of spare memories; returns memories per second."""
        batch = corpus.spare(BATCH * (offset + number), BATCH)
        users = list(corpus.users)
        store.embedding.learn_all(batch, corpus)
        start = time.perf_counter()
        await store.contender.ingest(users[number % len(users)], batch)
        return BATCH / (time.perf_counter() - start)

    def _wrote(
        self, contender: Contender, corpus: Corpus, rates: Sequence[float], kept: bool
    ) -> Figure:
        return Figure(
            suite=SUITE,
            case=INGEST,
            size=self._place(corpus),
            contender=contender.name,
            version=installed(contender.package),
            unit="per s",
            p50=None,
            p95=None,
            rate=percentile(rates, 0.5),
            samples=len(rates),
            correct=kept,
            note=contender.ingest_note if kept else "loses what it was given",
        )

    def _place(self, corpus: Corpus) -> str:
        owners = "one user" if corpus is self._one else f"{len(corpus.users):,} users"
        return f"{self._memories:,} memories of {owners}"

    def _size(self, corpus: Corpus, size: int) -> str:
        if corpus is self._one:
            return self._place(corpus)
        return many_size(size, self._memories)

    def _tell(self, task: TaskID, what: str) -> None:
        self._progress.update(task, description=f"{self._memories:,} memories: {what}")


def many_size(size: int, memories: int) -> str:
    """Returns what a user's memories among those of many are called."""
    return f"{size:,} of {memories:,} memories"
