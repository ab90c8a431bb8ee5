"""Slow searches: those that run, and those that the server has counted."""

import asyncio
import html
import itertools
import re
from collections.abc import Callable

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.console import create_console
from adkpg.memory.search import statements as searches
from adkpg.operations import slow_searches
from tests.fakes.browser import Browser
from tests.fakes.conversation import entry
from tests.fakes.roles import Roles
from tests.fakes.toys import ToyEmbedder

COUNTING = {"shared_preload_libraries": "pg_stat_statements"}


async def test_a_search_that_runs_is_seen_and_past_ones_where_they_are_counted(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(app_name="app", user_id="ana", memories=[entry("my kitten", "one")])
    found = await slow_searches(database)
    assert (found.running, found.past, found.complete) == ((), None, True)
    await connection.execute("BEGIN; LOCK TABLE memories IN ACCESS EXCLUSIVE MODE")
    searching = asyncio.create_task(
        memory.search(app_name="app", user_id="ana", query="where is my kitten?")
    )
    async with asyncio.timeout(60):
        while not (found := await slow_searches(database, least_s=0)).running or not (
            found.running[0].waits
        ):
            await asyncio.sleep(0)
    await connection.execute("ROLLBACK")
    assert found.running[0].waits.startswith("Lock")
    assert await searching


def test_each_shape_of_a_search_begins_as_a_search_is_known_by() -> None:
    """One that began otherwise was neither seen nor counted."""
    for lexical, vector in ((True, False), (False, True), (True, True)):
        for explain, dated, apart, large in itertools.product((False, True), repeat=4):
            shape = searches.Shape(
                lexical=lexical,
                vector=vector,
                explain=explain,
                dated=dated and lexical,
                apart=apart,
                large=large,
            )
            begin = searches.search(shape).text("adkpg")[:40]
            assert re.match(r"WITH (models|info) AS MATERIALIZED", begin), shape


async def _search(database: Database) -> None:
    """Searches by words 2 times, by vectors 3 times, by both 5 times, in several shapes."""
    by_words = PgVectorMemoryService(database, mode="text")
    by_vectors = PgVectorMemoryService(database, embedder=ToyEmbedder(), mode="vector")
    by_both = PgVectorMemoryService(database, embedder=ToyEmbedder())
    await by_both.add_memory(app_name="app", user_id="ana", memories=[entry("my kitten", "one")])
    for memory, times in ((by_words, 2), (by_vectors, 3), (by_both, 5)):
        for n in range(times):
            asked = "where is my kitten?" if n else "where was my kitten yesterday?"
            await memory.search(app_name="app", user_id="ana", query=asked)


@pytest.mark.program
@pytest.mark.parametrize("place", ["public", "monitor me"])
async def test_past_searches_are_counted_by_kind(start: Callable[..., str], place: str) -> None:
    url = start(**COUNTING)
    async with Database(url) as database:
        await database.upgrade()
        connection = await asyncpg.connect(url)
        await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{place}"')
        await connection.execute(f'CREATE EXTENSION pg_stat_statements SCHEMA "{place}"')
        await connection.close()
        assert (await slow_searches(database)).past == ()
        await _search(database)
        past = (await slow_searches(database)).past
        assert past is not None
        assert {(each.words, each.vectors): each.calls for each in past} == {
            (True, False): 2,
            (False, True): 3,
            (True, True): 5,
        }
        assert all(0 < each.mean_ms <= each.max_ms for each in past)
        spent = [each.calls * each.mean_ms for each in past]
        assert spent == sorted(spent, reverse=True)
        one = (await slow_searches(database, limit=1)).past
        assert one == past[:1]


@pytest.mark.program
async def test_searches_that_a_function_prepares_are_one_kind(start: Callable[..., str]) -> None:
    url = start(**COUNTING)
    async with Database(url, connect_args={"statement_cache_size": 0}) as database:
        await database.upgrade()
        connection = await asyncpg.connect(url)
        await connection.execute("CREATE EXTENSION pg_stat_statements")
        await _search(database)
        (past,) = (await slow_searches(database)).past or ()
        assert (past.words, past.vectors, past.calls) == (None, None, 10)
        async with Browser(create_console(database)).client as client:
            assert "any way" in (await client.get("/operations")).text
        await connection.execute("BEGIN; LOCK TABLE adkpg.memories IN ACCESS EXCLUSIVE MODE")
        memory = PgVectorMemoryService(database, mode="text")
        searching = asyncio.create_task(memory.search(app_name="app", user_id="ana", query="cat"))
        async with asyncio.timeout(60):
            while not (await slow_searches(database, least_s=0)).running:
                await asyncio.sleep(0)
        await connection.close()
        await searching


@pytest.mark.program
async def test_who_may_not_read_others_statements_is_told_so(
    start: Callable[..., str],
) -> None:
    url = start(**COUNTING)
    roles = Roles(url)
    async with Database(url) as database:
        await database.upgrade()
        await roles.execute(["CREATE EXTENSION pg_stat_statements"])
        await _search(database)
        await roles.create("serve")
        await roles.grant("serve")
        async with Database(roles.url("serve")) as serving:
            hidden = await slow_searches(serving)
            assert (hidden.past, hidden.complete) == ((), False)
            browser = Browser(create_console(serving))
            page = html.unescape(await browser.text("/operations"))
            assert "GRANT pg_read_all_stats" in page
            name = '"' + roles.name("serve").replace('"', '""') + '"'
            await roles.execute([f"GRANT pg_read_all_stats TO {name}"])
            seen = await slow_searches(serving)
            assert seen.past is not None
            assert (sum(each.calls for each in seen.past), seen.complete) == (10, True)
            page = html.unescape(await browser.text("/operations"))
            assert "words and vectors" in page
            assert "GRANT pg_read_all_stats" not in page
            await browser.client.aclose()


async def test_an_extension_that_is_not_loaded_counts_nothing(
    database: Database, connection: asyncpg.Connection
) -> None:
    """It is made in the database, and the server was not started with its library."""
    await connection.execute("CREATE EXTENSION pg_stat_statements")
    assert (await slow_searches(database)).past is None
