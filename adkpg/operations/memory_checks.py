"""Checks of memories: what waits, what lacks a vector, and what an HNSW index does not find."""

from shlex import quote
from statistics import fmean

from adkpg.database import Database, Transaction
from adkpg.memory.search.ranking import RANKING
from adkpg.memory.vectors import statements as vector_statements
from adkpg.operations import memory_statements as statements
from adkpg.operations.findings import Finding, Verdict
from adkpg.operations.server_checks import warn_of_slow_building
from adkpg.sql import ScopeParameters
from adkpg.tables import INLINE_DIMENSIONS

_LONGEST_WAIT_S = 600.0
_PROBES, _NEAREST = 20, 10
_LINKS_BYTES = 256  # about what a vector's neighbours take in an HNSW index
_LEAST_RECALL, _POOR_RECALL = 0.9, 0.6


async def queue(database: Database) -> Finding:
    """Whether work waits for long, or was given up."""
    verdict = Verdict("queue")
    waiting = 0
    database.require_every_scope()
    for row in await database.fetch(statements.select_queue(), {}):
        waiting += row["waiting"]
        extract = " --extract MODEL" if row["task"] == "extract" else ""
        if row["dead"]:
            verdict.add(
                "failure",
                f"{row['dead']} jobs ({row['task']}) were given up: {(row['error'] or '')[:200]}",
                f"adkpg worker --once --revive{extract}",
            )
        if row["waiting"] and row["oldest_s"] > _LONGEST_WAIT_S:
            verdict.add(
                "warning",
                f"{row['waiting']} memories wait ({row['task']}), the first for "
                f"{row['oldest_s'] / 60:.0f} minutes",
                f"adkpg worker{extract}",
            )
    return verdict.finding(f"{waiting} wait, none for long; nothing was given up")


async def vectors(database: Database) -> Finding:
    """Whether every memory has a vector of the model that its app is searched with."""
    verdict = Verdict("vectors")
    database.require_every_scope()
    timeout_s = database.settings.migration_timeout_s
    rows = await database.fetch(statements.select_lacking(), {}, timeout_s=timeout_s)
    for row in rows:
        if row["unqueued"]:
            verdict.add(
                "warning",
                f"{row['unqueued']} of {row['memories']} memories of app {row['app_name']!r} have "
                f"no vector of {row['name']!r}, and none is on its way: only words find them",
                f"adkpg models activate {quote(row['name'])} --dimensions {row['dimensions']} "
                f"--app {quote(row['app_name'])} --force && adkpg worker --once",
            )
    limit: statements.LimitParameters = {"exact_limit": database.settings.exact_limit}
    counted = await database.fetch(statements.count_large(), limit, timeout_s=timeout_s)
    if large := counted[0]["large"]:
        # Each has more vectors than the limit, of two bytes a dimension.
        each_bytes = 2 * max((row["dimensions"] for row in rows), default=0) + _LINKS_BYTES
        least_bytes = large * database.settings.exact_limit * each_bytes
        await warn_of_slow_building(database, verdict, "the index that lacks", least_bytes)
        verdict.add(
            "warning",
            f"{large} users have more than {database.settings.exact_limit} vectors and no index",
            "adkpg memory index",
        )
    named = ", ".join(sorted({f"{row['name']} ({row['dimensions']})" for row in rows}))
    lacking = sum(row["lacking"] for row in rows)
    said = f"; {lacking} are on their way" if lacking else ""
    return verdict.finding(f"{named or 'no app has a model yet'}{said}")


async def recall(database: Database) -> Finding:
    """How many of the true nearest an HNSW index finds, on some of what it holds."""
    verdict = Verdict("recall")
    database.require_every_scope()
    rows = await database.fetch(statements.select_approximate(), {})
    figures = []
    for row in rows:
        share = await _recall(database, **dict(row))
        if share is None:
            continue
        figures.append(share)
        name = vector_statements.index_name(row["model_id"])
        if share < _LEAST_RECALL:
            verdict.add(
                "failure" if share < _POOR_RECALL else "warning",
                f"{name} finds {share:.0%} of the {_NEAREST} nearest memories of a user of app "
                f"{row['app_name']!r}",
                f'DROP INDEX CONCURRENTLY "{database.schema}".{name};\nadkpg memory index',
            )
    return verdict.finding(
        f"{min(figures):.0%} or more, of {len(figures)} users"
        if figures
        else "every search is exact: no user is answered from an HNSW index"
    )


async def _recall(
    database: Database, *, app_name: str, user_id: str, model_id: int, dimensions: int
) -> float | None:
    large = dimensions > INLINE_DIMENSIONS
    approximate = statements.select_nearest_in_index(model_id, dimensions, large=large)
    scope: ScopeParameters = {"app_name": app_name, "user_id": user_id}

    async def measure(transaction: Transaction) -> float | None:
        await transaction.fetch(
            vector_statements.tune_search(),
            {**scope, "ef_search": str(vector_statements.ef_search(RANKING.candidates))},
        )
        await transaction.fetch(statements.avoid_sorting(), scope)
        probes = await transaction.fetch(
            statements.select_probes(large=large),
            {"app_name": app_name, "user_id": user_id, "model_id": model_id, "limit": _PROBES},
        )
        shares = []
        for row in probes:
            asked: statements.NearestParameters = {
                "app_name": app_name,
                "user_id": user_id,
                "model_id": model_id,
                "probe": row["probe"],
                "limit": _NEAREST,
            }
            true = await transaction.fetch(statements.select_nearest(large=large), asked)
            found = await transaction.fetch(approximate, asked)
            farthest = true[-1]["distance"] + 1e-6
            # By distance, so that of equally near ones either counts.
            hits = sum(each["distance"] <= farthest for each in found)
            shares.append(min(hits / len(true), 1.0))
        return fmean(shares) if shares else None

    return await database.transact(measure)
