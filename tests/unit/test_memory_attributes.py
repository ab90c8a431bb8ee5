"""What a caller says of a memory in ADK's custom_metadata."""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adkpg.errors import InvalidInput
from adkpg.memory import attributes
from adkpg.memory.records import Memory

NOW = 1_700_000_000.0
HOUR_LATER = datetime.fromtimestamp(NOW + 3600, UTC)


@pytest.mark.parametrize("ttl", [3600, 3600.0, "3600s", "3600", " 3600.0s ", timedelta(hours=1)])
def test_a_time_to_live_counts_from_now(ttl: Any) -> None:
    read = attributes.read({"ttl": ttl, "kept": 1}, NOW)
    assert read.expires_at == HOUR_LATER
    assert json.loads(read.custom_metadata or "") == {"kept": 1}


@pytest.mark.parametrize(
    "ttl",
    [
        0,
        -1,
        "",
        "1h",
        "-3600s",
        True,
        math.nan,
        [],
        timedelta(0),
        "3600 s x",
        -(10**400),
        "9" * 400,
    ],
)
def test_what_is_no_time_to_live_is_refused(ttl: Any) -> None:
    with pytest.raises(InvalidInput, match="ttl="):
        attributes.read({"ttl": ttl}, NOW)


@pytest.mark.parametrize("key", ["expires_at", "expire_time"])
def test_an_expiry_is_a_moment(key: str) -> None:
    for moment in (HOUR_LATER, HOUR_LATER.isoformat(), HOUR_LATER.timestamp()):
        assert attributes.read({key: moment}, NOW) == attributes.Attributes(expires_at=HOUR_LATER)
    with pytest.raises(InvalidInput, match=key):
        attributes.read({key: ["tomorrow"]}, NOW)
    with pytest.raises(InvalidInput, match=key):
        attributes.read({key: "tomorrow"}, NOW)


@pytest.mark.parametrize("ttl", [math.inf, 10**400, 1e300, 10**18])
def test_a_time_to_live_for_ever_is_the_calendars_end(ttl: float) -> None:
    read = attributes.read({"ttl": ttl}, NOW)
    assert read.expires_at is not None
    assert (read.expires_at.year, read.ttl_s) == (9999, None)


def test_an_end_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidInput, match="expires_at=nan"):
        attributes.read({"expires_at": math.nan}, NOW)


@pytest.mark.parametrize(("value", "expected"), [(0, 0.0), (1, 1.0), (0.25, 0.25)])
def test_importance_is_a_number(value: float, expected: float) -> None:
    read = attributes.read({"importance": value}, NOW)
    assert read.importance == expected
    assert json.loads(read.custom_metadata or "") == {"importance": value}


@pytest.mark.parametrize("value", [-0.1, 1.1, 5, math.nan])
def test_an_importance_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match="importance"):
        attributes.read({"importance": value}, NOW)


@pytest.mark.parametrize("value", ["high", True, None, [0.7]])
def test_an_importance_of_another_type_is_the_callers_own_affair(value: Any) -> None:
    read = attributes.read({"importance": value}, NOW)
    assert read.importance == 0.5
    assert json.loads(read.custom_metadata or "") == {"importance": value}


def test_topics_are_a_list_of_texts_in_order_and_once() -> None:
    read = attributes.read({"topics": ["tea", " a\x00b ", "tea", ""]}, NOW)
    assert json.loads(read.topics) == ["a b", "tea"]


@pytest.mark.parametrize("value", ["tea", 5, ["tea", 5], {"tea": 1}, None])
def test_topics_of_another_type_are_the_callers_own_affair(value: Any) -> None:
    assert attributes.read({"topics": value}, NOW).topics == "[]"


def test_what_a_memory_says_itself_holds_where_the_metadata_is_silent() -> None:
    known = Memory.model_validate(
        {
            "content": {"parts": []},
            "topics": ["tea"],
            "importance": 0.9,
            "expires_at": HOUR_LATER.isoformat(),
        }
    )
    assert attributes.read({}, NOW, known) == attributes.Attributes(
        topics='["tea"]', importance=0.9, expires_at=HOUR_LATER
    )
    louder = attributes.read({"topics": ["coffee"], "importance": 0, "ttl": 60}, NOW, known)
    assert (louder.topics, louder.importance) == ('["coffee"]', 0.0)
    assert louder.expires_at == datetime.fromtimestamp(NOW + 60, UTC)


@pytest.mark.parametrize("metadata", [None, {}, {"ttl": 60}])
def test_no_metadata_is_null(metadata: dict[str, Any] | None) -> None:
    assert attributes.read(metadata, NOW).custom_metadata is None


def test_the_metadata_given_is_not_changed() -> None:
    given = {"ttl": 60, "topics": ["tea"]}
    attributes.read(given, NOW)
    assert given == {"ttl": 60, "topics": ["tea"]}
