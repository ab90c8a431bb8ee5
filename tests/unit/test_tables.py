"""What the tables promise by their definition alone."""

import pytest
from sqlalchemy import ForeignKeyConstraint, Index, PrimaryKeyConstraint, Table, UniqueConstraint

from adkpg import tables

CASCADES = [
    (table, key)
    for table in tables.metadata.sorted_tables
    for key in sorted(table.foreign_key_constraints, key=lambda each: str(each.name))
    if key.ondelete == "CASCADE"
]


@pytest.mark.parametrize(("table", "key"), CASCADES, ids=lambda each: each.name)
def test_rows_that_go_with_another_are_found_by_an_index(
    table: Table, key: ForeignKeyConstraint
) -> None:
    """Else each row that goes reads all of a user; Postgres 18 alone can skip a column."""
    wanted = {column.name for column in key.columns}
    unique = (
        each
        for each in table.constraints
        if isinstance(each, (PrimaryKeyConstraint, UniqueConstraint))
    )
    ways: list[Index | PrimaryKeyConstraint | UniqueConstraint] = [*table.indexes, *unique]
    leading = [{column.name for column in list(way.columns)[: len(wanted)]} for way in ways]
    assert wanted in leading
