"""What a search may be told, and what it refuses to be told."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adkpg.errors import InvalidInput
from adkpg.memory.filters import SearchFilters
from adkpg.memory.search.options import MAX_TOP_K, SearchOptions


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("top_k", [0, -1, MAX_TOP_K + 1, 2**31, 1.5, "5", True]),
        ("min_relevance", [-0.1, 1.1, math.nan, math.inf, "0.5", True]),
        ("half_life", [timedelta(), timedelta(-1), 3600, "1d"]),
        ("max_tokens", [0, -1, 1.5, "100", True]),
        ("neighbours", [-1, 11, 0.5, "1", True]),
        ("mode", ["", "VECTOR", "words", 1, ["text"]]),
        ("filters", [{"authors": ["ana"]}, "ana", []]),
        ("app_wide", ["yes", 1]),
        ("time_zone", ["Nowhere", "", "../etc/passwd", "a\0b", 9, datetime.now(UTC)]),
    ],
)
def test_values_out_of_range_are_refused_by_name(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidInput, match=name) as refused:
            SearchOptions().changed(**{name: value})
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 1},
        {"top_k": MAX_TOP_K},
        {"min_relevance": 0},
        {"min_relevance": 1.0},
        {"half_life": timedelta.max},
        {"half_life": timedelta.resolution},
        {"max_tokens": 1},
        {"max_tokens": 10**9},
        {"neighbours": 0},
        {"neighbours": 10},
        {"app_wide": False},
        {"mode": "text"},
        {"filters": SearchFilters(authors=["ana"])},
    ],
)
def test_values_at_their_ends_are_taken(options: dict[str, Any]) -> None:
    changed = SearchOptions().changed(**options)
    assert {name: getattr(changed, name) for name in options} == options


def test_none_leaves_what_there_is() -> None:
    own = SearchOptions(top_k=3, min_relevance=0.2, neighbours=2, mode="text", app_wide=False)
    nothing = dict.fromkeys(
        ("top_k", "min_relevance", "neighbours", "mode", "app_wide", "filters", "similarity_top_k")
    )
    assert own.changed(**nothing) == own
    assert own.changed(neighbours=0).neighbours == 0


def test_vertex_name_means_the_same() -> None:
    assert SearchOptions(top_k=7).changed(similarity_top_k=3).top_k == 3


def test_both_names_may_say_the_same_and_nothing_else() -> None:
    options = SearchOptions()
    assert options.changed(top_k=3, similarity_top_k=3).top_k == 3
    with pytest.raises(InvalidInput, match="top_k was given twice"):
        options.changed(top_k=3, similarity_top_k=4)


@pytest.mark.parametrize(
    "options",
    [
        {"similarity_top_k": 0},
        {"similarity_top_k": "3", "top_k": 3},
    ],
)
def test_vertex_name_is_checked_too(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        SearchOptions().changed(**options)
