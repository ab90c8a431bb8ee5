"""The checker of replicas: made-up histories that hold, and others that it must not let pass."""

import pytest

from tests.fakes.histories import History, falls

Read = tuple[str, int]


@pytest.mark.parametrize(
    ("lost", "reads", "wrong"),
    [
        (None, [("", 0), ("a", 1), ("a", 2), ("abc", 2)], None),
        (None, [("a", 1), ("ac", 1)], "read what is no prefix"),
        (None, [("abcd", 1)], "read what is no prefix"),
        (None, [("ab", 1), ("a", 1)], "went back from 2 to 1"),
        (None, [("ab", 2), ("abc", 1)], "saw an older state"),
        # A failover that loses may take a caller back once,
        ("abxy", [("abx", 3), ("ab", 2), ("abc", 3)], None),
        ("abxy", [("ab", 3), ("ab", 2), ("abc", 2)], None),
        # but not twice, and not to what never was.
        ("abxy", [("abx", 1), ("ab", 1), ("a", 1)], "went back from 2 to 1"),
        ("abxy", [("abx", 1), ("abc", 1), ("abx", 1)], "read what is no prefix"),
        ("abxy", [("abz", 1)], "read what is no prefix"),
        ("abxy", [("abx", 3), ("ab", 2), ("ab", 1)], "saw an older state"),
    ],
)
def test_what_is_no_prefix_or_goes_back_is_found(
    lost: str | None, reads: list[Read], wrong: str | None
) -> None:
    told: dict[str, list[tuple[list[str | None], int]]] = {
        "caller": [([*texts], count) for texts, count in reads],
        "another": [([], 0)],
    }
    history = History(lost=None if lost is None else [*lost], reads=told)
    assert history.violation([*"abc"]) == (wrong and f"caller {wrong}")


def test_who_read_what_was_lost_and_then_what_is_left_was_taken_back() -> None:
    reads: dict[str, list[tuple[list[str | None], int]]] = {
        "back": [([*"abx"], 1), ([*"ab"], 1)],
        "gone": [([*"abx"], 1)],
        "new": [([*"ab"], 1), ([*"abc"], 1)],
    }
    history = History(lost=[*"abxy"], reads=reads)
    assert history.kept([*"abc"]) == 2
    assert history.taken_back([*"abc"]) == {"back"}
    assert falls([3, 2, 2, 1]) == 2
