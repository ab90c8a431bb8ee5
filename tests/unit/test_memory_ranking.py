"""The ranking's constants keep their order: own words first, nearer neighbours before others."""

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
