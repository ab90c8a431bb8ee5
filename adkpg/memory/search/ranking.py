"""Ranking: how a memory's words and vector become one score.

Lexical score: BM25F (Robertson, Zaragoza, Taylor 2004) with Lucene's idf, over a memory's own
words and date at weight 1 and its neighbouring turns' words at less. The answer to a question often
sits one turn after the words that the question shares, so neighbours add much (recall@10 on LoCoMo
0.64 without, 0.77 with them, words alone).

Fused score: the lexical score over the best one, plus the cosine, scaled to [0, 1] over the
candidates, at a weight. Reciprocal ranks are not used: they throw away how much better a hit is,
and recall less than the words alone do (0.55 against 0.64).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ranking:
    """The constants of the ranking; the defaults are measured (see docs/retrieval.md).

    Attributes:
      k1: Saturation of a word's frequency.
      b: How much a long turn's words count less, in [0, 1]. Low, since a memory's neighbours
        are part of it while its own length is what is compared.
      previous: Weights of the words of the turn before, and of those before that.
      following: Weights of the words of the turns after.
      answer: How much more the words of the turn before weigh, if that turn asks.
      thin: A turn of this many words has half of its score, unless it answers one that asks:
        short turns tell little.
      question: Factor of a turn that asks, since it answers nothing.
      vector: Weight of the scaled cosine against the scaled lexical score.
      candidates: Best memories of each way that are scored on both; more if more are asked for.
      leading_postings: The question's rarest words lead to memories, up to this many occurrences;
        its other words count for those memories alone.
      promising: As many memories as promise most by the leading words are scored on all.
      nearest: How many of the nearest are hits with little else,
      near: if their cosine, scaled from the floor to 1, is this at least.
      relevance: A hit's scaled cosine and the share of the question's words that it covers are at
        least this times ln(n / small_scope), of n memories, but never need to be more than
      enough: this.
      small_scope: Up to this many memories chance finds nothing.
      relevance_of_words: For words alone: at least this times ln n, of more than a small scope.
      telling: Of a long question, words as rare as this many unknown ones are the whole.
      coarse: For vectors above 1,024 dimensions, how many best by sign bits are compared whole.
      importance_factors: What the score of a memory of importance 0 and 1 is multiplied by; linear
        between, so that the default of 0.5 changes nothing.
    """

    k1: float = 0.9
    b: float = 0.2
    previous: tuple[float, ...] = (0.5, 0.4, 0.3)
    following: tuple[float, ...] = (0.4, 0.3)
    answer: float = 0.3
    thin: float = 4
    question: float = 0.8
    vector: float = 0.75
    candidates: int = 100
    leading_postings: int = 2000
    promising: int = 400
    nearest: int = 2
    near: float = 0.125
    coarse: int = 400
    relevance: float = 0.1
    small_scope: float = 30
    enough: float = 0.3
    relevance_of_words: float = 0.025
    telling: float = 2
    importance_factors: tuple[float, float] = (0.75, 1.25)

    @property
    def spread(self) -> list[tuple[int, float]]:
        """What a word counts for the memory at its own place plus each shift."""
        return [
            (0, 1.0),
            *enumerate(self.previous, 1),
            *((-place, weight) for place, weight in enumerate(self.following, 1)),
        ]


RANKING = Ranking()
