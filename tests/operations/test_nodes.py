"""What the nodes of a cluster measure, added up; without a cluster."""

import json

import pytest

from adkpg.operations.findings import Verdict
from adkpg.operations.nodes.check import compare
from adkpg.operations.nodes.measures import answered, together


def test_parts_are_added_up_under_the_name_of_their_table() -> None:
    first = {"name": "events", "copied": False, "rows": 3, "needed": 1.5, "valid": True}
    second = {"name": "events", "copied": False, "rows": 4, "needed": 2.0, "valid": False}
    third = {"name": "audit", "copied": False, "rows": 1, "needed": 1.0, "valid": True}
    found = together([[first], [second, third]])
    assert [row["name"] for row in found] == ["audit", "events"]
    assert found[1] == {
        "name": "events",
        "copied": False,
        "rows": 7,
        "needed": 3.5,
        "valid": False,
    }


def test_of_copies_the_largest_counts_and_of_parts_the_largest_is_told() -> None:
    copies = [{"name": "app_states", "copied": True, "bytes": size} for size in (10, 30, 20)]
    assert together([[each] for each in copies]) == [copies[1]]
    parts = [{"name": "i", "copied": False, "bytes": n, "part_bytes": n} for n in (10, 30, 20)]
    assert together([parts]) == [{"name": "i", "copied": False, "bytes": 60, "part_bytes": 30}]


def test_who_gave_no_answer_is_told_apart_with_why() -> None:
    rows = [{"name": "events"}]
    answers = [
        {"node": "a:1", "success": True, "result": json.dumps(rows)},
        {"node": "b:2", "success": False, "result": "failed to\nconnect"},
    ]
    assert answered(answers) == ({"a:1": rows}, {"b:2": "failed to connect"})


@pytest.mark.parametrize(
    ("differs", "said", "cure"),
    [
        ({"pgvector": "0.8.2"}, "pgvector is not the same everywhere: 0.8.6 on a:1; ", "UPDATE;"),
        ({"pgvector": None}, "missing on b:2", "ALTER EXTENSION vector UPDATE;"),
        ({"clock_s": 1e9 + 5}, "the clock of b:2 is 5.0 s ahead of that of a:1", "timedatectl"),
        ({"clock_s": 1e9 + 0.5}, "", None),
    ],
)
def test_nodes_that_differ_are_a_warning(
    differs: dict[str, object], said: str, cure: str | None
) -> None:
    one = {"postgres": "18.6", "citus": "14.0-1", "pgvector": "0.8.6", "clock_s": 1e9}
    verdict = Verdict("nodes")
    compare({"a:1": one, "b:2": {**one, **differs}}, verdict)
    found = verdict.finding("")
    assert said in found.detail
    assert (found.status, cure is None) == ("ok" if cure is None else "warning", not found.cure)
    assert (cure or "") in (found.cure or "")
