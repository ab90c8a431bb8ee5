"""The plan that Postgres makes of a statement, as the services' prepared statements get it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import asyncpg

from adkpg.queries import Query, Statement
from adkpg.tables import SCHEMA


async def explain(
    connection: asyncpg.Connection,
    statement: Query[Any] | Statement,
    parameters: Mapping[str, Any] | None = None,
    *,
    generic: bool = False,
    scope: tuple[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Runs a statement and returns the nodes of its plan, custom or generic, also in a scope."""
    asked: Any = statement
    if isinstance(statement, Query):
        asked, parameters = statement
    values = asked.arguments(parameters, scope)
    mode = "force_generic_plan" if generic else "force_custom_plan"
    await connection.execute(f"SET plan_cache_mode = {mode}")
    await connection.execute(
        f"PREPARE asked AS {asked.text(SCHEMA, len(scope) if scope else None)}"
    )
    plan = await connection.fetchval(
        f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE asked{literals(values)}"
    )
    await connection.execute("DEALLOCATE asked")
    return list(_nodes(json.loads(plan)[0]["Plan"]))


def rows_read(node: Mapping[str, Any]) -> float:
    """Returns how many rows a node made or threw away, all loops together."""
    removed = sum(rows for name, rows in node.items() if name.startswith("Rows Removed by"))
    total: float = (node["Actual Rows"] + removed) * node["Actual Loops"]
    return total


def scans(nodes: list[dict[str, Any]], relation: str) -> list[dict[str, Any]]:
    """Returns the nodes that read a table, or one of its indexes for a bitmap."""
    return [
        node
        for node in nodes
        if node.get("Relation Name") == relation
        or str(node.get("Index Name", "")).startswith(f"{relation}_")
    ]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def literals(values: Sequence[Any]) -> str:
    """Returns arguments as EXECUTE takes them."""
    return f"({', '.join(map(_literal, values))})" if values else ""


def _literal(value: Any) -> str:
    if value == []:
        return "'{}'"
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_literal, value))}]"
    if isinstance(value, datetime):
        return f"'{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else repr(value)
