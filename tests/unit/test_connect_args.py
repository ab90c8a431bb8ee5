"""connect_args by asyncpg's names, by libpq's, and of SQLAlchemy's recipes for poolers."""

from typing import Any

import pytest

from adkpg import Database
from adkpg.errors import ConfigurationError

NOWHERE = "postgresql://u:pa55w0rd@127.0.0.1:1/d"


@pytest.mark.parametrize("name", ["sslmod", "dsn", "loop", "host_addr", "prepare_threshold"])
async def test_what_no_one_knows_is_named_without_a_connection(name: str) -> None:
    async with Database(NOWHERE, connect_args={name: "x"}) as database:
        with pytest.raises(ConfigurationError, match=f"'{name}' of connect_args"):
            await database.current()


@pytest.mark.parametrize(
    "given",
    [
        {"prepared_statement_cache_size": 0},
        {"prepared_statement_name_func": str},
        {"sslmode": "disable"},
        {"connect_timeout": 5},
        {"dbname": "{name}"},
        {"keepalives": 1, "keepalives_idle": 30},
        {"application_name": "mine"},
        {"server_settings": {"application_name": "mine"}},
        {"statement_cache_size": 0},
    ],
)
async def test_what_others_know_is_taken_or_needs_nothing(
    database_url: str, given: dict[str, Any]
) -> None:
    name = database_url.partition("?")[0].rpartition("/")[2]
    arguments = {
        key: value.format(name=name) if isinstance(value, str) else value
        for key, value in given.items()
    }
    async with Database(database_url, connect_args=arguments) as database:
        engine = await database.engine()
        async with engine.connect() as connection:
            answer = await connection.exec_driver_sql("SHOW application_name")
            assert answer.scalar_one() == ("mine" if "mine" in str(given) else "adkpg")
