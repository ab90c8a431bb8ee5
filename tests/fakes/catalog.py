"""What a schema is made of, read from the catalog, so that two schemas can be compared."""

import asyncpg

_QUERIES = {
    "columns": """
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               a.attidentity::text, a.attstorage::text, co.collname,
               pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum)
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        LEFT JOIN pg_collation co ON co.oid = a.attcollation
        WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r' AND NOT a.attisdropped""",
    "tables": """
        SELECT relname, reloptions, obj_description(oid) FROM pg_class
        WHERE relnamespace = $1::regnamespace AND relkind = 'r'""",
    "indexes": """
        SELECT pg_get_indexdef(indexrelid), indisvalid FROM pg_index
        WHERE (SELECT relnamespace FROM pg_class WHERE oid = indrelid) = $1::regnamespace""",
    "constraints": """
        SELECT conname, conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = $1::regnamespace""",
}
_BEYOND_TABLES = {
    "triggers": """
        SELECT pg_get_triggerdef(t.oid), t.tgenabled::text
        FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = $1::regnamespace AND NOT t.tgisinternal""",
    "functions": """
        SELECT pg_get_functiondef(oid), obj_description(oid, 'pg_proc') FROM pg_proc
        WHERE pronamespace = $1::regnamespace""",
    "options": """
        SELECT c.relname, a.attname, a.attoptions::text, a.attstattarget
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = $1::regnamespace AND a.attnum > 0 AND NOT a.attisdropped""",
    "relations": """
        SELECT relname, relkind::text, reloptions::text, obj_description(oid, 'pg_class')
        FROM pg_class WHERE relnamespace = $1::regnamespace""",
    "comments": """
        SELECT conname, obj_description(oid, 'pg_constraint') FROM pg_constraint
        WHERE connamespace = $1::regnamespace""",
}
"""What `adkpg.tables` does not say."""


async def described(
    url: str, schema: str = "adkpg", *, whole: bool = False
) -> dict[str, list[str]]:
    """Returns the schema's columns, tables, indexes and constraints, whatever it is called.

    And, as a whole, its triggers, functions, comments and what else it has.
    """
    queries = {**_QUERIES, **(_BEYOND_TABLES if whole else {})}
    connection = await asyncpg.connect(url)
    try:
        return {
            name: sorted(
                str(tuple(row)).replace(f"{schema}.", "")
                for row in await connection.fetch(query, schema)
            )
            for name, query in queries.items()
        }
    finally:
        await connection.close()


async def fetch(url: str, sql: str, *arguments: object) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        rows: list[asyncpg.Record] = await connection.fetch(sql, *arguments)
    finally:
        await connection.close()
    return rows


async def execute(url: str, sql: str) -> None:
    """Runs a script of statements, as psql does."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
