"""Each query is what Postgres takes it for: prepared as it is sent, its types those of Python."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

import asyncpg
import pytest

import adkpg
from adkpg.queries import PLACEHOLDER, Nothing, Statement
from tests.fakes.roles import guarded_roles
from tests.fakes.statements import statements

TYPES = {
    str: {"text", "varchar", "name", "json", "jsonb", "bpchar", "char"},
    int: {"int2", "int4", "int8", "oid"},
    float: {"float8"},
    bool: {"bool"},
    bytes: {"bytea"},
    datetime: {"timestamptz"},
    timedelta: {"interval"},
    UUID: {"uuid"},
    Decimal: {"numeric"},
    None: {"void"},
    NoneType: {"void"},
}


def known(kind: Any) -> set[str]:
    """The names of the types in Postgres that a type of Python stands for."""
    if get_origin(kind) is UnionType:
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is not None:  # a list
        return {f"{each}[]" for each in known(get_args(kind)[0])}
    return TYPES[kind]


COORDINATOR = """
CREATE FUNCTION run_command_on_coordinator(command text, OUT success boolean, OUT result text)
LANGUAGE sql AS 'SELECT true, command'
"""
"""As Citus has it."""


@pytest.fixture
async def described(connection: asyncpg.Connection) -> asyncpg.Connection:
    """A connection to a migrated database in which all that a query names can be found."""
    citus = await connection.fetchval("SELECT to_regproc('run_command_on_coordinator')")
    if citus is None:
        await connection.execute(COORDINATOR)
    return connection


def every() -> Iterator[tuple[str, Statement, dict[str, Any]]]:
    """Each statement, with its name and the types of its parameters."""
    for name, statement, hints in statements():
        if not name.endswith("backup.statements.count_rows"):  # of a schema that it names itself
            yield name, statement, hints


async def test_each_query_is_prepared_with_the_types_of_its_function(
    described: asyncpg.Connection,
) -> None:
    for name, statement, hints in every():
        prepared = await described.prepare(statement.text("adkpg"))
        taken = [each.name for each in prepared.get_parameters()]
        if statement.enters:
            assert taken.pop() == "text[]"
        for parameter, kind in zip(statement.names, taken, strict=True):
            # The driver reads these of texts.
            texts = {"uuid", "vector"} if "str" in str(hints[parameter]) else {"float4"}
            assert kind in known(hints[parameter]) | texts, f"{name}: {parameter}"
        if statement.row is not Nothing:
            returned = {each.name: each.type.name for each in prepared.get_attributes()}
            assert returned.keys() == statement.columns.keys(), name
            for column, kind in returned.items():
                assert kind in known(statement.columns[column]), f"{name}: {column}"


async def test_each_query_is_prepared_as_it_enters_a_scope_and_as_it_answers_in_json(
    described: asyncpg.Connection, database_url: str
) -> None:
    async with guarded_roles(database_url):
        for name, statement, _ in every():
            if statement.text("adkpg").startswith("LOCK TABLE"):
                continue  # runs in transactions, which enter the scope
            for gate in (2, 0):
                prepared = await described.prepare(statement.text("adkpg", gate))
                arguments = len(statement.names) + (1 if statement.enters else gate)
                assert len(prepared.get_parameters()) == arguments, name
            if not statement.writes:
                standing = "SELECT true AS adkpg_standby"
                await described.prepare(statement.text("adkpg", 2, standing))
            prepared = await described.prepare(statement.answering().replace(PLACEHOLDER, "adkpg"))
            assert [each.type.name for each in prepared.get_attributes()] == ["json"], name


def test_a_statement_enters_its_scope_by_a_condition_on_top() -> None:
    gated = (
        "SELECT * FROM (SELECT * FROM ({}) AS scoped OFFSET 0) AS gated"
        " WHERE adkpg.enter_scope($1, $2)"
    )
    for sql, expected in (
        ("SELECT 1", gated.format("SELECT 1")),
        (
            "DELETE FROM t",
            "WITH changed AS (DELETE FROM t)\n" + gated.format("SELECT 0 AS changed"),
        ),
        (
            "WITH a AS (\n  UPDATE t SET x = 1\n  RETURNING x\n)\nSELECT x FROM a",
            "WITH a AS (\nUPDATE t SET x = 1\nRETURNING x\n)\n" + gated.format("SELECT x FROM a"),
        ),
    ):
        statement = Statement(sql, Nothing)
        assert statement.text("adkpg", 2) == expected
        every = expected.replace("enter_scope($1, $2)", "enter_every_scope()")
        assert statement.text("adkpg", 0) == every


def test_what_a_query_lacks_or_has_too_much_is_told_when_it_is_named() -> None:
    with pytest.raises(ValueError, match="at the left margin"):
        Statement("WITH a AS (SELECT 1) DELETE FROM t", Nothing)
    with pytest.raises(ValueError, match="the last parameter"):
        Statement("SELECT f(:scope, :name)", Nothing)


def test_each_name_in_a_file_is_one_that_its_module_asks_for() -> None:
    files = list(Path(adkpg.__file__).parent.rglob("*.sql"))
    assert files
    for path in files:
        module = path.with_suffix(".py").read_text()
        names = re.findall(r"^-- name: (\w+)$", path.read_text(), re.MULTILINE)
        assert len(set(names)) == len(names), path
        unused = [name for name in names if not re.search(rf"def {name}\(|\"{name}\"", module)]
        assert unused == [], path
