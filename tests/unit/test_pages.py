"""Cursors between pages come back as they were, and nothing else is accepted."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkpg.errors import InvalidInput
from adkpg.sessions.pages import read_event_cursor, read_session_cursor, session_cursor

ids = st.text(st.characters(codec="utf-8"))
moments = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001 # the strategy adds the zone itself
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)


@given(moments, ids, ids)
def test_a_session_cursor_comes_back(moment: datetime, user_id: str, session_id: str) -> None:
    cursor = session_cursor(moment, user_id, session_id)
    assert cursor.isascii()
    assert read_session_cursor(cursor) == (moment, user_id, session_id)


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "äöü", "eyJ", "W10", "bnVsbA", "WzEsMiwzXQ", "Iu2goCI", "=", "a=b", "W1tb" * 9999],
)
def test_what_is_no_session_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput, match="is not a cursor"):
        read_session_cursor(cursor)


@given(st.text())
def test_any_text_is_a_session_cursor_or_refused(cursor: str) -> None:
    try:
        moment, _, _ = read_session_cursor(cursor)
    except InvalidInput:
        return
    assert isinstance(moment, datetime)


@pytest.mark.parametrize("cursor", ["", "-1", "1.5", "x", "9" * 19, "²"])
def test_what_is_no_event_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput, match="is not a cursor"):
        read_event_cursor(cursor)


@given(st.integers(min_value=0, max_value=10**18 - 1))
def test_an_event_cursor_is_its_place(seq: int) -> None:
    assert read_event_cursor(str(seq)) == seq
