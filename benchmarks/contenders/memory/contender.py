"""What each contender of the memory benchmark does, the same for all."""

from collections.abc import Sequence
from typing import Literal, Protocol

from benchmarks.corpus import Corpus, Said

Way = Literal["vectors", "words", "both"]
"""What of a question is asked for: its vector alone, its words alone, or both together."""

APP = "benchmark"
TOP_K = 10


class Embedding:
    """The embedding function that all contenders share: it answers from what it was given.

    So what is measured is the package's own work, not the function's.
    """

    def __init__(self) -> None:
        self._vectors: dict[str, list[float]] = {}

    def learn(self, text: str, vector: list[float]) -> None:
        self._vectors[text] = vector

    def learn_all(self, batch: Sequence[Said], corpus: Corpus) -> None:
        for said in batch:
            self.learn(said.text, corpus.vectors[said.number].tolist())

    def of(self, text: str) -> list[float]:
        """Returns a text's vector ``[384]``.

        Raises:
          KeyError: It was not learnt.
        """
        return self._vectors[text]

    def of_all(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vectors[text] for text in texts]


class Searcher(Protocol):
    """What can be asked for a user's memories.

    Attributes:
      name: As readers know it.
      package: Its distribution; none of the floor.
      ways: How it can be asked.
      whole: Whether a search of all users costs what one of a single user with all memories does,
        so that one database serves both.
      search_notes: What a reader of its search must know, by way, one sentence or none.
    """

    name: str
    package: str
    ways: tuple[Way, ...]
    whole: bool
    search_notes: dict[Way, str]

    async def search(self, user: str | None, question: str, way: Way) -> list[str]:
        """Returns the texts of the best hits, best first; None is all users, if `whole`."""


class Contender(Searcher, Protocol):
    """A package that remembers, in a database of its own.

    Attributes:
      ingest_note: What a reader of its ingest must know, one sentence or none.
    """

    ingest_note: str

    def __init__(self, url: str, embedding: Embedding) -> None: ...

    async def prepare(self) -> None:
        """Makes its tables and indexes, as its documentation says."""

    async def load(self, corpus: Corpus) -> None:
        """Stores all that the corpus' users own, in bulk and unmeasured, with the same indexes."""

    async def ingest(self, user: str, batch: Sequence[Said]) -> None:
        """Remembers a batch through the package's own interface."""

    async def count(self) -> int:
        """Returns how many memories are stored."""

    async def close(self) -> None:
        """Gives back its connections."""
