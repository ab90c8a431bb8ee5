"""Loading a contender's tables in bulk: the same tables and indexes, without its row by row."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from pgvector.asyncpg import register_vector

BUILD_TIMEOUT_S = 1800


async def connect(url: str, *, extension: bool = False) -> Any:
    """Returns a connection that reads and writes vectors.

    Args:
      url: Of the database.
      extension: Whether to make the extension first, for packages that leave that to the user.
    """
    connection: Any = await asyncpg.connect(url)
    if extension:
        await connection.execute("create extension if not exists vector")
    await register_vector(connection)
    return connection


@asynccontextmanager
async def bare(connection: Any, *tables: str) -> AsyncIterator[None]:
    """Drops the tables' indexes, keys and checks of them, and builds them again afterwards.

    An index that is built in one go is never worse than one that grew row by row.

    Args:
      connection: Of the tables' owner.
      tables: Empty, and no others refer to them.
    """
    constraints = await connection.fetch(
        "select conrelid::regclass::text of, quote_ident(conname) name,"
        " pg_get_constraintdef(oid) definition from pg_constraint"
        " where conrelid = any($1::text[]::regclass[]) and contype in ('p', 'u', 'f')"
        " order by contype = 'f'",
        tables,
    )
    for each in reversed(constraints):
        await connection.execute(f"alter table {each['of']} drop constraint {each['name']}")
    indexes = await connection.fetch(
        "select indexrelid::regclass::text name, pg_get_indexdef(indexrelid) definition"
        " from pg_index where indrelid = any($1::text[]::regclass[])",
        tables,
    )
    for each in indexes:
        await connection.execute(f"drop index {each['name']}")
    yield
    for each in indexes:
        await connection.execute(each["definition"], timeout=BUILD_TIMEOUT_S)
    for each in constraints:
        await connection.execute(
            f"alter table {each['of']} add constraint {each['name']} {each['definition']}",
            timeout=BUILD_TIMEOUT_S,
        )


async def copy(connection: Any, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
    """Copies rows into a table, whose name may have a schema; the columns stand between spaces."""
    schema, _, name = table.rpartition(".")
    await connection.copy_records_to_table(
        name, schema_name=schema or None, columns=columns.split(), records=rows, timeout=600
    )


async def count(url: str, table: str) -> int:
    """Returns how many rows a table has."""
    connection: Any = await asyncpg.connect(url)
    try:
        found: int = await connection.fetchval(f"select count(*) from {table}")  # noqa: S608
        return found
    finally:
        await connection.close()


async def allow_memory(url: str) -> None:
    """Gives index builds of later connections the memory that whoever fills a database gives them.

    With Postgres' default of 64 MB an HNSW index of 250,000 vectors takes many times as long.
    """
    connection: Any = await asyncpg.connect(url)
    try:
        name = await connection.fetchval("select quote_ident(current_database())")
        await connection.execute(f"alter database {name} set maintenance_work_mem = '2GB'")
    finally:
        await connection.close()


async def settle(url: str) -> None:
    """Does what the server would do by itself after a while: vacuum, analyze, checkpoint."""
    connection: Any = await asyncpg.connect(url)
    try:
        await connection.execute("vacuum analyze", timeout=1800)
        await connection.execute("checkpoint", timeout=600)
    finally:
        await connection.close()
