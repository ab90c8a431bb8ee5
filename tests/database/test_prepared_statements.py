"""Long statements are prepared by a function of the database where those of clients do not last."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypedDict

import asyncpg
import pytest
from sqlalchemy import (
    text,
)

from adkpg import Database, PgVectorMemoryService, SearchFilters
from adkpg.database.sending import Direct, Sent, _text
from adkpg.errors import DatabaseError
from adkpg.memory.search.options import MODES, Mode
from adkpg.queries import Query
from tests.fakes.conversation import USER, entry
from tests.fakes.queries import written
from tests.fakes.ranked_stories import NOW, QUESTIONS, BagEmbedder, remember
from tests.fakes.statements import statements

pytestmark = pytest.mark.direct("looks at what its server process keeps")

ODD = ["", "it's", 'a "word"', "back\\slash", "{a,b}", "NULL", "%1$s %% $1", "ü 🎈 北京", "a\nb\t"]
VALUES: dict[str, tuple[str, Any, list[Any]]] = {
    "texts": ("text[]", list[str], [ODD, [], ["a", None], None]),
    "text": ("text", str, [*ODD, None]),
    "double": ("float8", float | None, [0.1, 1e300, 5e-324, 1.0, float("-inf"), None]),
    "doubles": ("float8[]", list[float | None] | None, [[1.0, 1 / 3, None], None]),
    "bytes": ("bytea", bytes | None, [b"\x00\xff tea", b"", None]),
    "number": ("bigint", int, [2**63 - 1, -1, 0, None]),
    "numbers": ("bigint[]", list[int] | None, [[2**62, 0], None]),
    "flag": ("boolean", bool, [True, False, None]),
    "time": (
        "timestamptz",
        datetime | None,
        [
            datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
            datetime(1883, 11, 18, 12, 3, 58, tzinfo=timezone(timedelta(hours=14))),
            datetime(9999, 12, 31, tzinfo=UTC),
            None,
        ],
    ),
    "times": ("timestamptz[]", list[datetime], [[datetime(2026, 1, 2, tzinfo=UTC)], []]),
}


class Numbered(TypedDict):
    """A number."""

    value: int


KEPT = (
    "SELECT name, generic_plans + custom_plans AS runs FROM pg_prepared_statements"
    " WHERE from_sql AND name LIKE 'adkp%'"
)


@pytest.fixture
async def unprepared(database_url: str) -> AsyncIterator[Database]:
    """A database whose one connection keeps no prepared statement, as behind some poolers."""
    joint = "&" if "?" in database_url else "?"
    url = f"{database_url}{joint}statement_cache_size=0"
    async with Database(url, pool_size=1, max_overflow=0) as opened:
        yield opened


def _sent(query: Query[Any]) -> Sent:
    """What is sent of a long statement where no plan of a client's is kept."""
    (sent,) = Direct("adkpg").sent(query, plans_kept=False)
    assert sent.rows is not None
    return sent


async def _kept(database: Database) -> dict[str, int]:
    async with (await database.engine()).connect() as pooled:
        return {row.name: row.runs for row in await pooled.execute(text(KEPT))}


def test_each_long_statement_says_whose_rows_it_reads_and_changes_none() -> None:
    long = [statement for _, statement, _ in statements() if statement.long]
    assert long
    for statement in long:
        assert {"app_name", "user_id"} <= set(statement.names)
        assert not statement.writes
        assert statement.columns


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
async def test_values_are_those_of_asyncpg(
    connection: asyncpg.Connection, name: str, zone: str
) -> None:
    kind, of_python, values = VALUES[name]
    row_type: Any = type("Row", (), {"__annotations__": {"value": of_python}})
    await connection.execute(f"SET timezone = '{zone}'")
    for value in values:
        query = written(f"SELECT :value::{kind} AS value", long=True, row=row_type, value=value)
        sent = _sent(query)
        assert sent.rows is not None
        (row,) = sent.rows(await connection.fetch(sent.sql, *sent.arguments))
        wanted = await connection.fetchrow(
            query.statement.text("adkpg"), *query.statement.arguments(query.parameters)
        )
        assert wanted is not None
        assert row == dict(wanted)
        assert type(row["value"]) is type(wanted["value"])


@pytest.mark.parametrize("mode", MODES)
async def test_searches_find_the_same(database: Database, unprepared: Database, mode: Mode) -> None:
    services = [
        PgVectorMemoryService(each, embedder=BagEmbedder(("en",)))
        for each in (database, unprepared)
    ]
    await remember(services[0])
    odd = [
        entry(f"The river says {each} once more.", author="user", timestamp=NOW.isoformat())
        for each in ODD
    ]
    for place, each in enumerate(odd):
        await services[0].add_memory(
            **USER,
            memories=[each],
            custom_metadata={"importance": (place + 1) / 10, "ttl": "400000000s"},
        )
    await services[0].add_memory(app_name="app", user_id=None, memories=odd[:3])
    sought = [
        SearchFilters(),
        SearchFilters(after=datetime(2026, 5, 1, tzinfo=UTC), authors=["user", "it's"]),
        SearchFilters(session_ids=["s1", 'a "b" \\'], metadata={}),
    ]
    found = 0
    for query in (*QUESTIONS, *(f"river {each}" for each in ODD)):
        for filters in sought:
            asked: dict[str, Any] = {**USER, "query": query, "mode": mode, "now": NOW, "top_k": 20}
            asked |= {"filters": filters, "neighbours": 1}
            wanted, hits = [await service.search(**asked) for service in services]
            assert hits == wanted
            found += len(hits)
    assert found
    kept = await _kept(unprepared)
    assert max(kept.values()) > len(sought), "a statement was prepared again for each search"
    assert not await _kept(database)


async def test_a_server_process_keeps_a_bounded_number(
    unprepared: Database, connection: asyncpg.Connection
) -> None:
    for number in range(40):
        query = written(f"SELECT {number} AS value", long=True, row=Numbered)
        (row,) = await unprepared.run.fetch(query)
        assert row["value"] == number
        assert _sent(query).arguments[0] in await _kept(unprepared)
    assert len(await _kept(unprepared)) == 32
    assert not await connection.fetch(KEPT), "another process has its own"


async def test_what_a_pooler_discards_is_prepared_anew(unprepared: Database) -> None:
    memory = PgVectorMemoryService(unprepared, mode="text")
    await memory.add_memory(**USER, memories=[entry("green tea")])
    for _ in range(2):
        assert len(await memory.search(**USER, query="tea")) == 1
        assert len(await _kept(unprepared)) == 2, "evidence, and what is found"
        async with (await unprepared.engine()).connect() as pooled:
            driver: Any = (await pooled.get_raw_connection()).driver_connection
            await driver.execute("DISCARD ALL")
        assert not await _kept(unprepared)
    assert len(await memory.search(**USER, query="tea")) == 1


async def test_a_table_that_changes_is_planned_anew(
    unprepared: Database, connection: asyncpg.Connection
) -> None:
    memory = PgVectorMemoryService(unprepared, mode="text")
    await memory.add_memory(**USER, memories=[entry("green tea")])
    for change in ("SELECT", "ALTER TABLE adkpg.memories ADD COLUMN later integer", "ANALYZE"):
        await connection.execute(change)
        for _ in range(7):
            assert len(await memory.search(**USER, query="tea")) == 1


async def test_errors_within_are_those_of_the_statement(unprepared: Database) -> None:
    for sql, told in (("nothing AS value", "nothing"), ("pg_sleep(9) AS value", "in time")):
        with pytest.raises(DatabaseError, match=told):
            await unprepared.run.fetch(written(f"SELECT {sql}", long=True), timeout_s=1)
    memory = PgVectorMemoryService(unprepared, mode="text")
    assert await memory.search(**USER, query="tea") == []


@pytest.mark.parametrize(
    "value",
    [
        timedelta(days=30, seconds=1, microseconds=2),
        timedelta(seconds=-1.5),
        timedelta(0),
        timedelta(days=999_999),
    ],
    ids=str,
)
async def test_an_interval_is_the_one_that_the_driver_sends(
    connection: asyncpg.Connection, value: timedelta
) -> None:
    sent = await connection.fetchval("SELECT $1::interval::text", value)
    assert await connection.fetchval("SELECT ($1::text)::interval::text", _text(value)) == sent
