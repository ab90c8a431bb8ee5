"""A call refuses what is of another type than its signature says, in one sentence."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

import numpy as np
import pytest

from adkpg.errors import InvalidInput
from adkpg.interface.arguments import Arguments, checked


class Speaker(Protocol):
    name: str

    def speak(self) -> None: ...


class Parrot:
    name = "Polly"

    def speak(self) -> None: ...


class Fish:
    name = "Wanda"


@checked
def called(
    text: str = "",
    number: int = 0,
    share: float = 0.0,
    flag: bool = False,
    moment: datetime | str | None = None,
    names: Sequence[str] = (),
    lists: list[int] | None = None,
    more: Mapping[str, object] | None = None,
    mode: Literal["a", "b"] | bool = "a",
    then: Callable[[], None] | None = None,
    speaker: Speaker | None = None,
    anything: Any = None,
    **others: object,
) -> str:
    return "called"


@pytest.mark.parametrize(
    "given",
    [
        {"text": "x", "number": 3, "share": 0.5, "flag": True},
        {"share": 1, "number": np.int64(3)},
        {"share": np.float32(1), "moment": datetime(2026, 1, 1)},  # noqa: DTZ001 - what it says is judged elsewhere
        {"moment": "2026-01-01", "names": ["a"], "lists": (1, 2), "more": {"a": object()}},
        {"names": (), "mode": True, "then": called, "speaker": Parrot(), "anything": object()},
        {"others": object(), "mode": "c"},  # which of its texts a call knows it says itself
    ],
)
def test_what_fits_is_passed_on(given: dict[str, Any]) -> None:
    assert called(**given) == "called"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("text", 5, "text has to be str, not int."),
        ("text", b"x", "text has to be str, not bytes."),
        ("text", None, "text has to be str, not None."),
        ("number", "5", "number has to be int, not str."),
        ("number", True, "number has to be int, not bool."),
        ("number", 1.5, "number has to be int, not float."),
        ("share", "5", "share has to be float, not str."),
        ("flag", "no", "flag has to be bool, not str."),
        ("flag", 1, "flag has to be bool, not int."),
        ("moment", 5, "moment has to be datetime, str or None, not int."),
        ("names", "ana", "names has to be a sequence of str, not str."),
        ("names", ["ana", 5], "names has to be a sequence of str, and holds int."),
        ("names", {"ana"}, "names has to be a sequence of str, not set."),
        ("lists", ["a"], "lists has to be a sequence of int or None, and holds str."),
        ("more", [("a", 1)], "more has to be a mapping or None, not list."),
        ("mode", 5, "mode has to be str or bool, not int."),
        ("then", "x", "then has to be a callable or None, not str."),
        ("speaker", Fish(), "speaker has to be Speaker or None, not Fish."),
    ],
)
def test_what_does_not_fit_is_named_with_both_types_and_without_its_value(
    name: str, value: object, said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        called(**{name: value})  # type: ignore[arg-type] # is what is tested
    assert str(caught.value) == said


def test_arguments_by_position_are_looked_at_too() -> None:
    with pytest.raises(InvalidInput, match=r"^number has to be int, not str\.$"):
        called("x", "5")  # type: ignore[arg-type] # is what is tested


def test_the_next_call_is_looked_at_as_well() -> None:
    arguments = Arguments(called)
    arguments.require(["x"], {"number": 3})
    for _ in range(2):
        with pytest.raises(InvalidInput, match="text has to be str"):
            arguments.require([3], {})
