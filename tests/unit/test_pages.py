"""Cursors between pages come back as they were, and nothing else is accepted."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkpg.errors import InvalidInput
from adkpg.pages import cursor_of, place_of

ids = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
times = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001 # the strategy adds the zone itself
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)
places = st.integers(min_value=-(2**63), max_value=2**63 - 1)


@given(times, ids, places)
def test_a_cursor_comes_back(time: datetime, user_id: str, position: int) -> None:
    cursor = cursor_of(time, user_id, position)
    assert cursor.isascii()
    assert place_of(cursor, datetime, str, int) == (time, user_id, position)


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "x", "äöü", "eyJ", "W10", "bnVsbA", "WzEsMiwzXQ", "Iu2goCI", "=", "a=b"),
        "W1tb" * 9999,
        cursor_of(1),
        cursor_of("2026-01-01", "u", "s"),
        cursor_of("2026-01-01T00:00:00+00:00", "u", 1),
        cursor_of("2026-01-01T00:00:00+00:00", "u", "\x00"),
        cursor_of("2026-01-01T00:00:00+00:00", "u", "\x01app"),
    ],
)
def test_what_is_no_cursor_of_a_listing_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput, match="did not come from a page"):
        place_of(cursor, datetime, str, str)


@pytest.mark.parametrize("place", [2**63, -(2**63) - 1])
def test_places_that_no_row_has_are_refused(place: int) -> None:
    with pytest.raises(InvalidInput):
        place_of(cursor_of(place), int)


@given(st.text())
def test_any_text_is_a_cursor_or_refused(cursor: str) -> None:
    try:
        time, _, _ = place_of(cursor, datetime, str, str)
    except InvalidInput:
        return
    assert isinstance(time, datetime)
