"""The functions that writes travel in are what the code calls, whatever the schema is called."""

import re
from typing import Any, get_type_hints

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, tables
from adkpg.database.migrating import migrations
from adkpg.errors import SchemaError
from tests.fakes.conversation import USER, said
from tests.fakes.queries import QUERIES, statement_of

TYPES = {
    "str": {"text"},
    "str | None": {"text"},
    "int": {"bigint", "integer"},
    "int | None": {"bigint", "smallint"},
    "float": {"double precision"},
    "bool": {"boolean"},
    "list[str]": {"text[]"},
    "list[str] | None": {"text[]"},
    "list[str | None]": {"text[]"},
    "collections.abc.Sequence[str | None]": {"text[]"},
    "datetime": {"timestamp with time zone"},
    "datetime | None": {"timestamp with time zone"},
    "timedelta | None": {"interval"},
}
"""What takes the values that parameters are annotated with."""


def calls() -> dict[str, tuple[Any, dict[str, Any]]]:
    """The functions that the code calls, with the types of each one's parameters."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {}
    for function in QUERIES.values():
        statement = statement_of(function)
        if statement.function is not None:
            found[statement.function] = (statement, get_type_hints(function))
    return found


def test_each_call_is_of_a_function_that_there_is() -> None:
    by_themselves = set(tables.DISTRIBUTED) - {"at_part_1"}  # which names others
    assert by_themselves < set(calls()) <= set(tables.FUNCTIONS)


def test_each_file_is_a_function_of_a_version_in_the_schema_it_is_told() -> None:
    files = {each.stem for each in (migrations.scripts() / "functions").glob("*.sql")}
    assert files == set(tables.FUNCTIONS)
    for name in files:
        assert re.fullmatch(r"[a-z_]+_[0-9]+", name)
        text = migrations.function(name, "odd")
        assert f'CREATE FUNCTION "odd".{name}(' in text
        assert "adkpg." not in text
        assert "SECURITY DEFINER" not in text
        assert not re.search(r"\[\[|\]\]|\{\w+\}|[ (]:\w", text), "a mark of the file is left"


@pytest.mark.parametrize("name", sorted(calls()))
async def test_parameters_are_those_of_the_function(
    connection: asyncpg.Connection, name: str
) -> None:
    statement, parameters = calls()[name]
    row = await connection.fetchrow(
        "SELECT proargnames AS names, pronargdefaults AS omitted,"
        " ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes) t) AS types"
        " FROM pg_proc WHERE oid = $1::regproc",
        f"adkpg.{name}",
    )
    assert row is not None
    names = row["names"][: len(row["names"]) - row["omitted"]]
    assert [*statement.names, *(["scope"] if "scope" in names else []), "home"] == names
    types = dict(zip(row["names"], row["types"], strict=True))
    for given in statement.names:
        kind = parameters[given]
        annotated = kind.__name__ if type(kind) is type else str(kind).replace("datetime.", "")
        assert types[given] in TYPES[annotated], given


async def test_distributed_functions_take_a_user(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch(
        "SELECT proname, proargnames FROM pg_proc WHERE proname = ANY($1)",
        list(tables.DISTRIBUTED),
    )
    assert {row["proname"] for row in rows if "user_id" in row["proargnames"]} == set(
        tables.DISTRIBUTED
    )


async def test_a_function_that_is_gone_is_named_with_the_cure(
    database: Database, connection: asyncpg.Connection
) -> None:
    service = DatabaseSessionService(database)
    session = await service.create_session(**USER)
    await connection.execute("DROP FUNCTION adkpg.append_event_1")
    with pytest.raises(SchemaError, match="append_event_1"):
        await service.append_event(session, said("x"))


async def test_tables_that_another_client_left_in_the_session_are_not_taken_for_ours(
    database_url: str,
) -> None:
    """A pooler gives its connection to others, with a search path that looks like ours."""
    async with Database(database_url, pool_size=1, max_overflow=0) as database:
        service = DatabaseSessionService(database)
        async with (await database.engine()).connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            for table in tables.metadata.tables.values():
                await driver.execute(f"CREATE TEMP TABLE {table.name} (LIKE adkpg.{table.name})")
            await driver.execute("SET search_path = adkpg, public")
        memory = PgVectorMemoryService(database, mode="text")
        session = await service.create_session(**USER, state={"user:tea": 1, "app:limit": 1})
        await service.append_event(session, said("a kitten", state={"user:tea": 2, "app:limit": 2}))
        await memory.add_session_to_memory(session)
    async with Database(database_url) as other:
        found = await DatabaseSessionService(other).get_session(**USER, session_id=session.id)
        assert found is not None
        assert found.state == {"user:tea": 2, "app:limit": 2}
        assert len(found.events) == 1
        memories = await PgVectorMemoryService(other, mode="text").search(**USER, query="kitten")
        assert len(memories) == 1
