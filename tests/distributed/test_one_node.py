"""Reads of a person go to one node as one command."""

import re
from typing import Any

import asyncpg
import pytest

from adkpg.facts import statements as facts
from adkpg.memory.search.statements import Shape, search, select_neighbours
from adkpg.sessions import reading_statements as reading
from adkpg.sql import Statement

pytestmark = pytest.mark.cluster

STATEMENTS: dict[str, Statement[Any]] = {
    "get": reading.select_session(events_wanted=True, after=False, recent=False),
    "get the last events": reading.select_session(events_wanted=True, after=False, recent=True),
    "list a user's": reading.list_sessions_page(one_user=True, after=False),
    "search": search(Shape(lexical=True, vector=True)),
    "search by words": search(Shape(lexical=True, vector=False)),
    "neighbours": select_neighbours(),
    "facts": facts.select_known(),
}
ZERO = {"text": "x", "int8": 1, "int4": 1, "int2": 1, "float8": 1.0, "float4": 1.0, "bool": True}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_one_command_to_one_node(name: str, connection: asyncpg.Connection) -> None:
    sql = STATEMENTS[name].text("adkpg", distributed=True)
    prepared = await connection.prepare(sql)
    arguments: list[Any] = []
    for each in prepared.get_parameters():
        kind = each.name.removesuffix("[]")
        value: Any = ZERO.get(kind)
        arguments.append([value] if each.name.endswith("[]") and value is not None else value)
    rows = await connection.fetch(f"EXPLAIN (COSTS OFF) {sql}", *arguments)
    plan = "\n".join(row[0] for row in rows)
    assert re.findall(r"Task Count: (\d+)", plan) == ["1"]
    assert "Distributed Subplan" not in plan
