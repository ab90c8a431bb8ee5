"""Nodes: what those of a cluster measure of their parts, added up as if it were one server."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from adkpg.database import Database
from adkpg.errors import DatabaseUnavailable
from adkpg.operations.nodes.statements import SchemaParameters
from adkpg.sql import ParametersT, Statement

Row = Mapping[str, Any]

_OF_LARGEST = "part_bytes"


async def are_several(database: Database) -> bool:
    """Whether the tables lie on the nodes of a cluster, whatever else they are like."""
    cluster = await database.cluster()
    return cluster is not None and cluster.kinds.get("sessions") == "h"


async def measure(database: Database, statement: Statement[SchemaParameters]) -> list[Row]:
    """Measures the tables, on whichever nodes their rows are: a row for each name.

    Raises:
      DatabaseUnavailable: A node does not answer; the message names it.
    """
    place: SchemaParameters = {"schema": database.schema}
    if not await are_several(database):
        return [dict(row) for row in await database.look(statement, place)]
    return together((await ask(database, statement, place)).values())


async def ask(
    database: Database, statement: Statement[ParametersT], parameters: ParametersT
) -> dict[str, list[Row]]:
    """Returns each node's rows, by its host and port; the statement says how nodes are asked.

    Raises:
      DatabaseUnavailable: A node does not answer; the message names it.
    """
    answers = await database.look(statement.form(distributed=True), parameters)
    found, away = answered(answers)
    if away:
        named = " and ".join(f"{node} ({why})" for node, why in away.items())
        raise DatabaseUnavailable(
            f"Not all nodes of the cluster behind {database.url} answer: not {named}; start what "
            "is down, then try again."
        )
    return found


def answered(answers: Iterable[Row]) -> tuple[dict[str, list[Row]], dict[str, str]]:
    """Returns, by node, the rows of those that answered, and of the others why they did not."""
    found: dict[str, list[Row]] = {}
    away: dict[str, str] = {}
    for row in answers:
        if row["success"]:
            found[row["node"]] = json.loads(row["result"])
        else:
            away[row["node"]] = " ".join(row["result"].split())
    return found, away


def together(of_nodes: Iterable[Iterable[Row]]) -> list[Row]:
    """Adds up what nodes measured of their parts: a row for each name, by name.

    Of what every node has a copy of, the largest figure counts. What all should be (valid, say), it
    is only if each part is.
    """
    found: dict[str, dict[str, Any]] = {}
    for row in (row for rows in of_nodes for row in rows):
        before = found.get(row["name"])
        if before is None:
            found[row["name"]] = dict(row)
            continue
        for name, value in row.items():
            if isinstance(value, bool):
                before[name] = before[name] and value
            elif isinstance(value, int | float):
                both = (before[name], value)
                largest = row["copied"] or name == _OF_LARGEST
                before[name] = max(both) if largest else sum(both)
    return [found[name] for name in sorted(found)]
