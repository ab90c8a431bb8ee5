"""What `recall.py` reports: means over questions with their intervals. No I/O."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adkpg.demo.figures import CUTOFFS, Answer

BUDGETS = (500, 1000)
"""Numbers of tokens within which recall is counted."""

_LEVEL = (2.5, 97.5)
_SEED = 1


@dataclass(frozen=True)
class Outcome:
    """What one system did with one question.

    Attributes:
      answer: The places of its evidence; its latency is that of the search alone.
      costs: What each hit would cost a model, in tokens, in the order of the hits.
      embedding_s: How long the question's embedding took, 0 for a system that has none.
      foreign: How many hits it has among another conversation's memories; None if not asked.
    """

    answer: Answer
    costs: tuple[int, ...]
    embedding_s: float = 0.0
    foreign: int | None = None

    def recall_within(self, tokens: int) -> float:
        """The share of the evidence in the hits that fit a budget; what does not fit is skipped."""
        fitting, rest = set(), tokens
        for rank, cost in enumerate(self.costs, 1):
            if cost <= rest:
                fitting.add(rank)
                rest -= cost
        return len(fitting & set(self.answer.ranks)) / self.answer.evidence

    def measures(self) -> dict[str, float]:
        """The question's own figures, each in [0, 1], by the name they are reported under."""
        first = self.answer.ranks[0] if self.answer.ranks else math.inf
        return {
            **{f"recall@{cutoff}": self.answer.recall(cutoff) for cutoff in CUTOFFS},
            "hit@10": float(first <= 10),
            "MRR": 1 / first,
            **{f"recall in {budget} tokens": self.recall_within(budget) for budget in BUDGETS},
        }


@dataclass(frozen=True)
class Estimate:
    """A mean over questions and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float

    @property
    def interval(self) -> str:
        """As it is printed below the mean."""
        return f"{self.low:.3f}…{self.high:.3f}"


@dataclass(frozen=True)
class Report:
    """One system's figures.

    Attributes:
      estimates: By name, the means of `Outcome.measures`.
      per_question: By name, the values of each question, in the order asked, ``[n]``.
      foreign_none: Share of foreign questions without any hit; None if none was asked.
      foreign_hits: Mean number of hits of a foreign question; None if none was asked.
      latency_ms: p50 and p95 of a search, and with the question's embedding.
    """

    estimates: dict[str, Estimate]
    per_question: dict[str, list[float]]
    foreign_none: float | None
    foreign_hits: float | None
    latency_ms: dict[str, float]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], resamples: int) -> "Report":
        """The figures of a system's outcomes, which are at least one."""
        rows = [outcome.measures() for outcome in outcomes]
        per_question = {name: [row[name] for row in rows] for name in rows[0]}
        foreign = [outcome.foreign for outcome in outcomes if outcome.foreign is not None]
        search = [1000 * outcome.answer.latency_s for outcome in outcomes]
        whole = [1000 * (outcome.answer.latency_s + outcome.embedding_s) for outcome in outcomes]
        return cls(
            estimates={name: estimate(values, resamples) for name, values in per_question.items()},
            per_question=per_question,
            foreign_none=float(np.mean([hits == 0 for hits in foreign])) if foreign else None,
            foreign_hits=float(np.mean(foreign)) if foreign else None,
            latency_ms={
                "search p50": float(np.percentile(search, 50)),
                "search p95": float(np.percentile(search, 95)),
                "with embedding p50": float(np.percentile(whole, 50)),
                "with embedding p95": float(np.percentile(whole, 95)),
            },
        )

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def estimate(values: Sequence[float], resamples: int) -> Estimate:
    """The mean of at least one value and its interval; the same values give the same."""
    sample: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(_SEED)
    means = [sample[random.integers(0, len(sample), len(sample))].mean() for _ in range(resamples)]
    low, high = np.percentile(means, _LEVEL)
    return Estimate(float(sample.mean()), float(low), float(high))


def difference(ours: Sequence[float], theirs: Sequence[float], resamples: int) -> Estimate:
    """The mean of ours minus theirs, question by question.

    Raises:
      ValueError: They are not of the same questions.
    """
    return estimate([a - b for a, b in zip(ours, theirs, strict=True)], resamples)


def differences(
    ours: Mapping[str, Sequence[float]],
    theirs: Mapping[str, Sequence[float]],
    names: Sequence[str],
    resamples: int,
) -> dict[str, Estimate]:
    """`difference` of each of some figures."""
    return {name: difference(ours[name], theirs[name], resamples) for name in names}
