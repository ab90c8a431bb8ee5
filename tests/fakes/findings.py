"""What the doctor finds, and its cures as psql would take them."""

import asyncpg

from adkpg import Database
from adkpg.tooling.operations import Finding, examine


async def find(database: Database, check: str) -> Finding:
    found = {each.check: each for each in (await examine(database)).findings}
    return found[check]


async def mend(connection: asyncpg.Connection, finding: Finding) -> None:
    """Sends a cure that is of psql, statement by statement."""
    assert finding.cure is not None
    for statement in finding.cure.splitlines():
        assert ";" in statement, statement
        await connection.execute(statement)
