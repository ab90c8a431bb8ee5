"""Limits: sizes in bytes of UTF-8, ids that every key has room for, and how much is asked for."""

import pytest

from adkpg import Settings
from adkpg.errors import InvalidInput
from adkpg.keys import (
    MAX_BYTES,
    MAX_SOURCE_BYTES,
    require_memorable,
    require_storable,
    storable,
)
from adkpg.limits import page_rows, require_rows, require_size

SETTINGS = Settings(max_query_kb=1, max_results=5)


@pytest.mark.parametrize(
    ("fits", "too_large"),
    [
        (["x" * 1_000], ["x" * 1_001]),
        (["é" * 500], ["é" * 500, "x"]),
        (["😀" * 250, "", None], ["😀" * 251]),
        (["\ud800" * 333], ["\ud800" * 334]),
    ],
)
def test_sizes_are_bytes_of_utf_8_together(
    fits: list[str | None], too_large: list[str | None]
) -> None:
    require_size(SETTINGS, "max_query_kb", "The question", *fits)
    with pytest.raises(InvalidInput) as caught:
        require_size(SETTINGS, "max_query_kb", "The question", *too_large)
    for part in ("The question has 1,00", "ADKPG_MAX_QUERY_KB=1 allows 1,000;"):
        assert part in str(caught.value)


def test_rows_are_at_least_one_and_at_most_what_the_setting_says() -> None:
    for rows in (1, 5):
        require_rows(SETTINGS, "limit", rows)
    for rows, said in ((0, "limit=0 is below 1"), (6, "limit=6 is above ADKPG_MAX_RESULTS=5")):
        with pytest.raises(InvalidInput, match=said):
            require_rows(SETTINGS, "limit", rows)


def test_a_page_has_as_many_rows_as_the_setting_says_and_the_next_one_others() -> None:
    assert [page_rows(SETTINGS, limit) for limit in (1, 5, 6, 10**30)] == [1, 5, 5, 5]
    with pytest.raises(InvalidInput, match="limit=0 is below 1"):
        page_rows(SETTINGS, 0)


@pytest.mark.parametrize(
    ("name", "most"),
    [("session_id", MAX_BYTES), ("user_id", MAX_BYTES), ("source", MAX_SOURCE_BYTES)],
)
def test_ids_have_a_longest_length_in_bytes(name: str, most: int) -> None:
    for character in ("x", "é", "😀"):
        longest = character * (most // len(character.encode()))
        require_storable(**{name: longest})
        assert storable(**{name: longest})
        assert not storable(**{name: longest + character})
        with pytest.raises(InvalidInput, match=rf"^{name}='.{{20}}'\.\.\. has .* for {most:,};"):
            require_storable(**{name: longest + character})


def test_app_and_user_share_their_room_in_memory() -> None:
    app, user = "a" * 276, "ü" * 150
    require_memorable(app, user)
    require_storable(app_name="a" * MAX_BYTES, user_id="u" * MAX_BYTES)
    with pytest.raises(InvalidInput, match="app_name and user_id have 577 bytes together"):
        require_memorable(app, user + "u")
