"""Ingests of more memories than one statement writes: in batches, and whole or not at all."""

import asyncpg
import pytest

from adkpg import PgVectorMemoryService
from adkpg.errors import ConstraintViolated
from adkpg.memory.write.configuration import set_text_search_config
from tests.fakes.conversation import USER, conversation, entry

MOST = 500  # by one statement, whatever is ingested

COUNTED = """
    CREATE TABLE adkpg.written (id int GENERATED ALWAYS AS IDENTITY, number int);
    CREATE FUNCTION adkpg.counted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO adkpg.written (number) SELECT count(*) FROM new_rows HAVING count(*) > 0;
      RETURN NULL;
    END $$;
    CREATE TRIGGER counted AFTER INSERT ON adkpg.memory_jobs REFERENCING NEW TABLE AS new_rows
      FOR EACH STATEMENT EXECUTE FUNCTION adkpg.counted();
"""


@pytest.fixture
async def counted(connection: asyncpg.Connection) -> None:
    """Notes for each call how many memories it wrote, by what waits to be done with them."""
    await connection.execute(COUNTED)


async def written(connection: asyncpg.Connection) -> list[int]:
    rows = await connection.fetch("SELECT number FROM adkpg.written ORDER BY id")
    return [row["number"] for row in rows]


@pytest.mark.usefixtures("counted")
async def test_no_statement_writes_a_whole_library(
    words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    session = conversation(*(f"turn {number}" for number in range(2 * MOST + 1)))
    await words.add_session_to_memory(session)
    assert await written(connection) == [MOST, MOST, 1]
    await words.add_events_to_memory(
        app_name="app", user_id="other", events=session.events, session_id="s"
    )
    await words.add_memory(**USER, memories=[entry(f"note {n}") for n in range(MOST + 1)])
    assert await written(connection) == [MOST, MOST, 1, MOST, MOST, 1, MOST, 1]
    listed = await words.list_memories(**USER, limit=3 * MOST + 3)
    assert len(listed.items) == 3 * MOST + 2


async def test_words_are_written_as_their_index_has_them(
    words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """What is written next to each other needs no page of the index twice."""

    async def lie_in_order() -> bool:
        rows = await connection.fetch(
            "SELECT lexeme, position FROM adkpg.memory_lexemes ORDER BY ctid"
        )
        written: list[tuple[str, int]] = [tuple(row) for row in rows]
        assert len(written) > 300
        return written == sorted(written)

    texts = [f"Zoo {number} \u00c4pfel garden houses word{number}" for number in range(100)]
    await words.add_session_to_memory(conversation(*texts))
    assert await lie_in_order()
    await set_text_search_config(words.database, app_name="app", config="german")
    assert await lie_in_order()


async def test_an_ingest_whose_last_batch_is_refused_leaves_nothing(
    words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "ALTER TABLE adkpg.memories ADD CONSTRAINT polite CHECK (body NOT LIKE '%rude%')"
    )
    texts = [f"turn {number}" for number in range(MOST)]
    with pytest.raises(ConstraintViolated):
        await words.add_session_to_memory(conversation(*texts, "rude"))
    for table in ("memories", "memory_lexemes", "memory_jobs"):
        assert await connection.fetchval(f"SELECT count(*) FROM adkpg.{table}") == 0
    await words.add_session_to_memory(conversation(*texts))
    assert await words.count_memories(**USER) == MOST
