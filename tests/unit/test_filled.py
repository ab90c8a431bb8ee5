"""Tables that hold rows are named, the others are counted."""

import pytest

from adkpg.tooling.filled import filled


@pytest.mark.parametrize(
    ("rows", "named", "rest"),
    [
        ([], [], None),
        ([3, 2], [3, 2], None),
        ([3, 0, 2, 0], [3, 2], "2 more tables are empty."),
        ([3, 0], [3], "1 more table is empty."),
        ([0, 0], [], "2 tables are empty."),
        ([0], [], "1 table is empty."),
    ],
)
def test_tables_that_hold_rows_are_named(
    rows: list[int], named: list[int], rest: str | None
) -> None:
    assert filled(rows, lambda table: table) == (named, rest)
