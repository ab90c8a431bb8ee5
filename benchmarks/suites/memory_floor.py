"""The cost of writing memories without embedding, alongside a plain insert of the same rows."""

import time
from typing import Any

import asyncpg
from rich.progress import Progress

from adkpg import Database, PgVectorMemoryService
from benchmarks.contenders.memory import copying
from benchmarks.contenders.memory.contender import APP
from benchmarks.contenders.memory.events import events
from benchmarks.corpus import Corpus, Texts, Vocabulary
from benchmarks.figures import FLOOR, OURS, Bar, Figure, percentile
from benchmarks.server import installed, own_database
from benchmarks.suites.memory_stage import BATCH, SUITE

CASE = "ingest without embedding, batches of 100"
ALL_ROWS = "floor, with words and jobs"
PER_BLOCK = 5  # batches
SHARE = 0.5


class Plain:
    """Tables like adkpg's with their primary keys alone, and rows of adkpg's to put in.

    One ``INSERT … SELECT FROM unnest(…)`` for each table and batch, in a transaction of its own,
    through asyncpg: all columns but generated ones, one array for each. No other index, no foreign
    key; nothing is looked up, and no word is made of a text.

    Args:
      connection: To the database that adkpg writes to.
      tables: Names of adkpg's tables that are written to, in order.
    """

    def __init__(self, connection: Any, *tables: str) -> None:
        self._connection = connection
        self._tables = tables
        self._schema = f"plain_{len(tables)}"
        self._columns: dict[str, list[tuple[str, str]]] = {}

    async def prepare(self) -> None:
        await self._connection.execute(f"create schema {self._schema}")
        for table in self._tables:
            await self._connection.execute(
                f"create table {self._schema}.{table}"
                f" (like adkpg.{table} including defaults including generated)"
            )
            key = await self._connection.fetchval(
                "select pg_get_constraintdef(oid) from pg_constraint"
                " where conrelid = $1::text::regclass and contype = 'p'",
                f"adkpg.{table}",
            )
            await self._connection.execute(f"alter table {self._schema}.{table} add {key}")
            columns = await self._connection.fetch(
                "select quote_ident(attname) name, format_type(atttypid, atttypmod) type"
                " from pg_attribute where attrelid = $1::text::regclass and attnum > 0"
                " and attgenerated = '' and not attisdropped order by attnum",
                f"{self._schema}.{table}",
            )
            self._columns[table] = [(each["name"], each["type"]) for each in columns]

    async def insert(self, user_id: str) -> float:
        """Writes what adkpg wrote of a user; returns memories per second."""
        statements = []
        for table, columns in self._columns.items():
            names = ", ".join(name for name, _ in columns)
            arrays = ", ".join(f"${place}::{kind}[]" for place, (_, kind) in enumerate(columns, 1))
            rows = await self._connection.fetch(
                f"select {names} from adkpg.{table} where user_id = $1",  # noqa: S608
                user_id,
            )
            insert = (
                f"insert into {self._schema}.{table} ({names})"  # noqa: S608
                f" select * from unnest({arrays}) given ({names})"
            )
            statements.append((insert, [list(column) for column in zip(*rows, strict=True)]))
        start = time.perf_counter()
        if len(statements) == 1:
            await self._connection.execute(statements[0][0], *statements[0][1])
        else:
            async with self._connection.transaction():
                for insert, arguments in statements:
                    await self._connection.execute(insert, *arguments)
        return BATCH / (time.perf_counter() - start)

    async def holds(self, memories: int) -> bool:
        """Returns whether this many memories are there."""
        counted = f"select count(*) from {self._schema}.memories"  # noqa: S608
        found: int = await self._connection.fetchval(counted)
        return found == memories


async def floor(
    server_url: str, vocabulary: Vocabulary, *, blocks: int, progress: Progress
) -> tuple[list[Figure], list[Bar]]:
    """Measures `add_events_to_memory` without an embedder, and what the same rows cost `Plain`.

    Two floors, each with its bar: the memories' rows alone, and all rows that adkpg writes, the
    postings of words and the queued jobs too.
    """
    texts = Texts(vocabulary, (blocks + 1) * PER_BLOCK * BATCH, seed=3)
    corpus = Corpus(texts, {})
    rates: dict[str, list[float]] = {OURS: [], FLOOR: [], ALL_ROWS: []}
    task = progress.add_task(CASE, total=blocks + 1)
    async with own_database(server_url, "memory") as url, Database(url) as database:
        await database.upgrade()
        memory = PgVectorMemoryService(database, mode="text")
        connection: Any = await asyncpg.connect(url)
        try:
            plain = {
                FLOOR: Plain(connection, "memories"),
                ALL_ROWS: Plain(connection, "memories", "memory_lexemes", "memory_jobs"),
            }
            for each in plain.values():
                await each.prepare()
            for block in range(blocks + 1):
                if block == 1:  # the first one warms up
                    rates = {contender: [] for contender in rates}
                numbers = range(block * PER_BLOCK, (block + 1) * PER_BLOCK)
                for number in numbers:
                    said = events(corpus.spare(number * BATCH, BATCH))
                    start = time.perf_counter()
                    await memory.add_events_to_memory(
                        app_name=APP, user_id=f"{number}", events=said, session_id=f"{number}"
                    )
                    rates[OURS].append(BATCH / (time.perf_counter() - start))
                for contender, each in plain.items():
                    rates[contender] += [await each.insert(f"{number}") for number in numbers]
                progress.advance(task)
            written = len(texts.places)
            kept = {contender: await each.holds(written) for contender, each in plain.items()}
            kept[OURS] = await copying.count(url, "adkpg.memories") == written
        finally:
            await connection.close()
            await database.close()
    notes = {
        OURS: "memories, the postings of their words, and jobs",
        FLOOR: "the memories' rows alone, into a copy of their table with its primary key",
        ALL_ROWS: "the rows of all three tables, into copies with their primary keys",
    }
    figures = [
        Figure(
            suite=SUITE,
            case=CASE,
            size="",
            contender=contender,
            version=installed("adkpg") if contender == OURS else "",
            unit="per s",
            p50=None,
            p95=None,
            rate=percentile(measured, 0.5),
            samples=len(measured),
            correct=kept[contender],
            note=notes[contender],
        )
        for contender, measured in rates.items()
    ]
    ours = percentile(rates[OURS], 0.5)
    bars = []
    for contender, rows in ((FLOOR, "the memories' rows alone"), (ALL_ROWS, "all rows it writes")):
        rule = f"at least {SHARE} of the rate of a plain multi-row insert of {rows}"
        share = ours / percentile(rates[contender], 0.5)
        bars.append(Bar.of(SUITE, CASE, "", rule, share, ">=", SHARE))
    return figures, bars
