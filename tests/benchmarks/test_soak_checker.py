"""The soak's checker: made-up histories that hold, and others that it must not let pass."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soak.checker import violations
from benchmarks.soak.history import History, Log

Record = dict[str, Any]


def append(value: str, began: float, ended: float | None) -> list[Record]:
    invoked: Record = {"kind": "invoke", "session": "s", "value": value, "at": began}
    if ended is None:
        return [invoked]
    return [invoked, {"kind": "ok", "session": "s", "value": value, "at": ended}]


def read(values: str, began: float, ended: float) -> list[Record]:
    return [{"kind": "read", "session": "s", "values": [*values], "began": began, "at": ended}]


def listed(kind: str, values: str) -> list[Record]:
    return [{"kind": kind, "session": "s", "values": [*values], "at": 99.0}]


def found(*records: Sequence[Record]) -> list[str]:
    history = History()
    for each in (record for group in records for record in group):
        history.add(each)
    return violations(history)


ABC = [*append("a", 0, 1), *append("b", 2, 3), *append("c", 4, 5)]


def test_a_history_that_holds() -> None:
    assert (
        found(
            ABC,
            read("", 0, 0.5),
            read("a", 1.5, 2.5),  # b may or may not be there while it is appended
            read("ab", 1.5, 2.5),
            read("abc", 6, 7),
            listed("final", "abc"),
            listed("live", "abc"),
        )
        == []
    )


@pytest.mark.parametrize("final", ["ab", "abx"])
def test_what_was_never_acknowledged_may_be_stored_or_not(final: str) -> None:
    assert found(ABC[:4], append("x", 4, None), listed("final", final)) == []


def test_appends_at_the_same_time_may_have_any_order() -> None:
    both = [*append("a", 0, 5), *append("b", 1, 4)]
    for final in ("ab", "ba"):
        assert found(both, read(final[0], 2, 3), listed("final", final)) == []


@pytest.mark.parametrize(
    ("records", "what"),
    [
        ([listed("final", "ac")], "acknowledged and lost: ['b']"),
        ([listed("final", "abcb")], "doubled: ['b']"),
        ([listed("final", "abcz")], "stored and never appended: ['z']"),
        ([listed("final", "acb")], "c began after b had ended, and is stored before it"),
        ([read("ab", 6, 7), listed("final", "abc")], "a stale read lacks what was"),
        ([read("a", 3.5, 3.6), listed("final", "abc")], "a stale read lacks what was"),
        ([read("ac", 6, 7), listed("final", "abc")], "a read is no prefix: at 1 it has c"),
        ([read("aab", 6, 7), listed("final", "abc")], "a read is no prefix: at 1 it has a"),
        ([read("abcd", 6, 7), listed("final", "abc")], "a read is no prefix: at 3 it has d"),
        ([read("abc", 3, 3.5), listed("final", "abc")], "holds what was appended after it: ['c']"),
        ([listed("final", "abc"), listed("live", "ab")], "a live object differs: it ends after 2"),
        ([listed("final", "abc"), listed("live", "abx")], "a live object differs: at 2 it has x"),
        ([], "nobody read it at the end"),
        (
            [listed("final", "abc"), [{"kind": "violation", "what": "another's memory", "at": 1}]],
            "another's memory",
        ),
    ],
)
def test_a_history_that_does_not_hold(records: list[list[Record]], what: str) -> None:
    sentences = found(ABC, *records)
    assert [sentence for sentence in sentences if what in sentence] != []


def test_a_history_is_read_back_to_where_a_kill_cut_it(tmp_path: Path) -> None:
    log = Log(tmp_path / "writer.jsonl")
    log("invoke", session="s", value="a")
    log("ok", session="s", value="a")
    log("error", type="Busy")
    log.close()
    with (tmp_path / "writer.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "final", "session": "s"})[:-3])
    history = History.read(tmp_path.glob("*.jsonl"))
    assert history.sessions["s"].appends["a"].ended is not None
    assert history.sessions["s"].final is None
    assert history.errors == {"Busy": 1}
