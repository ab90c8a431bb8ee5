"""Figures: how well a search recalls the turns that answer a question. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

CUTOFFS = (5, 10, 20)
"""Numbers of first hits within which recall is counted."""

_HIT_CUTOFF = 10


@dataclass(frozen=True)
class Answer:
    """How much of one question's evidence a search found.

    Attributes:
      category: The question's category.
      evidence: How many turns answer it, at least 1.
      ranks: Places of those that were found, from 1, ascending.
      latency_s: How long the search took, in seconds.
    """

    category: int
    evidence: int
    ranks: tuple[int, ...]
    latency_s: float

    def recall(self, cutoff: int) -> float:
        """Returns the share of the evidence among the first hits, in [0, 1]."""
        return sum(rank <= cutoff for rank in self.ranks) / self.evidence


@dataclass(frozen=True)
class Figures:
    """Means over questions, each in [0, 1]; 0 without questions.

    Attributes:
      questions: How many questions were asked.
      recall: By cutoff, the share of a question's evidence among that many first hits.
      hit: Share of questions with any evidence among the first ten.
      mrr: Mean of 1 / rank of the first evidence, 0 if none was found.
      p50_ms: Median time of a search in milliseconds.
    """

    questions: int
    recall: dict[int, float]
    hit: float
    mrr: float
    p50_ms: float

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> "Figures":
        """Returns the figures of some answers."""
        if not answers:
            return cls(0, dict.fromkeys(CUTOFFS, 0.0), 0.0, 0.0, 0.0)
        return cls(
            questions=len(answers),
            recall={cutoff: fmean(a.recall(cutoff) for a in answers) for cutoff in CUTOFFS},
            hit=fmean(a.recall(_HIT_CUTOFF) > 0 for a in answers),
            mrr=fmean(1 / a.ranks[0] if a.ranks else 0.0 for a in answers),
            p50_ms=1000 * median(a.latency_s for a in answers),
        )


def by_category(answers: Sequence[Answer]) -> dict[int, Figures]:
    """Returns the figures of each category, by its number."""
    categories = sorted({answer.category for answer in answers})
    return {
        category: Figures.of([answer for answer in answers if answer.category == category])
        for category in categories
    }
