"""The checker of replicas: made-up histories that hold, and others that it must not let pass."""

import pytest

from tests.fakes.histories import History, falls

Read = tuple[str, int]


def violation(reads: list[Read], *, final: str = "abc", lost: str | None = None) -> str | None:
    told: dict[str, list[tuple[list[str | None], int]]] = {
        "caller": [([*texts], count) for texts, count in reads]
    }
    history = History(lost=None if lost is None else [*lost], reads=told)
    return history.violation([*final])


@pytest.mark.parametrize(
    "reads",
    [
        [],
        [("", 0), ("a", 1), ("a", 2), ("abc", 2)],
        [("abc", 1)],
    ],
)
def test_prefixes_that_never_go_back_hold(reads: list[Read]) -> None:
    assert violation(reads) is None


@pytest.mark.parametrize(
    ("reads", "wrong"),
    [
        ([("a", 1), ("ac", 1)], "read what is no prefix"),
        ([("abcd", 1)], "read what is no prefix"),
        ([("abb", 1)], "read what is no prefix"),
        ([("ab", 1), ("a", 1)], "went back from 2 to 1"),
        ([("ab", 1), ("", 0)], "went back from 2 to 0"),
        ([("ab", 2), ("ab", 1)], "saw an older state"),
        ([("ab", 2), ("abc", 1)], "saw an older state"),
    ],
)
def test_what_is_no_prefix_or_goes_back_is_found(reads: list[Read], wrong: str) -> None:
    assert violation(reads) == f"caller {wrong}"


def test_one_callers_reads_say_nothing_of_anothers() -> None:
    reads: dict[str, list[tuple[list[str | None], int]]] = {"a": [(["a", "b"], 1)], "b": [([], 0)]}
    assert History(reads=reads).violation(["a", "b"]) is None
    reads["b"] += [(["b"], 1)]
    assert History(reads=reads).violation(["a", "b"]) == "b read what is no prefix"


@pytest.mark.parametrize(
    "reads",
    [
        [("abx", 3), ("ab", 2), ("abc", 3)],
        [("a", 3), ("a", 2), ("abc", 3)],
        [("abxy", 3), ("abc", 3)],
        [("ab", 3), ("ab", 2), ("abc", 2)],  # the state alone shows that something was lost
        [("abc", 3)],
    ],
)
def test_a_failover_that_loses_may_take_a_caller_back_once(reads: list[Read]) -> None:
    assert violation(reads, lost="abxy") is None


@pytest.mark.parametrize(
    ("reads", "wrong"),
    [
        ([("abx", 1), ("ab", 1), ("a", 1)], "went back from 2 to 1"),
        ([("abx", 1), ("a", 1), ("abc", 1)], "went back from 2 to 1"),
        ([("ab", 1), ("a", 1), ("abc", 1)], "went back from 2 to 1"),
        ([("abx", 1), ("abc", 1), ("abx", 1)], "read what is no prefix"),
        ([("abz", 1)], "read what is no prefix"),
        ([("abx", 3), ("ab", 2), ("ab", 1)], "saw an older state"),
    ],
)
def test_but_not_twice_and_not_to_what_never_was(reads: list[Read], wrong: str) -> None:
    assert violation(reads, lost="abxy") == f"caller {wrong}"


def test_who_read_what_was_lost_and_then_what_is_left_was_taken_back() -> None:
    reads: dict[str, list[tuple[list[str | None], int]]] = {
        "back": [([*"abx"], 1), ([*"ab"], 1)],
        "gone": [([*"abx"], 1)],
        "new": [([*"ab"], 1), ([*"abc"], 1)],
    }
    history = History(lost=[*"abxy"], reads=reads)
    assert history.kept([*"abc"]) == 2
    assert history.taken_back([*"abc"]) == {"back"}


@pytest.mark.parametrize(
    ("counts", "times"), [([], 0), ([1, 1, 3], 0), ([3, 2, 3], 1), ([3, 2, 2, 1], 2)]
)
def test_a_state_that_went_back_is_counted(counts: list[int], times: int) -> None:
    assert falls(counts) == times
