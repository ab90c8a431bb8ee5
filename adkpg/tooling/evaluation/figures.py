"""Figures: how well memory recalls what answers questions, with intervals. Pure."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from operator import itemgetter
from statistics import fmean
from typing import Any

CUTOFFS = (5, 10, 20, 40)
"""Numbers of first hits within which recall is counted."""

DEPTH = 50
"""Hits that are asked for: a budget of tokens is to end them."""

FOREIGN = 20
"""Hits of a question that nothing answers are counted up to this many."""

BUDGETS = (500, 1000, 4000)
"""Numbers of tokens within which recall is counted."""

GAIN_CUTOFF = 10
"""First hits that count for NDCG."""

RESAMPLES = 2000
"""How often questions are drawn anew for an interval."""

MEASURES: tuple[str, ...] = (
    *(f"recall@{cutoff}" for cutoff in CUTOFFS),
    *(f"any@{cutoff}" for cutoff in CUTOFFS),
    *(f"complete@{cutoff}" for cutoff in CUTOFFS),
    *(f"session any@{cutoff}" for cutoff in CUTOFFS),
    *(f"session complete@{cutoff}" for cutoff in CUTOFFS),
    "MRR",
    f"NDCG@{GAIN_CUTOFF}",
    *(f"recall in {budget} tokens" for budget in BUDGETS),
    *(f"complete in {budget} tokens" for budget in BUDGETS),
    f"tokens@{GAIN_CUTOFF}",
)
"""The names of a question's figures; see `Outcome.measures`."""


@dataclass(frozen=True)
class Outcome:
    """What a search did with a question that something answers.

    Attributes:
      category: The question's.
      ranks: For each piece of its evidence, the place of the first hit that is it, from 1; None if
        none is. At least one piece.
      session_ranks: For each session that has evidence, the place of its first hit; empty where the
        sessions are unknown.
      costs: What each hit would cost a model, in tokens, in the order of the hits.
      short_costs: The same if long ones are cut to the passage that matched; empty if none is.
      search_s: How long the search took, without the question's embedding.
      embedding_s: How long that took; 0 for a search that needs none.
      words_alone: Whether vectors had no part though they were asked for.
      own_alone: Whether what the app knows had no part though it was asked for, as its hits say.
      fused_alone: Whether a reranker had no part though it was asked for.
    """

    category: str
    ranks: tuple[int | None, ...]
    session_ranks: tuple[int | None, ...] = ()
    costs: tuple[int, ...] = ()
    short_costs: tuple[int, ...] = ()
    search_s: float = 0.0
    embedding_s: float = 0.0
    words_alone: bool = False
    own_alone: bool = False
    fused_alone: bool = False

    def measures(self) -> dict[str, float]:
        """Returns the question's own figures by name, see `MEASURES`.

        ``recall`` is the share of its evidence among the first hits; ``any`` and ``complete`` are
        whether they hold one piece or all. ``session`` counts sessions that have evidence, by any
        turn of theirs. ``tokens`` is what the first hits cost; all others are in [0, 1].
        """
        found = sorted(rank for rank in self.ranks if rank is not None)
        sessions = [rank or math.inf for rank in self.session_ranks]
        measures: dict[str, float] = {}
        for cutoff in CUTOFFS:
            within = sum(rank <= cutoff for rank in found)
            measures[f"recall@{cutoff}"] = within / len(self.ranks)
            measures[f"any@{cutoff}"] = float(within > 0)
            measures[f"complete@{cutoff}"] = float(within == len(self.ranks))
            if sessions:
                measures[f"session any@{cutoff}"] = float(min(sessions) <= cutoff)
                measures[f"session complete@{cutoff}"] = float(max(sessions) <= cutoff)
        measures["MRR"] = 1 / found[0] if found else 0.0
        measures[f"NDCG@{GAIN_CUTOFF}"] = _gain(found, len(self.ranks))
        for budget in BUDGETS:
            recall = self._recall_within(budget)
            measures[f"recall in {budget} tokens"] = recall
            measures[f"complete in {budget} tokens"] = float(recall == 1)
        measures[f"tokens@{GAIN_CUTOFF}"] = float(sum(self.costs[:GAIN_CUTOFF]))
        return measures

    def _recall_within(self, budget: int) -> float:
        """Returns recall in the hits that fit a budget.

        As `max_tokens` has it: one that does not fit is cut to its passage, or skipped.
        """
        fitting, rest = set(), budget
        forms = zip(self.costs, self.short_costs or self.costs, strict=True)
        for rank, (whole, short) in enumerate(forms, 1):
            cost = whole if whole <= rest else short
            if cost <= rest:
                fitting.add(rank)
                rest -= cost
        return sum(rank in fitting for rank in self.ranks) / len(self.ranks)


def _gain(found: Sequence[int], pieces: int) -> float:
    """Returns the discounted gain over that of the best order; a hit counts once."""
    ranks = [rank for rank in sorted(set(found)) if rank <= GAIN_CUTOFF]
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(pieces, GAIN_CUTOFF) + 1))
    return min(1.0, sum(1 / math.log2(rank + 1) for rank in ranks) / best)


@dataclass(frozen=True)
class Estimate:
    """A mean over questions and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float

    @property
    def interval(self) -> str:
        """As it is printed."""
        return f"{self.low:.3f}…{self.high:.3f}"


@dataclass(frozen=True)
class Unanswered:
    """Hits of questions that nothing in the memory answers.

    Attributes:
      asked: How many were asked.
      none: Share of them without any hit.
      hits: Their mean number of hits, up to `FOREIGN`.
      hits_of_all: The same of all `DEPTH` that were asked for.
    """

    asked: int
    none: float
    hits: float
    hits_of_all: float

    @classmethod
    def of(cls, counts: Sequence[int]) -> "Unanswered | None":
        """Returns the figures of some counts of hits; None without any."""
        if not counts:
            return None
        return cls(
            asked=len(counts),
            none=fmean(count == 0 for count in counts),
            hits=fmean(min(count, FOREIGN) for count in counts),
            hits_of_all=fmean(counts),
        )


@dataclass(frozen=True)
class Report:
    """The figures of one way to search.

    Attributes:
      estimates: By name, the means of `Outcome.measures` over the questions that have it.
      per_question: By name, the values of each question, in the order asked, ``[n]``; a figure
        that not every question has is left out.
      categories: By category, its number of ``questions`` and the means.
      foreign: Hits of questions that were asked of another store.
      unanswerable: Hits of questions that the file says nothing answers.
      latency_ms: p50 and p95 of a search, and with the question's embedding.
      words_alone: How many searches vectors had no part in though they were asked for.
      own_alone: How many what the app knows had no part in though it was asked for, of those
        that found anything.
      fused_alone: How many a reranker had no part in though it was asked for.
    """

    estimates: dict[str, Estimate]
    per_question: dict[str, list[float]]
    categories: dict[str, dict[str, float]] = field(default_factory=dict)
    foreign: Unanswered | None = None
    unanswerable: Unanswered | None = None
    latency_ms: dict[str, float] = field(default_factory=dict)
    words_alone: int = 0
    own_alone: int = 0
    fused_alone: int = 0

    @classmethod
    def of(
        cls,
        outcomes: Sequence[Outcome],
        *,
        foreign: Sequence[int] = (),
        unanswerable: Sequence[int] = (),
        resamples: int = RESAMPLES,
    ) -> "Report":
        """Returns the figures of some outcomes, and of the hits of what nothing answers."""
        rows = [outcome.measures() for outcome in outcomes]
        values = {
            name: [row[name] for row in rows if name in row]
            for name in MEASURES
            if any(name in row for row in rows)
        }
        return cls(
            estimates={name: estimate(each, resamples) for name, each in values.items()},
            per_question={name: each for name, each in values.items() if len(each) == len(rows)},
            categories=_by_category(outcomes, rows),
            foreign=Unanswered.of(foreign),
            unanswerable=Unanswered.of(unanswerable),
            latency_ms=_latency_ms(outcomes),
            words_alone=sum(outcome.words_alone for outcome in outcomes),
            own_alone=sum(outcome.own_alone for outcome in outcomes),
            fused_alone=sum(outcome.fused_alone for outcome in outcomes),
        )

    @property
    def questions(self) -> int:
        """How many questions it is of."""
        return max(map(len, self.per_question.values()), default=0)

    def document(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return asdict(self)


def _by_category(
    outcomes: Sequence[Outcome], rows: Sequence[Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for category in sorted({outcome.category for outcome in outcomes}):
        own = [row for row, each in zip(rows, outcomes, strict=True) if each.category == category]
        means = {
            name: fmean(row[name] for row in own if name in row)
            for name in MEASURES
            if any(name in row for row in own)
        }
        found[category] = {"questions": len(own), **means}
    return found


def _latency_ms(outcomes: Sequence[Outcome]) -> dict[str, float]:
    search = sorted(1000 * outcome.search_s for outcome in outcomes)
    whole = sorted(1000 * (outcome.search_s + outcome.embedding_s) for outcome in outcomes)
    if not search:
        return {}
    return {
        "search p50": _quantile(search, 0.5),
        "search p95": _quantile(search, 0.95),
        "with embedding p50": _quantile(whole, 0.5),
        "with embedding p95": _quantile(whole, 0.95),
    }


def estimate(values: Sequence[float], resamples: int = RESAMPLES) -> Estimate:
    """Returns the mean of at least one value and its interval; the same values give the same."""
    means = sorted(math.fsum(draw(values)) / len(values) for draw in _draws(len(values), resamples))
    return Estimate(fmean(values), _quantile(means, 0.025), _quantile(means, 0.975))


def difference(
    ours: Sequence[float], theirs: Sequence[float], resamples: int = RESAMPLES
) -> Estimate:
    """Returns the mean of ours minus theirs, question by question.

    Raises:
      ValueError: They are not of the same questions.
    """
    return estimate([a - b for a, b in zip(ours, theirs, strict=True)], resamples)


def differences(
    ours: Mapping[str, Sequence[float]],
    theirs: Mapping[str, Sequence[float]],
    names: Sequence[str],
    resamples: int = RESAMPLES,
) -> dict[str, Estimate]:
    """Returns `difference` of each of some figures that both have."""
    return {
        name: difference(ours[name], theirs[name], resamples)
        for name in names
        if name in ours and name in theirs
    }


Draw = Callable[[Sequence[float]], tuple[float, ...]]


@lru_cache(maxsize=4)
def _draws(count: int, resamples: int) -> tuple[Draw, ...]:
    """Returns what draws as many of some values as there are, with replacement; always the same."""
    if count == 1:
        return (tuple,)
    places, chance = range(count), random.Random(1)
    return tuple(itemgetter(*chance.choices(places, k=count)) for _ in range(resamples))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Returns a quantile of sorted values, between two of them in proportion."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
