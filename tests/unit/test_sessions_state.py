"""State: scopes, the reversible escape, and what becomes of values that are not JSON."""

import dataclasses
import datetime
import decimal
import json
import logging
import sys
import uuid
from typing import Any, NamedTuple

import pytest
from google.adk.sessions import _session_util
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from adkpg import jsontext
from adkpg.errors import InvalidInput
from adkpg.sessions import state
from tests.fakes.strategies import any_json, any_text


@given(st.dictionaries(any_text, any_json, max_size=5))
def test_json_comes_back_as_it_was(scope: dict[str, Any]) -> None:
    text = jsontext.write_state(scope)
    text.encode()  # no lone surrogate is left
    assert "\\u0000" not in text
    assert jsontext.read_state(text) == jsontext.mended(scope)


@given(st.dictionaries(st.sampled_from(["", "app:", "user:", "temp:"]), any_text, max_size=4))
def test_merge_is_the_inverse_of_split(delta: dict[str, Any]) -> None:
    split = state.split(delta)
    kept = {key: value for key, value in delta.items() if not key.startswith("temp:")}
    assert state.merge(split.session, split.app, split.user) == jsontext.mended(kept)


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (None, (None, None, None)),
        ({}, (None, None, None)),
        ({"temp:a": 1}, (None, None, None)),
        ({"a": 1, "app:b": 2, "user:c": 3}, ({"a": 1}, {"b": 2}, {"c": 3})),
        ({"app:": 1}, (None, {"": 1}, None)),
        ({"app:user:x": 1}, (None, {"user:x": 1}, None)),
        ({"a": None}, ({"a": None}, None, None)),
        ({" app:a": 1}, ({" app:a": 1}, None, None)),
    ],
)
def test_scopes(delta: dict[str, Any] | None, expected: tuple[Any, ...]) -> None:
    split = state.split(delta)
    assert (
        tuple(scope and json.loads(scope) for scope in (split.session, split.app, split.user))
        == expected
    )


class Model(BaseModel):
    number: int
    moment: datetime.datetime


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Pair(NamedTuple):
    left: str
    right: int


class Opaque:
    def __repr__(self) -> str:
        return "<opaque>"


@pytest.mark.parametrize(
    "value",
    [
        {1},
        frozenset({"x"}),
        b"bytes",
        (1, 2),
        datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        datetime.timedelta(seconds=5),
        decimal.Decimal("1.5"),
        uuid.UUID(int=7),
        Model(number=1, moment=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)),
        Point(1, 2),
        Opaque(),
        len,
        {1: "integer key"},
        {"deep": [{"set": {1}}, Opaque()]},
        [len, b"text"],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_json_becomes_what_adk_makes_of_it(value: Any) -> None:
    delta = {"key": value, "app:key": value, "user:key": value, "plain": 1}
    expected = _session_util.extract_json_safe_state_delta(delta)
    split = state.split(delta)
    assert json.loads(split.session or "") == json.loads(json.dumps(expected["session"]))
    assert json.loads(split.app or "") == json.loads(json.dumps(expected["app"]))
    assert json.loads(split.user or "") == json.loads(json.dumps(expected["user"]))


def test_bytes_that_are_no_text_are_kept_as_base64() -> None:
    assert jsontext.jsonable({"raw": b"\xff\xfe"}) == {"raw": "__4="}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_become_null_with_a_warning(
    value: float, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="adkpg.jsontext"):
        assert jsontext.read_state(
            jsontext.write_state({"a": value, "b": [{"c": value}], "d": 1})
        ) == {
            "a": None,
            "b": [{"c": None}],
            "d": 1,
        }
    assert "NaN or infinity" in caplog.text


@given(st.dictionaries(any_text, st.floats() | st.lists(st.floats(), max_size=3), max_size=4))
def test_no_float_is_refused(scope: dict[str, Any]) -> None:
    text = jsontext.write_state(scope)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_nesting_as_deep_as_events_may_have_is_kept() -> None:
    deep: Any = "bottom"
    for _ in range(200):
        deep = {"down": [deep]}
    assert jsontext.read_state(jsontext.write_state({"deep": deep})) == {"deep": deep}


def _circular() -> dict[str, Any]:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    return circle


def _bottomless() -> dict[str, Any]:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"d": deep}
    return deep


@pytest.mark.parametrize("value", [_circular(), _bottomless()], ids=["circle", "bottomless"])
def test_what_has_no_end_is_refused_by_its_key(value: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="endless"):
        jsontext.write_state({"endless": value})


def test_an_object_that_cannot_be_shown_is_stored_as_a_text() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no")

    assert isinstance(jsontext.jsonable({"bad": Broken()})["bad"], str)


def test_surrogates_beside_what_is_not_json() -> None:
    scope = {"\ud800": {"\udfff": {"\x00"}}, "pair": Pair("\udfff", 1), "raw": b"\xff", "call": len}
    assert jsontext.jsonable(scope) == {
        "\ufffd": {"\ufffd": ["\x00"]},
        "pair": ["\ufffd", 1],
        "raw": "_w==",
        "call": repr(len),
    }


@pytest.mark.parametrize("bottom", [1, "\x00"])
def test_what_can_be_written_can_be_read_from_a_deeper_stack(bottom: object) -> None:
    deep: Any = bottom
    for _ in range(jsontext.MAX_DEPTH - 1):
        deep = [deep]
    text = jsontext.write_state({"deep": deep})

    def read(frames: int) -> dict[str, Any]:
        return read(frames - 1) if frames else jsontext.read_state(text)

    assert list(read(200)) == ["deep"]
    with pytest.raises(InvalidInput, match="nested deeper than"):
        jsontext.write_state({"deep": [deep]})


def test_a_key_that_is_no_string_is_refused() -> None:
    delta: dict[Any, Any] = {5: 1}
    with pytest.raises(InvalidInput, match=r"str\(5\)"):
        state.split(delta)


def test_what_is_deep_and_not_json_is_refused() -> None:
    deep: Any = {1}
    for _ in range(400):
        deep = [deep]
    with pytest.raises(InvalidInput, match="buried"):
        jsontext.write_state({"buried": deep})


@pytest.mark.parametrize("value", [1e16, -1e16, 1e23, 1.5e300, -sys.float_info.max])
def test_large_floats_are_written_with_all_their_digits(value: float) -> None:
    scope = {"n": [value], "1e+16": "1e+16 \\", "text": 'in "quotes" 1e+16'}
    text = jsontext.write_state(scope)
    assert "e+" not in text.replace("1e+16", "")
    back = jsontext.read_state(text)
    assert back == scope
    assert isinstance(back["n"][0], float)
