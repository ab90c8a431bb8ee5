"""What a search costs where its plan is not kept: behind poolers that keep none, and on Citus.

    python -m benchmarks.scripts.planning [CHECKOUT] [--times 60]

Bytes of a search's statements (evidence, and what is found), and the milliseconds that the server
parses and plans them, by mode; next to those of another checkout of adkpg, if one is given. Then
what the client waits for: where its driver keeps the statements, where each search plans them, and
where the function keeps them. They take turns on one database. Of a busy machine's times the least
tells most.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import asyncpg
from rich.console import Console
from rich.table import Table

from adkpg import Database
from adkpg.database.sending import Direct
from adkpg.memory.search.statements import Shape, evidence_statement, select_found
from adkpg.queries import Query
from benchmarks.scripts import bulk
from benchmarks.scripts.hnsw import DIMENSIONS
from benchmarks.scripts.shares import server_ms
from benchmarks.server import chosen_server, own_database

HERE = Path(__file__).parents[2]
MEMORIES = 10_000
WAYS = ("KEPT BY THE DRIVER", "PLANNED EACH TIME", "KEPT BY THE FUNCTION")
WARM = 10
"""Rounds before the first that counts: Postgres keeps a plan after five."""
MODES = {"hybrid": (True, True), "vector": (False, True), "text": (True, False)}

# Of both checkouts it uses only what they have in common.
TEXTS = f"""
import json
from adkpg.memory.search.statements import Shape, evidence_statement, select_found
found = {{}}
for mode, (lexical, vector) in {MODES!r}.items():
    both = (evidence_statement(Shape(lexical=lexical, vector=vector)), select_found.statement)
    found[mode] = [(each.text("adkpg"), each.names) for each in both]
print(json.dumps(found))
"""


def statements_of(checkout: Path) -> dict[str, Any]:
    """Of each mode, its statements: their text, and the names of their parameters."""
    written = subprocess.run(
        [sys.executable, "-c", TEXTS],
        env=os.environ | {"PYTHONPATH": str(checkout)},
        cwd=checkout,
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, Any] = json.loads(written.stdout)
    return found


async def asked_of(connection: Any) -> dict[str, object]:
    """A search of a user of 1,000 memories, by the names of its parameters."""
    user = await connection.fetchval(f"select {bulk.large_user(0)}")
    positions = await connection.fetch(
        "select position from adkpg.memories where app_name = $1 and user_id = $2 limit 13",
        *(bulk.APP, user),
    )
    return {
        "app_name": bulk.APP,
        "user_id": user,
        "also_user_id": user,
        "top_k": 10,
        "passages": 500,
        "query": "Which train goes to the coast on Sundays in winter?",
        "config": "english",
        "query_vector": str(bulk.vectors(1, 3)[0].tolist()),
        "model": bulk.MODEL,
        "dimensions": DIMENSIONS,
        "exact_user_ids": [user],
        "approximate_user_ids": [],
        "inactive": False,
        "model_id": 1,
        "wordiness": 1.0,
        "positions": [position for (position,) in positions],
    }


async def measure(server_url: str, checkouts: list[Path], times: int) -> None:
    sides = [statements_of(checkout) for checkout in checkouts]
    async with own_database(server_url, "planning") as url, Database(url) as database:
        await database.upgrade()
        await bulk.fill(database, url, MEMORIES)
        await database.run.execute("vacuum analyze", timeout_s=600)
        connection: Any = await asyncpg.connect(url, statement_cache_size=0)
        try:
            given = await asked_of(connection)
            took: dict[tuple[str, int], list[tuple[float, float]]] = {}
            for _ in range(times):
                for mode in MODES:
                    for number, side in enumerate(sides):
                        each = [
                            await once(connection, text, names, given) for text, names in side[mode]
                        ]
                        parsed, planned = (sum(part) for part in zip(*each, strict=True))
                        took.setdefault((mode, number), []).append((parsed, planned))
            waited = await waits(url, connection, given, times)
        finally:
            await connection.close()
    table = Table("MODE", "CHECKOUT", "BYTES", "PARSE CPU MS (LEAST)", "PLAN MS (LEAST)")
    for (mode, number), each in took.items():
        parsed, planned = ([one[place] for one in each] for place in (0, 1))
        table.add_row(
            mode,
            str(checkouts[number]),
            " + ".join(f"{len(text.encode()):,}" for text, *_ in sides[number][mode]),
            *(f"{statistics.median(part):.2f} ({min(part):.2f})" for part in (parsed, planned)),
        )
    Console().print(table)
    table = Table("MODE", *WAYS, title="ms of a search of a user of 1,000: p50 (least)")
    for mode in MODES:
        times_ms = [waited[mode, way] for way in WAYS]
        table.add_row(mode, *(f"{statistics.median(ms):.2f} ({min(ms):.2f})" for ms in times_ms))
    Console().print(table)


async def waits(
    url: str, losing: Any, given: dict[str, object], times: int
) -> dict[tuple[str, str], list[float]]:
    """Milliseconds until the client has the rows, by mode and by who keeps the statement."""
    took: dict[tuple[str, str], list[float]] = {}
    keeping: Any = await asyncpg.connect(url, max_cacheable_statement_size=65_536)
    try:
        for number in range(times + WARM):
            for mode, (lexical, vector) in MODES.items():
                statements = [
                    evidence_statement(Shape(lexical=lexical, vector=vector)),
                    cast("Any", select_found).statement,
                ]
                for way, connection in zip(WAYS, (keeping, losing, losing), strict=True):
                    began = time.perf_counter()
                    for statement in statements:
                        wanted = dict.fromkeys(statement.names) | given
                        plans_kept = way != WAYS[2]
                        (sent,) = Direct("adkpg").sent(
                            Query(statement, wanted), plans_kept=plans_kept
                        )
                        answer = await connection.fetch(sent.sql, *sent.arguments)
                        if sent.rows is not None:
                            sent.rows(answer)
                    if number >= WARM:
                        taken = 1000 * (time.perf_counter() - began)
                        took.setdefault((mode, way), []).append(taken)
    finally:
        await keeping.close()
    return took


async def once(
    connection: Any, text: str, names: list[str], given: dict[str, object]
) -> tuple[float, float]:
    """Milliseconds of the server's CPU to parse a statement, and milliseconds to plan it."""
    process = str(connection.get_server_pid())
    before = server_ms(process)
    await connection.prepare(text)
    parsed = server_ms(process) - before
    arguments = [given.get(name) for name in names]
    rows = await connection.fetch(f"explain (summary, format json) {text}", *arguments)
    return parsed, json.loads(rows[0][0])[0]["Planning Time"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkout", type=Path, nargs="?", help="of another version")
    parser.add_argument("--times", type=int, default=60)
    arguments = parser.parse_args()
    checkouts = [HERE, *([arguments.checkout.resolve()] if arguments.checkout else [])]
    with chosen_server() as url:
        asyncio.run(measure(url, checkouts, arguments.times))


if __name__ == "__main__":
    main()
