"""Settings of roles, poolers and engines that adkpg cannot work with, or must not heed."""

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from adkpg import Database, DatabaseSessionService
from adkpg.errors import ExtensionMissing
from tests.fakes.conversation import USER

pytestmark = pytest.mark.fault


@pytest.mark.direct("the pooler's sessions began before the setting")
@pytest.mark.parametrize("has_pgvector", [False, True])
async def test_an_empty_search_path_is_named_with_its_cure(
    empty_database_url: str, has_pgvector: bool
) -> None:
    admin = await asyncpg.connect(empty_database_url)
    name = await admin.fetchval("SELECT current_database()")
    await admin.execute(
        "CREATE EXTENSION IF NOT EXISTS vector"
        if has_pgvector
        else "DROP EXTENSION IF EXISTS vector"
    )
    await admin.execute(f"""ALTER DATABASE "{name}" SET search_path = ''""")
    await admin.close()
    async with Database(empty_database_url) as database:
        with pytest.raises(ExtensionMissing, match=r'SET search_path = "\$user", public$'):
            await database.upgrade()


async def test_an_engines_schema_translate_map_is_for_its_own_tables(database_url: str) -> None:
    engine = create_async_engine(
        database_url.replace("://", "+asyncpg://", 1),
        execution_options={"schema_translate_map": {None: "tenant1", "adkpg": "tenant2"}},
    )
    async with Database(engine=engine) as database:
        assert await DatabaseSessionService(database).get_user_state(**USER) == {}
        await database.upgrade()
        await database.check()
