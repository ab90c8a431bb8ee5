"""Each statement's binds are the names of the TypedDict that callers are held to."""

from typing import get_args, get_type_hints

import pytest
from sqlalchemy import text

from adkpg.sql import NoParameters, Statement
from tests.fakes.queries import QUERIES
from tests.fakes.statements import FUNCTIONS, shapes


def test_there_are_statements() -> None:
    assert "adkpg.sessions.statements.append_event" in QUERIES


def test_binds_are_the_parameters_that_callers_give() -> None:
    for name, function in FUNCTIONS.items():
        (parameters,) = get_args(get_type_hints(function)["return"])
        binds: set[str] = set()
        for shape in shapes(function):
            statement = function(**shape)
            binds |= statement.binds
        assert binds == set(parameters.__annotations__), name


@pytest.mark.parametrize(
    ("sql", "gated"),
    [
        (
            "SELECT 1",
            "WITH scoped AS (SELECT 1) SELECT * FROM (SELECT * FROM scoped OFFSET 0) AS gated"
            " WHERE adkpg.enter_scope($1, $2)",
        ),
        (
            "DELETE FROM t",
            "WITH scoped AS (DELETE FROM t) SELECT 1 WHERE NOT adkpg.enter_scope($1, $2)",
        ),
        (
            "WITH a AS (SELECT ')' AS \"(\") UPDATE t SET x = a FROM a RETURNING x",
            "WITH a AS (SELECT ')' AS \"(\"), scoped AS (UPDATE t SET x = a FROM a RETURNING x)"
            " SELECT * FROM (SELECT * FROM scoped OFFSET 0) AS gated"
            " WHERE adkpg.enter_scope($1, $2)",
        ),
    ],
)
def test_a_statement_enters_its_scope_by_a_condition_on_top(sql: str, gated: str) -> None:
    statement: Statement[NoParameters] = Statement(text(sql))
    assert statement.text("adkpg", 2) == gated
    assert statement.text("adkpg", 0) == gated.replace("enter_scope($1, $2)", "enter_every_scope()")
    assert statement.text("adkpg") == sql
