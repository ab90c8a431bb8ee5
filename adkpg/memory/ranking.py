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
      previous: Weight of the words of the turn before.
      second_previous: Weight of the words of the turn before that.
      following: Weight of the words of the turn after.
      vector: Weight of the scaled cosine against the scaled lexical score.
      candidates: Best memories of each leg that are scored on both; more if more are asked for.
      coarse: For vectors above 1,300 dimensions, how many best by sign bits are compared whole.
      importance_factors: What the score of a memory of importance 0 and 1 is multiplied by; linear
        between, so that the default of 0.5 changes nothing.
    """

    k1: float = 0.9
    b: float = 0.2
    previous: float = 0.5
    second_previous: float = 0.25
    following: float = 0.25
    vector: float = 0.75
    candidates: int = 100
    coarse: int = 400
    importance_factors: tuple[float, float] = (0.75, 1.25)

    @property
    def spread(self) -> list[tuple[int, float]]:
        """What a word counts for the memory at its own place plus each shift."""
        return [
            (0, 1.0),
            (1, self.previous),
            (2, self.second_previous),
            (-1, self.following),
        ]


RANKING = Ranking()
