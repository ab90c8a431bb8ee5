"""The ranking's constants keep their order: own words first, nearer neighbours before others."""

import inspect
import re
from dataclasses import fields

from adkpg.memory.search.ranking import RANKING, Ranking


def test_a_words_place_counts_most_and_each_neighbour_once() -> None:
    weights = dict(RANKING.spread)
    assert len(weights) == len(RANKING.spread)
    assert weights[0] == 1.0
    assert all(0 < weight < 1 for shift, weight in weights.items() if shift != 0)
    assert weights[1] >= weights[2]


def test_weights_are_spread_from_the_turn_to_those_around_it() -> None:
    spread = Ranking(previous=(0.4, 0.3), following=(0.2,)).spread
    # A word counts for the next turn as that turn's previous one.
    assert spread == [(0, 1.0), (1, 0.4), (2, 0.3), (-1, 0.2)]


def test_each_constant_says_what_speaks_for_it() -> None:
    """A data set, a measurement, or that it was chosen; some share a sentence with the next."""
    told = inspect.getdoc(Ranking)
    assert told is not None
    names = re.findall(r"^  (\w+): ", told, re.MULTILINE)
    assert sorted(names) == sorted(field.name for field in fields(Ranking))
    for entry in re.split(r"\n  (?=\w+: )", told.partition("Attributes:")[2])[1:]:
        said = entry.strip()
        assert said.endswith(".)") or not said.endswith("."), said
