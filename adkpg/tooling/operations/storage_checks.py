"""Checks of how the tables lie on disk: their indexes, and what vacuum has seen."""

from adkpg.database import LOOK, Database
from adkpg.tables import REGISTER
from adkpg.tooling.operations import catalog_statements as statements
from adkpg.tooling.operations.findings import Finding, Verdict

_SEARCHED = ("memories", "memory_lexemes", "memory_vectors")  # from their keys' indexes alone
_LEAST_PAGES, _LEAST_SEEN = 128, 0.8
_HNSW = "memory_vectors_hnsw_"


async def indexes(database: Database) -> Finding:
    """Whether every index is there and whole."""
    rows = await database.run.fetch(statements.select_indexes(schema=database.schema), policy=LOOK)
    known = dict(statements.definitions(database.schema))
    found = {row["name"] for row in rows}
    verdict = Verdict("indexes")
    for name, made in known.items():
        if name not in found:
            verdict.add("failure", f"{name} is missing", f"{made};")
    for row in rows:
        name = row["name"]
        if row["valid"]:
            continue
        own = name in known or name.startswith(_HNSW) or name == f"{REGISTER}_pkc"
        cure = "DROP" if not own or name.endswith(("_ccnew", "_ccold")) else "REINDEX"
        verdict.add(
            "failure" if own else "warning",
            f"{name} is invalid: its build was cut off",
            f'{cure} INDEX CONCURRENTLY "{database.schema}"."{name}";',
        )
    return verdict.finding(f"{len(rows)}, all valid")


async def vacuum(database: Database) -> Finding:
    """Whether vacuum keeps up, whose map of pages lets searches answer from indexes alone."""
    verdict = Verdict("vacuum")
    for row in await database.run.fetch(
        statements.select_tables(schema=database.schema), policy=LOOK
    ):
        name, place = row["name"], f'"{database.schema}"."{row["name"]}"'
        if not row["vacuumed"]:
            verdict.add(
                "failure",
                f"autovacuum is off for {name}",
                f"ALTER TABLE {place} RESET (autovacuum_enabled);",
            )
        if name not in _SEARCHED or row["pages"] < _LEAST_PAGES:
            continue
        if (share := row["seen"] / row["pages"]) < _LEAST_SEEN:
            verdict.add(
                "warning",
                f"of {name}, {share:.0%} of the pages are known to be visible: searches read the "
                "table beside its index",
                f"VACUUM (ANALYZE) {place};",
            )
    return verdict.finding("it keeps up")
