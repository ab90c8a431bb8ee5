"""Transactions read what others committed while they waited, whatever the server's default."""

import pytest

from adkpg import Database
from tests.fakes.queries import written

pytestmark = pytest.mark.race


@pytest.mark.direct("the pooler refuses settings of the server in startup parameters")
async def test_a_transaction_is_read_committed_whatever_the_default(database_url: str) -> None:
    mark = "&" if "?" in database_url else "?"
    url = f"{database_url}{mark}default_transaction_isolation=serializable"
    level = written("SELECT current_setting('transaction_isolation') AS level")
    async with Database(url) as database:
        outside = await database.run.fetch(level)
        async with database.run.transaction() as transaction:
            inside = await transaction.fetch(level)
    assert (outside[0]["level"], inside[0]["level"]) == ("serializable", "read committed")
