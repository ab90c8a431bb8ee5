"""Checks of how the tables lie on disk: indexes, visibility, bloat, and what autovacuum leaves."""

from shlex import quote

from adkpg.database import Database
from adkpg.operations import catalog_statements as statements
from adkpg.operations import memory_statements
from adkpg.operations.findings import Finding, Verdict
from adkpg.operations.nodes.measures import Row, are_several, measure

_SEARCHED = ("memories", "memory_lexemes", "memory_vectors")  # from their keys' indexes alone
_LEAST_PAGES, _LEAST_SEEN = 128, 0.8
_LEAST_WASTE = 10_000_000
_LEAST_WRITES = 1_000
_HNSW = "memory_vectors_hnsw_"


async def indexes(database: Database) -> Finding:
    """Whether every index is there and whole, and none costs writes for nothing."""
    rows = await _indexes(database)
    known = dict(statements.definitions(database.schema))
    found = {row["name"] for row in rows}
    verdict = Verdict("indexes")
    place = f'"{database.schema}"'
    for name, made in known.items():
        if name not in found:
            verdict.add("failure", f"{name} is missing", f"{made};")
    models = await _models(database)
    for row in rows:
        name = row["name"]
        own = name in known or name.startswith(_HNSW) or name == "alembic_version_pkc"
        if not row["valid"]:
            left_over = not own or name.endswith(("_ccnew", "_ccold"))
            verdict.add(
                "failure" if own else "warning",
                f"{name} is invalid: its build was cut off",
                f'{"DROP" if left_over else "REINDEX"} INDEX CONCURRENTLY {place}."{name}";',
            )
        elif name.startswith(_HNSW):
            model = models.get(name.removeprefix(_HNSW))
            if model is not None and not model["active"]:
                verdict.add(
                    "warning",
                    f"{name} is unused: no app is searched with its model",
                    f"adkpg models drop {quote(str(model['name']))} --dimensions {model['dimensions']}",  # noqa: E501
                )
        elif not own and not row["unique"] and not row["scans"] and row["writes"] >= _LEAST_WRITES:
            verdict.add(
                "warning",
                f"{name} is unused, and not adkpg's: {row['writes']:,} writes kept it up to date",
                f'DROP INDEX CONCURRENTLY {place}."{name}";',
            )
    return verdict.finding(f"{len(rows)}, all valid and used")


async def _indexes(database: Database) -> list[Row]:
    """Reads the indexes that clients name; of a cluster, with what all of their parts are."""
    here = await database.look(statements.select_indexes(), {"schema": database.schema})
    parts = {row["name"]: row for row in await measure(database, statements.select_indexes())}
    return [
        {
            **row,
            **(part := parts.get(row["name"], {})),
            "valid": row["valid"] and part.get("valid", True),
        }
        for row in here
    ]


async def _models(database: Database) -> dict[str, dict[str, object]]:
    rows = await database.fetch(memory_statements.select_models(), {})
    return {str(row["model_id"]): dict(row) for row in rows}


async def visibility(database: Database) -> Finding:
    """Whether searches can answer from indexes alone, which vacuum's map of pages lets them."""
    verdict = Verdict("visibility")
    seen = []
    for row in await measure(database, statements.select_tables()):
        if row["name"] not in _SEARCHED or row["pages"] < _LEAST_PAGES:
            continue
        share = min(row["seen"] / row["pages"], 1.0)
        seen.append(share)
        if share < _LEAST_SEEN:
            verdict.add(
                "warning",
                f"of {row['name']}, {share:.0%} of the pages are known to be visible: searches "
                "read the table beside its index",
                f'VACUUM (ANALYZE) "{database.schema}".{row["name"]};',
            )
    return verdict.finding(
        f"{min(seen):.0%} of the pages or more" if seen else "tables are small enough"
    )


async def bloat(database: Database) -> Finding:
    """Whether tables and indexes take much more room than their rows need, by estimate."""
    verdict = Verdict("bloat")
    rows = await measure(database, statements.select_bloat())
    for row in rows:
        wasted = row["bytes"] - row["needed"]
        if wasted < _LEAST_WASTE or wasted < row["bytes"] / 2:
            continue
        name = f'"{database.schema}"."{row["name"]}"'
        verdict.add(
            "warning",
            f"{row['name']} takes {row['bytes'] / 1e6:.0f} MB for {row['needed'] / 1e6:.0f} MB",
            f"VACUUM FULL {name};   -- nobody reads it meanwhile"
            if row["kind"] == "table"
            else f"REINDEX INDEX CONCURRENTLY {name};",
        )
    return verdict.finding(f"none, of {len(rows)} tables and indexes that could be estimated")


async def autovacuum(database: Database) -> Finding:
    """Whether autovacuum does its work, and in time."""
    verdict = Verdict("autovacuum")
    several = await are_several(database)
    for row in await measure(database, statements.select_tables()):
        name, place = row["name"], f'"{database.schema}"."{row["name"]}"'
        if not row["vacuumed"]:
            verdict.add(
                "failure",
                f"it is off for {name}",
                # Citus refuses that of a distributed table.
                f"SELECT * FROM run_command_on_placements('{place}',"  # noqa: S608 - a cure to show
                " 'ALTER TABLE %s RESET (autovacuum_enabled)');"
                if several
                else f"ALTER TABLE {place} RESET (autovacuum_enabled);",
            )
        if row["dead"] > 2 * row["dead_limit"]:
            verdict.add(
                "warning",
                f"{name} has {row['dead']:,} dead rows, twice as many as it is due at",
                f"VACUUM (ANALYZE) {place};",
            )
        elif row["inserted"] > 2 * row["inserted_limit"] > 0:
            verdict.add(
                "warning",
                f"{name} has {row['inserted']:,} new rows that were not vacuumed, twice as many as "
                "it is due at",
                f"VACUUM (ANALYZE) {place};",
            )
    return verdict.finding("it keeps up")
