"""What is set to the end of a transaction is set on the user's node, whichever node is asked."""

import asyncpg
import pytest

from adkpg import Database
from adkpg.database import WITHOUT_RACES, Transaction
from adkpg.errors import Busy
from adkpg.keys import ScopeKey
from adkpg.memory.vectors.statements import tune_search
from adkpg.memory.write.statements import give_way
from tests.fakes.queries import written

pytestmark = pytest.mark.cluster

USER: ScopeKey = {"app_name": "app", "user_id": "user"}


async def test_whoever_gives_way_waits_for_no_lock_of_a_node(
    nodes: list[str], connection: asyncpg.Connection
) -> None:
    """It waited as long as a command may take, and others waited for it."""
    locked = written(
        "SELECT state FROM {schema}.user_states"
        " WHERE app_name = :app_name AND user_id = :user_id FOR UPDATE",
        **USER,
    )
    await connection.execute(
        "INSERT INTO user_states (app_name, user_id, state) VALUES ('app', 'user', '{}')"
    )

    async def give_way_to_it(transaction: Transaction) -> None:
        await transaction.fetch(give_way(**USER))
        await transaction.fetch(locked)

    async with connection.transaction():
        await connection.execute("SELECT FROM user_states WHERE user_id = 'user' FOR UPDATE")
        for url in nodes:
            async with Database(url) as database:
                with pytest.raises(Busy, match="lock timeout"):
                    await database.run.transact(give_way_to_it, policy=WITHOUT_RACES)


async def test_a_search_is_tuned_where_it_is_answered(nodes: list[str]) -> None:
    there = written(
        "SELECT current_setting('hnsw.ef_search') AS found WHERE :user_id::text IS NOT NULL", **USER
    )
    for url in nodes:
        async with Database(url) as database, database.run.transaction() as transaction:
            await transaction.fetch(tune_search(**USER, ef_search="123"))
            (row,) = await transaction.fetch(there)
            assert row["found"] == "123"
