"""The HNSW index: only for users whose memories are too many for an exact answer.

A shared HNSW index filters by user after it has found neighbours among everybody's vectors; for
the many small users it is slower than the exact answer and wrong. So this one is partial: it holds
the vectors of listed users alone, and everybody else's writes never touch it.
"""

from functools import cache
from typing import Any

from sqlalchemy import Boolean, Select, Text, bindparam, column, func, select, table

from adkpg.database import Database
from adkpg.memory import statements
from adkpg.tables import INLINE_DIMENSIONS

# Of the 100 candidates a search asks for, a wider scan finds nearly all of the true ones.
EF_SEARCH = 200


async def index_large_scopes(database: Database, model_id: int, dimensions: int) -> int:
    """Lists the users above the limit, marks their vectors, builds the index, opens it.

    The order keeps searches right at any moment: vectors stored meanwhile are marked as they
    come, and no search uses the index before it holds every vector of the user.

    Returns:
      How many vectors were marked.
    """
    model = {"model_id": model_id}
    await database.fetch(
        statements.insert_approximate_scopes(),
        {**model, "exact_limit": database.settings.exact_limit},
    )
    timeout_s = database.settings.migration_timeout_s
    row = await database.fetch_one(statements.mark_approximate(), model, timeout_s=timeout_s)
    broken = {"schema": database.schema, "index": index_name(model_id)}
    if await database.fetch(select_broken_index(), broken):
        await database.run_ddl(drop_index(database.schema, model_id), timeout_s=timeout_s)
    await database.run_ddl(create_index(database.schema, model_id, dimensions), timeout_s=timeout_s)
    # A vector may have been on its way when its user was listed; the build waited for it.
    late = await database.fetch_one(statements.mark_approximate(), model, timeout_s=timeout_s)
    await database.fetch(statements.open_approximate_scopes(), model)
    return sum(found["marked"] for found in (row, late) if found)


def index_name(model_id: int) -> str:
    """Returns the name of a model's HNSW index."""
    return f"memory_vectors_hnsw_{model_id}"


def create_index(schema: str, model_id: int, dimensions: int) -> str:
    """Returns the DDL of a model's index: partial, and cast to the model's dimensions."""
    column = "large" if dimensions > INLINE_DIMENSIONS else "embedding"
    return (
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {index_name(model_id)} "
        f'ON "{schema}".memory_vectors '
        f"USING hnsw (({column}::halfvec({dimensions:d})) halfvec_cosine_ops) "
        f"WHERE model_id = {model_id:d} AND approximate"
    )


def drop_index(schema: str, model_id: int) -> str:
    """Returns the DDL that drops a model's index."""
    return f'DROP INDEX CONCURRENTLY IF EXISTS "{schema}".{index_name(model_id)}'


@cache
def select_broken_index() -> Select[Any]:
    """Finds an index that a build left invalid. Parameters: schema, index."""
    pg_index = table("pg_index", column("indexrelid"), column("indisvalid", Boolean))
    pg_class = table("pg_class", column("oid"), column("relname"), column("relnamespace"))
    pg_namespace = table("pg_namespace", column("oid"), column("nspname"))
    return (
        select(pg_class.c.relname)
        .select_from(
            pg_index.join(pg_class, pg_class.c.oid == pg_index.c.indexrelid).join(
                pg_namespace, pg_namespace.c.oid == pg_class.c.relnamespace
            )
        )
        .where(
            pg_namespace.c.nspname == bindparam("schema", type_=Text),
            pg_class.c.relname == bindparam("index", type_=Text),
            pg_index.c.indisvalid.is_(False),
        )
    )


@cache
def tune_search() -> Select[Any]:
    """Sets how far the index is searched, to the transaction's end (pgvector README, HNSW)."""
    return select(
        func.set_config("hnsw.ef_search", str(EF_SEARCH), True),
        func.set_config("hnsw.iterative_scan", "relaxed_order", True),
    )
