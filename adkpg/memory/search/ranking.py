"""Ranking: how what speaks for a memory becomes one score. Pure.

    score = tells x (covered x lexical / best + weight x z) + dated + said_by

Lexical: BM25F (Robertson, Zaragoza, Taylor 2004) with Lucene's idf, over a memory's own words at
weight 1 and its neighbouring turns' words at less: an answer often stands beside the words that the
question shares. It is divided by the best one's, and counts as far as the best memory covers the
question: where the words say little, the cosine decides.

z: by how many deviations a memory is nearer than the user's memories are on average, 0 for what is
farther. So a memory that stands out counts as far as it does. The weight is the embedder's.

Tells: what a turn tells at all. Short turns tell little, those that ask or say that they do not
know, less.

`Evidence` is what the database says of the memories that may answer (`statements.evidence`), for
one server, for several and for trying other constants. Each constant names the data sets that speak
for it; docs/retrieval.md has the figures.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

NOBODY_SAID, TELLS, ASKS, TELLS_NOTHING = 0, 1, 2, 3
"""Values of memories.speech."""


@dataclass(frozen=True)
class Ranking:
    """The constants of the ranking; the defaults are measured (see docs/retrieval.md).

    Attributes:
      k1: Saturation of a word's frequency. (LoCoMo: 0.6 to 1.2 within 0.004.)
      b: How much a long turn's words count less, in [0, 1]. (LoCoMo: 0 to 0.2 within 0.002.)
      previous: Weights of the words of the turns before, the nearest first. (With the next: LoCoMo
        +0.09, MADial +0.02, LifeBench +0.05.)
      following: Weights of the words of the turns after, the nearest first. (LoCoMo, MADial,
        LifeBench.)
      lends: A turn of more words lends its neighbours proportionally less of each. (LifeBench,
        QMSum.)
      long_turn: A turn of more words counts less, by the root of this over its words. (LifeBench,
        BEAM: long answers have some of any question's words.)
      short_turn: A turn of this many words tells half, unless it answers one that asks. (LoCoMo,
        MemoryBank.)
      asks: Factor of a turn that asks. (LoCoMo, QMSum, everyday.)
      tells_nothing: Factor of a turn that only says that it was noted, or is not known, or asks
        what is asked. (Everyday.)
      telling: A memory covers a long question wholly once it has words that together are as rare as
        this many unknown ones. (MADial against LoCoMo: 2 to 4.)
      foreign: Share of the weight of a model that knows no language of the question's script.
        (MemoryBank-zh.)
      dated: What a memory of a time that the question names gains. (MemoryBank, LifeBench.)
      most_dated: As many memories of such a time are candidates; if there are more, none is for
        that alone. (Chosen, to bound the work.)
      dated_share: A time that more than this share of the memories is of says nothing. (Chosen.)
      said_by: What a memory gains by being said by whom the question names. (MemoryBank, BEAM.)
      candidates: Best memories of each way that are scored on both; more if more are asked for.
        (LoCoMo: 30 to 400 within 0.003.)
      leading_postings: The question's rarest words lead to memories, up to this many occurrences;
        its other words count for those memories alone. (Bounds the work, with
      promising: As many memories as promise most by the leading words are scored on all.)
      passages: So many passages are compared closely; memories of other passages have no cosine.
        (LoCoMo, LifeBench: 300 to all within 0.008. Sign bits choose among vectors above 1,024
        dimensions: 400 held 95 % of the ten nearest at least.)
      sampled: At most so many vectors give the mean and the deviation of cosines; above 1,024
        dimensions a fifth do. (LoCoMo, LifeBench: of 256 as of all of them, within 0.004.)
      updates_among: Among as many first hits, the newer of two turns that speak of the same thing
        comes first (updates.py),
      updated: if its score is at least this share of the older one's,
      alike: they have this share of the shorter one's words in common,
      same_question: and of the question's words that either has, this share. (Own pairs.)
      superseded: Where facts say that one hit replaces another, it comes first if its score is at
        least this share. (Own pairs.)
      gathered: Most memories that are gathered for what is spread over many,
      gathered_tokens: and most tokens of them, unless the caller says how many. (LoCoMo.)
      importance_factors: What the score of a memory of importance 0 and 1 is multiplied by; linear
        between, so that the default of 0.5 changes nothing. (Chosen: no data set has importance.)
    """

    k1: float = 0.9
    b: float = 0.2
    previous: tuple[float, ...] = (0.6, 0.4, 0.3)
    following: tuple[float, ...] = (0.4, 0.3)
    lends: float = 30
    long_turn: float = 40
    short_turn: float = 3
    asks: float = 0.8
    tells_nothing: float = 0.3
    telling: float = 3
    foreign: float = 0.1
    dated: float = 0.75
    most_dated: int = 400
    dated_share: float = 0.5
    said_by: float = 0.3
    candidates: int = 100
    leading_postings: int = 2000
    promising: int = 200
    passages: int = 500
    sampled: int = 1000
    updates_among: int = 10
    updated: float = 0.7
    alike: float = 0.4
    same_question: float = 0.6
    superseded: float = 0.1
    gathered: int = 400
    gathered_tokens: int = 4000
    importance_factors: tuple[float, float] = (0.75, 1.25)

    @property
    def spread(self) -> list[tuple[int, float]]:
        """What a word counts for the memory at its own place plus each shift."""
        return [
            (0, 1.0),
            *enumerate(self.previous, 1),
            *((-place, weight) for place, weight in enumerate(self.following, 1)),
        ]

    def sampled_of(self, *, large: bool) -> int:
        """Returns how many vectors tell what is usual.

        Args:
          large: They lie apart from their rows, which takes ten times as long to read.
        """
        return self.sampled // 5 if large else self.sampled


RANKING = Ranking()


@dataclass(frozen=True)
class Asked:
    """How a question is ranked for, besides its words and its vector.

    Attributes:
      lexical: By words; by vectors alone, the cosine is the score.
      weight: How much a deviation of the cosine counts, see `adkpg.embedding.Embedder`.
      by_user: Whether the user's words are asked for, or the others'; None if it does not say.
      wordiness: See `cues.Cues`.
      half_life_s: After this time a score counts half; None never fades.
      min_relevance: Lowest relevance of a hit that is of no time that the question names, in
        [0, 1]; less than 0 cuts nothing.
    """

    lexical: bool
    weight: float = 0.0
    by_user: bool | None = None
    wordiness: float = 1.0
    half_life_s: float | None = None
    min_relevance: float = 0.0


class Ranked(NamedTuple):
    """A memory that may answer, and what its score is made of; see `hits.Reason`."""

    score: float
    position: int
    lexical: float
    cosine: float | None
    relevance: float
    date: float
    speaker: float
    recency: float
    importance: float
    tells: bool


@dataclass(frozen=True)
class Evidence:
    """What speaks for the memories that may answer a question, in all scopes asked for.

    Attributes:
      memories: In parallel lists, `_COLUMNS` of `statements.evidence`.
      weights: What the question's words count for them: position, number of the word, weight.
      words: The question's lexemes, by their numbers.
      size: How many memories there are.
      mean_length: How many lexemes a memory has, on average; at least 1.
      idfs: How rare a word is, by its number: of those that occur.
      cosines: How many cosines were looked at, their mean and their deviation.
      of_time: How many memories are of the times that the question names.
    """

    memories: Sequence[tuple[Any, ...]]
    weights: Sequence[tuple[int, int, float]]
    words: Mapping[int, str]
    size: float
    mean_length: float
    idfs: Mapping[int, float]
    cosines: tuple[float, float, float]
    of_time: float

    @staticmethod
    def of(rows: Sequence[Mapping[str, Any]], ranking: Ranking = RANKING) -> "Evidence":
        """Adds up what one or several scopes say.

        Args:
          rows: As `statements.evidence` returns them.
          ranking: The constants.
        """
        size = sum(row["size"] or 0.0 for row in rows)
        length = sum((row["size"] or 0.0) * (row["mean_length"] or 0.0) for row in rows)
        return Evidence(
            memories=_rows(rows, *_COLUMNS),
            weights=_rows(rows, "at", "word", "weight"),
            words=dict(_rows(rows, "number", "asked")),
            size=size,
            mean_length=max(length / size, 1.0) if size else 1.0,
            idfs=_idfs(rows, size, ranking),
            cosines=_cosines(rows),
            of_time=sum(row["of_time"] or 0 for row in rows),
        )

    def ranked(self, asked: Asked, ranking: Ranking = RANKING) -> list[Ranked]:
        """Returns the memories, the best first; of equal ones the user's own, then the latest.

        Args:
          asked: How to rank.
          ranking: The constants.
        """
        bm25, coverage, own = self._by_words(ranking)
        lexical, tells = {}, {}
        best = covered = 0.0
        long = ranking.long_turn * asked.wordiness
        for position, length, speech, answers, *_ in self.memories:
            # A turn that asks what is asked says nothing else.
            same = speech == ASKS and own[position] >= length
            speech = TELLS_NOTHING if same else speech
            tells[position] = told = _tells(length, speech, answers, ranking)
            score = bm25[position] * told
            if speech != NOBODY_SAID and length > long:
                score *= math.sqrt(long / length)
            lexical[position] = score
            if speech != TELLS_NOTHING:
                best, covered = max(best, score), max(covered, coverage[position])
        timely = self.of_time <= ranking.dated_share * self.size
        count, mean, deviation = self.cosines
        usual = mean * count / (count + _FEW)
        low, high = ranking.importance_factors
        cuts = asked.min_relevance >= 0
        found = []
        for position, _, speech, _, cosine, of_time, by_user, age_s, importance in self.memories:
            covers, near, date = coverage[position], 0.0, 0.0
            if cosine is not None and cosine > usual:
                near = min((cosine - usual) / max(1 - usual, 1e-6), 1.0)
            if of_time and timely and asked.lexical:
                date = ranking.dated
            relevance = 1 - (1 - near) * (1 - covers)
            nothing = not covers and (cosine is None or cosine <= 0)
            if cuts and not date and (nothing or relevance < asked.min_relevance):
                continue
            speaker = ranking.said_by if by_user == asked.by_user else 0.0
            if asked.lexical:
                score = date + speaker
                if best:
                    score += covered * min(lexical[position] / best, 1.0)
                if cosine is not None and cosine > mean and deviation > 0:
                    score += asked.weight * tells[position] * (cosine - mean) / deviation
            else:
                score, speaker = cosine or 0.0, 0.0
            recency = _recency(age_s, asked.half_life_s)
            factor = low + importance * (high - low)
            found.append(
                Ranked(
                    score * recency * factor,
                    position,
                    lexical[position],
                    cosine,
                    relevance,
                    date,
                    speaker,
                    recency,
                    factor,
                    speech not in (ASKS, TELLS_NOTHING),
                )
            )
        # Places tell what is the user's, but only within a session what is later.
        ages = {row[0]: row[7] for row in self.memories}
        found.sort(
            key=lambda each: (
                each.score,
                each.position >= 0,
                -ages[each.position],
                each.position,
            ),
            reverse=True,
        )
        return found

    def _by_words(
        self, ranking: Ranking
    ) -> tuple[dict[int, float], dict[int, float], dict[int, int]]:
        """BM25F, the share of the question that a memory covers, and how many words are its own.

        The share is in [0, 1], of the question's words weighed by their rarity; of a long question
        a few telling words are the whole.
        """
        unknown = math.log(1 + (self.size + 0.5) / 0.5)
        missing = len(self.words) - len(self.idfs)
        whole = min(sum(self.idfs.values()) + missing * unknown, ranking.telling * unknown) or 1.0
        k1, b, mean = ranking.k1, ranking.b, self.mean_length
        norms = {row[0]: k1 * (1 - b + b * row[1] / mean) for row in self.memories}
        bm25 = dict.fromkeys(norms, 0.0)
        coverage = dict.fromkeys(norms, 0.0)
        own = dict.fromkeys(norms, 0)
        gains = {word: (idf * (k1 + 1), idf / whole) for word, idf in self.idfs.items()}
        for position, word, weight in self.weights:
            gain, share = gains[word]
            bm25[position] += gain * weight / (weight + norms[position])
            if weight < 1:
                coverage[position] += share * weight
            else:  # at less than one stands what neighbours alone say, unless often
                coverage[position] += share
                own[position] += 1
        return bm25, {position: min(each, 1.0) for position, each in coverage.items()}, own

    def matched(self, position: int) -> tuple[tuple[str, float], ...]:
        """Returns the question's words that a memory has, each with its rarity, in order."""
        return tuple(
            sorted((self.words[word], self.idfs[word]) for word in self._words_at.get(position, ()))
        )

    @cached_property
    def _words_at(self) -> dict[int, list[int]]:
        """The numbers of the question's words that a memory has, by its position."""
        words: dict[int, list[int]] = {}
        for position, word, _ in self.weights:
            words.setdefault(position, []).append(word)
        return words


# A few memories are no measure of what is usual: as many of cosine 0 are added.
_FEW = 8

_COLUMNS = (
    *("positions", "lengths", "speeches", "answer", "cosines", "timely", "by_user"),
    *("ages_s", "importances"),
)


def _rows(rows: Sequence[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [
        values for row in rows for values in zip(*(row[name] or () for name in names), strict=True)
    ]


def _tells(length: float, speech: int, answers: bool, ranking: Ranking) -> float:
    """How much a turn tells at all, in [0, 1]."""
    if speech == NOBODY_SAID:
        return 1.0
    share = length / (length + ranking.short_turn)
    if speech == TELLS_NOTHING:
        return ranking.tells_nothing * share
    told = 1.0 if answers else share
    return told * ranking.asks if speech == ASKS else told


def _recency(age_s: float, half_life_s: float | None) -> float:
    if half_life_s is None:
        return 1.0
    return float(0.5 ** min(max(age_s, 0.0) / half_life_s, 1000.0))


def _idfs(rows: Sequence[Mapping[str, Any]], size: float, ranking: Ranking) -> dict[int, float]:
    """Lucene's idf, of as many memories as a word touches, neighbours included.

    Those of a word that does not lead are not counted but estimated, as if its occurrences fell
    independently of each other.
    """
    found_in: dict[int, float] = {}
    touched: dict[int, float | None] = {}
    for row in rows:
        for word, found, touches in zip(
            row["number"] or (), row["found_in"] or (), row["touched"] or (), strict=True
        ):
            if found is None:
                continue
            found_in[word] = found_in.get(word, 0.0) + found
            before = touched.get(word, 0.0)
            touched[word] = None if before is None or touches is None else before + touches
    idfs = {}
    for word, found in found_in.items():
        counted = touched[word]
        if counted is None:
            share = min(found / max(size, 1.0), 1.0)
            counted = size * (1 - (1 - share) ** len(ranking.spread))
        counted = min(counted, size)
        idfs[word] = math.log(1 + (size - counted + 0.5) / (counted + 0.5))
    return idfs


def _cosines(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float, float]:
    """How many cosines were looked at, their mean and their deviation."""
    count = sum(row["seen"] or 0 for row in rows)
    if not count:
        return 0, 0.0, 0.0
    mean = sum(row["seen"] * row["mean_cosine"] for row in rows if row["seen"]) / count
    square = sum(
        row["seen"] * (row["deviation"] ** 2 + row["mean_cosine"] ** 2)
        for row in rows
        if row["seen"]
    )
    return count, mean, math.sqrt(max(square / count - mean**2, 0.0))
