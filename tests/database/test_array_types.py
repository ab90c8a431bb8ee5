"""Arrays of built-in types: the driver knows them without asking the server's catalogs."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from adkpg import Database

GIVEN: dict[str, Any] = {
    "bool": [True, None],
    "bytea": [b"a"],
    "int2": [1],
    "int4": [1],
    "varchar": ["a", 'b"'],
    "name": ["a", None],
    "int8": [2**40],
    "float4": [0.5],
    "float8": [0.1],
    "timestamptz": [datetime(2030, 1, 1, tzinfo=UTC)],
    "interval": [timedelta(days=1, seconds=2)],
    "uuid": [uuid.UUID(int=7)],
}


@pytest.mark.parametrize("kind", GIVEN)
async def test_an_array_goes_and_comes_without_a_look_at_the_catalogs(
    database_url: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async def asks(_connection: object, types: object, *_args: object) -> None:
        raise AssertionError(f"asks for {types}")

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", asks)
    async with Database(database_url) as database:
        engine = await database.engine()
        async with engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            given = GIVEN[kind]
            assert await driver.fetchval(f"SELECT $1::{kind}[]", given) == given
            texts = await driver.fetchval(f"SELECT $1::{kind}[]::text[]::{kind}[]", [given, given])
            assert texts == [given, given]
