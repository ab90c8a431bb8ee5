"""How filters are read."""

import json
import math
import time
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from adkpg import jsontext
from adkpg.errors import InvalidInput
from adkpg.memory import attributes
from adkpg.memory.filters import NO_FILTERS, SearchFilters, parameters_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_nothing_asked_is_no_condition() -> None:
    assert NO_FILTERS.asked == frozenset()
    empty = SearchFilters(authors=(), session_ids=[], metadata={}, kinds=(), topics=[])
    assert (empty.asked, empty.parameters) == (frozenset(), {})


@pytest.mark.parametrize(
    "moment",
    [
        NOON,
        NOON.astimezone(timezone(timedelta(hours=-7))),
        "2026-01-31T12:00:00+00:00",
        "2026-01-31T12:00:00Z",
        "2026-01-31T13:00:00.000+01:00",
        NOON.timestamp(),
        int(NOON.timestamp()),
        NOON.replace(tzinfo=None),
        NOON.replace(tzinfo=None).isoformat(),
    ],
)
def test_every_form_of_a_moment_is_the_same(moment: datetime | str | float) -> None:
    filters = SearchFilters(after=moment, before=moment)
    assert filters.parameters == {"after": NOON, "before": NOON}


@pytest.mark.parametrize(
    "value", ["2026-01-31", date(2026, 1, 31), NOON.replace(hour=0, tzinfo=None)]
)
def test_a_day_begins_where_the_search_is(
    value: date | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")  # of the server, which says nothing of the user
    time.tzset()
    try:
        filters = SearchFilters(after=value)
        tokyo = datetime(2026, 1, 30, 15, tzinfo=UTC)
        assert parameters_of(filters, ZoneInfo("Asia/Tokyo"))["after"] == tokyo
        assert parameters_of(filters, UTC)["after"] == datetime(2026, 1, 31, tzinfo=UTC)
        assert parameters_of(SearchFilters(after=NOON), ZoneInfo("Asia/Tokyo"))["after"] == NOON
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("moment", [math.inf, -math.inf, 1e300, "0001-01-02T00:00:00+00:00"])
def test_moments_beyond_the_calendar_are_its_ends(moment: float | str) -> None:
    (read,) = SearchFilters(after=moment).parameters.values()
    assert isinstance(read, datetime)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("after", "yesterday"),
        ("before", "2026-13-01"),
        ("after", math.nan),
        ("after", True),
        ("before", [1]),
        ("authors", "ana"),
        ("authors", [1]),
        ("authors", None),
        ("session_ids", "s"),
        ("session_ids", 5),
        ("topics", {"tea": 1, 2: 3}),
        ("kinds", ["turn", "memo"]),
        ("kinds", "turn"),
        ("metadata", "text"),
        ("metadata", 5),
        ("metadata", {"x": math.nan}),
        ("metadata", {"x": object()}),
        ("authors", ["ana"] * 1_001),
        ("session_ids", ["s"] * 1_001),
        ("topics", ["tea"] * 1_001),
        ("metadata", {"x": [[1] * 500, {str(number): number for number in range(500)}]}),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=name.removesuffix("s")):
        SearchFilters(**{name: value})


def test_metadata_nested_too_deeply_is_refused() -> None:
    nested: dict[str, Any] = {}
    for _ in range(100_000):
        nested = {"x": nested}
    with pytest.raises(InvalidInput, match="metadata"):
        SearchFilters(metadata=nested)


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": 1, "b": [1, {"c": None}], "d": {"e": True}},
        {"nul\x00": "a\x00b", "sub": "\x1a"},
        {"when": NOON, "raw": b"\xff\x00", "for": timedelta(hours=1)},
        {"set": frozenset({1}), "pair": (1, 2)},
    ],
)
def test_metadata_is_looked_for_as_it_is_stored(metadata: dict[str, Any]) -> None:
    stored = attributes.read(metadata, 0.0).custom_metadata
    assert stored is not None
    asked = json.loads(SearchFilters(metadata=metadata).parameters["metadata"])
    assert asked == json.loads(stored)
    assert set(map(str, jsontext.read(stored))) == set(metadata)


def test_texts_are_looked_for_as_they_are_stored() -> None:
    filters = SearchFilters(authors=[" Ana "], topics=[" a\x00b "], session_ids=["s"])
    assert filters.parameters == {"authors": ["Ana"], "topics": ["a b"], "session_ids": ["s"]}


def test_a_session_that_cannot_be_stored_is_nobodys() -> None:
    filters = SearchFilters(session_ids=["a\x00b"])
    assert filters.parameters == {"session_ids": []}
    assert filters.asked == {"session_ids"}


def test_filters_keep_what_they_were_made_of() -> None:
    authors = ["ana"]
    filters = SearchFilters(authors=authors)
    authors.append("bob")
    assert filters.parameters["authors"] == ["ana"]
