"""Prepared statements that are gone, or that another client has, as behind some poolers."""

import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.errors import DatabaseUnavailable
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER

pytestmark = [pytest.mark.fault, pytest.mark.direct("a pooler forgets and prepares them itself")]


async def _lose_statements(database: Database) -> None:
    async with database.run.transaction() as transaction:
        await transaction._connection.execute("DEALLOCATE ALL")


async def _lose_within(database: Database) -> None:
    async with database.run.transaction() as transaction:
        await transaction._connection.fetch("SELECT 1")
        await transaction._connection.execute("DEALLOCATE ALL")
        await transaction._connection.fetch("SELECT 1")


async def test_a_call_whose_statement_is_gone_is_repeated(database: Database) -> None:
    sessions = DatabaseSessionService(database)
    session = await sessions.create_session(**USER)
    for number in range(4):
        await sessions.append_event(session, said(str(number)))
        await _lose_statements(database)
    assert texts(await sessions.get_session(**USER, session_id=session.id)) == list("0123")


async def test_what_cannot_be_repeated_here_says_what_to_write(database_url: str) -> None:
    """A transaction's other statements are the caller's, who alone can make them again."""
    async with Database(database_url) as database:
        with pytest.raises(DatabaseUnavailable, match="statement_cache_size=0") as caught:
            await _lose_within(database)
        assert caught.value.written is False
