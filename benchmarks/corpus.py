"""Memories of many users as the memory benchmarks need them: texts, vectors, questions, answers.

A text is twelve words: half of them of one of 400 topics, half as often as words are (Zipf). A
vector depends on the text's words alone: each word has a direction, near that of the topic it
belongs to, and counts the more the rarer it is. So texts of one topic lie near each other, texts
that share rare words nearer, and exact neighbours mean something. Everything is seeded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from benchmarks.sentences import Sentences

DIMENSIONS = 384
TOPICS = 400
WORDS = 12
START = datetime(2026, 1, 1, tzinfo=UTC)

_TOPICAL = 0.5  # of a text's words
_OWN = 2.5  # of a word's direction, next to its topic's: well apart, topics would not suit HNSW
_COMMON = 1e-4  # share from which on a word counts for less (Arora, Liang, Ma 2017)
_ASKED = 5  # words of a memory that a question repeats
_ADDED = 2  # words that it adds


@dataclass(frozen=True)
class Said:
    """One memory to be written.

    Attributes:
      number: Its place in the corpus.
      text: What was said; no two memories say the same.
      time: When.
    """

    number: int
    text: str
    time: datetime

    @property
    def event_id(self) -> str:
        return f"event-{self.number}"

    @property
    def session_id(self) -> str:
        return f"session-{self.number // 20}"


@dataclass(frozen=True)
class Question:
    """A question to a user's memories.

    Attributes:
      user: Whose.
      text: In words.
      source: The number of the memory whose words it repeats.
      nearest: The numbers of the ten nearest of the user's memories by cosine, or of all if the
        user has fewer.
    """

    user: str
    text: str
    source: int
    nearest: frozenset[int]


class Vocabulary:
    """Words with their topics and directions; the embedding function of all contenders.

    Args:
      seed: Equal seeds give equal vectors.
    """

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        sentences = Sentences(seed)
        self.words = sentences.words
        self.shares = sentences.shares
        self._places = {word: place for place, word in enumerate(self.words)}
        size = len(self.words)
        per_topic = size // TOPICS
        self.topics: NDArray[np.int64] = random.permutation(size)[: per_topic * TOPICS].reshape(
            TOPICS, per_topic
        )
        directions = random.normal(size=(size, DIMENSIONS)).astype(np.float32) * _OWN
        centers = random.normal(size=(TOPICS, DIMENSIONS)).astype(np.float32)
        directions[self.topics] += centers[:, None, :]
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        rarity = (_COMMON / (_COMMON + self.shares)).astype(np.float32)
        self._directions = directions * rarity[:, None]

    def embed(self, text: str) -> list[float]:
        """Returns a text's vector, ``[384]``, of unit length."""
        places = [self._places[word] for word in text.rstrip("?").split() if word in self._places]
        if not places:
            raise ValueError(f"No word of {text!r} is in the vocabulary.")
        vector: list[float] = self.vectors(np.array([places]))[0].tolist()
        return vector

    def vectors(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Returns the unit vectors ``[n, 384]`` of texts, whose words' places are ``[n, w]``."""
        summed = np.zeros((len(places), DIMENSIONS), dtype=np.float32)
        for column in places.T:
            summed += self._directions[column]
        unit: NDArray[np.float32] = summed / np.linalg.norm(summed, axis=1, keepdims=True)
        return unit

    def text(self, places: Sequence[int]) -> str:
        return " ".join(self.words[place] for place in places)


class Texts:
    """What was said, with its vectors.

    Args:
      vocabulary: Of what words.
      count: How many texts.
      seed: Equal seeds make equal texts.

    Attributes:
      vocabulary: As given.
      places: Of the words of each, ``[count, 12]``.
      vectors: Of each, ``[count, 384]``.
      numbers: Of each, by what it says.
    """

    def __init__(self, vocabulary: Vocabulary, count: int, seed: int) -> None:
        self.vocabulary = vocabulary
        random = np.random.default_rng(seed)
        # Of a topic, and among all words; then each word is one or the other.
        topics = vocabulary.topics[random.integers(0, TOPICS, count)]
        chosen = random.integers(0, topics.shape[1], size=(count, WORDS))
        topical = np.take_along_axis(topics, chosen, axis=1)
        common = random.choice(len(vocabulary.words), size=(count, WORDS), p=vocabulary.shares)
        self.places = np.where(random.random((count, WORDS)) < _TOPICAL, topical, common)
        parts = np.array_split(self.places, 1 + count // 10_000)
        self.vectors = np.concatenate([vocabulary.vectors(part) for part in parts])
        self.numbers = {vocabulary.text(row): number for number, row in enumerate(self.places)}
        if len(self.numbers) < count:
            raise ValueError(f"Two texts of seed {seed} say the same; take another seed.")


class Corpus:
    """Texts as memories of users, those of all users said in turn.

    Args:
      texts: The memories; those beyond what the users own are spare, to measure writes with.
      users: How many memories each user has.

    Attributes:
      users: As given.
      size: How many memories the users have in all.
      vectors: Of all memories, the spare ones last, ``[n, 384]``.
    """

    def __init__(self, texts: Texts, users: Mapping[str, int]) -> None:
        self.users = dict(users)
        self.size = sum(users.values())
        self.vectors = texts.vectors
        self._texts = texts
        self._vocabulary = texts.vocabulary
        self._places = texts.places
        self._names = list(users)
        owners = np.repeat(np.arange(len(users)), list(users.values()))
        self._owners = np.random.default_rng(self.size).permutation(owners)

    def said(self, number: int) -> Said:
        return Said(
            number,
            self._vocabulary.text(self._places[number]),
            START + timedelta(minutes=number),
        )

    def owned(self) -> Iterator[tuple[str, Said]]:
        """Yields all memories that have an owner, of all users in turn, as they were said."""
        for number, owner in enumerate(self._owners):
            yield self._names[owner], self.said(number)

    def pieces(self, most: int) -> list[tuple[str, list[Said]]]:
        """Returns all memories that have an owner, user by user in random order.

        Args:
          most: At most this many of one user in a row.
        """
        order = np.argsort(self._owners, kind="stable")
        parts = np.split(order, np.cumsum(list(self.users.values()))[:-1])
        found = [
            (user, [self.said(int(number)) for number in numbers[start : start + most]])
            for user, numbers in zip(self._names, parts, strict=True)
            for start in range(0, len(numbers), most)
        ]
        shuffled = np.random.default_rng(0).permutation(len(found))
        return [found[place] for place in shuffled]

    def spare(self, start: int, count: int) -> list[Said]:
        """Returns some of the spare memories."""
        return [self.said(self.size + start + place) for place in range(count)]

    def number(self, text: str) -> int | None:
        """Returns the memory that says a text; None if none does."""
        return self._texts.numbers.get(text)

    def owner(self, number: int) -> str | None:
        """Returns whose memory it is; None for a spare one."""
        return self._names[self._owners[number]] if number < self.size else None

    def questions(self, users: Sequence[str], each: int, seed: int) -> list[Question]:
        """Returns questions about one of their memories each, to all users in turn.

        Args:
          users: Whom to ask.
          each: How many questions to each of them.
          seed: Equal seeds make equal questions.
        """
        random = np.random.default_rng(seed)
        asked = [self._asked(user, each, random) for user in users]
        return [questions[place] for place in range(each) for questions in asked]

    def _asked(self, user: str, count: int, random: np.random.Generator) -> list[Question]:
        vocabulary = self._vocabulary
        numbers = self._of(user)
        sources = random.choice(numbers, size=count)
        texts = []
        for source in sources:
            repeated = random.choice(self._places[source], size=_ASKED, replace=False)
            added = random.choice(len(vocabulary.words), size=_ADDED, p=vocabulary.shares)
            texts.append(vocabulary.text([*repeated, *added]) + "?")
        vectors = np.array([vocabulary.embed(text) for text in texts], dtype=np.float32)
        own = self.vectors[: self.size] if len(numbers) == self.size else self.vectors[numbers]
        best = np.argsort(-(vectors @ own.T), axis=1, kind="stable")[:, :10]
        return [
            Question(user, text, int(source), frozenset(map(int, numbers[row])))
            for text, source, row in zip(texts, sources, best, strict=True)
        ]

    def _of(self, user: str) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.flatnonzero(self._owners == self._names.index(user))
        return found
