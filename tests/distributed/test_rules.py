"""The rules that statements are held to without a cluster, each seen to fail on one."""

import re

import asyncpg
import pytest

from tests.fakes.citus_rules import ALLOWED, MIGRATION_RULES, RULES

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.refused])
async def test_an_example_is_refused_or_goes_astray(
    name: str, connection: asyncpg.Connection
) -> None:
    rule = RULES[name]
    sql = rule.example.format(schema="adkpg")
    if name in ("advisory lock", "setting"):
        plan = await connection.fetch(f"EXPLAIN {sql}", "u")
        assert not any("Citus" in row[0] for row in plan)  # it stays here, whoever has the user
    elif name == "shared lock":
        async with connection.transaction():
            await connection.fetch(sql, "u")
            held = await connection.fetchval(
                "SELECT count(*) FROM pg_locks"
                " WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
            )
            assert held  # Citus's own, on all copies
    else:
        with pytest.raises(asyncpg.PostgresError, match=re.escape(rule.refused or "")):
            await connection.fetch(sql, "u")


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if not rule.refused])
async def test_an_example_asks_several_nodes(name: str, connection: asyncpg.Connection) -> None:
    sql = RULES[name].example.format(schema="adkpg")
    plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {sql}", "u"))
    tasks = re.findall(r"Task Count: (\d+)", plan)
    assert "Subplan" in plan or any(int(count) > 1 for count in tasks)


@pytest.mark.parametrize("name", MIGRATION_RULES)
async def test_an_example_of_a_migration_is_refused(
    name: str, connection: asyncpg.Connection
) -> None:
    rule = MIGRATION_RULES[name]
    with pytest.raises(asyncpg.PostgresError, match=re.escape(rule.refused)):
        await connection.execute(rule.example.format(schema="adkpg"))


async def test_what_migrations_may_do_is_done(connection: asyncpg.Connection) -> None:
    for sql in ALLOWED:
        assert await connection.execute(sql.format(schema="adkpg"))
