"""The text search configuration of an app: its words, derived anew."""

import asyncio

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.errors import ConfigurationError
from adkpg.keys import APP_WIDE
from adkpg.memory.write.configuration import set_text_search_config, text_search_config
from tests.fakes.citus import home_of
from tests.fakes.conversation import USER, entry, found, remember_apart
from tests.fakes.locks import locked

GERMAN = "Die Häuser stehen am Fluss."
POSTINGS = (
    "SELECT l.user_id, l.lexeme, l.frequency, m.memory_id, m.length, "
    "       l.memory_length "
    "FROM memory_lexemes l JOIN memories m USING (app_name, user_id, position) "
    "WHERE m.memory_id LIKE 'm%' ORDER BY 4, 2"
)


async def test_an_apps_words_are_derived_anew(
    memory: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    await remember_apart(memory, GERMAN)
    await memory.add_memory(app_name="app", user_id=None, memories=[entry("Zwei Bäume.")])
    await memory.add_memory(app_name="rival", user_id="user", memories=[entry(GERMAN)])
    assert await found(memory, "Haus", mode="text") == []
    assert await text_search_config(database, app_name="app") is None
    told: list[tuple[int, int]] = []
    written = await set_text_search_config(
        database,
        app_name="app",
        config="german",
        progress=lambda done, total: told.append((done, total)),
    )
    assert (written, told) == (2, [(2, 2)])
    assert await text_search_config(database, app_name="app") == "german"
    assert await found(memory, "Haus", mode="text") == [GERMAN]
    assert await found(memory, "Baum", mode="text") == ["Zwei Bäume."]
    assert await found(memory, "Häuser", mode="text", app_name="rival") == [GERMAN]
    assert await found(memory, "Haus", mode="text", app_name="rival") == []
    vectors = "SELECT count(*) FROM memory_vectors"
    assert await connection.fetchval(vectors) == 3
    await remember_apart(memory, "Ein anderes Haus.")
    assert len(await found(memory, "Häuser", mode="text")) == 2


@pytest.mark.parametrize("config", ["pg_catalog.german", "simple", None])
async def test_derived_words_are_those_that_are_written_at_once(
    memory: PgVectorMemoryService,
    database: Database,
    connection: asyncpg.Connection,
    config: str | None,
) -> None:
    said = [
        entry("order-9981 was shipped to Ann", "m1", author="user", timestamp="2026-03-01"),
        entry("user: is a word here", "m2", author="user"),
        entry("昨天他去了北京。", "m3", author="小明"),
        entry("Москва красивая", "m4"),
        entry("the the the houses", "m5", author="ann"),
        entry("\u2014", "m6"),
    ]
    await memory.add_memory(**USER, memories=said)
    before = await connection.fetch(POSTINGS)
    assert len({row["memory_id"] for row in before}) >= 5
    assert all(row["memory_length"] == row["length"] for row in before)
    assert await set_text_search_config(database, app_name="app", config=config) == len(said)
    derived = await connection.fetch(POSTINGS)
    assert (derived == before) == (config is None)
    assert await connection.fetchval("SELECT count(*) FROM memory_lexemes") == len(derived)
    for each in said:
        await memory.delete_memory(**USER, memory_id=each.id)
    await memory.add_memory(**USER, memories=said)
    assert await connection.fetch(POSTINGS) == derived


async def test_many_memories_of_many_users(
    memory: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    for user_id in (None, "ann", "bob"):
        many = [entry(f"Häuser {number}") for number in range(300)]
        await memory.add_memory(app_name="app", user_id=user_id, memories=many)
    told: list[int] = []
    await set_text_search_config(
        database, app_name="app", config="german", progress=lambda d, _: told.append(d)
    )
    assert told == [500, 900]
    rows = await connection.fetch(
        "SELECT user_id, count(*) FROM memory_lexemes WHERE lexeme = 'haus' GROUP BY 1 ORDER BY 1"
    )
    assert [tuple(row) for row in rows] == [(APP_WIDE, 300), ("ann", 300), ("bob", 300)]


async def test_the_setting_follows_what_the_environment_says(
    memory: PgVectorMemoryService, database_url: str
) -> None:
    await remember_apart(memory, GERMAN)
    async with Database(database_url, settings=Settings(text_search_config="german")) as german:
        changed = PgVectorMemoryService(german, mode="text")
        assert await found(changed, "Haus") == []
        assert await set_text_search_config(german, app_name="app", config=None) == 1
        assert await found(changed, "Haus") == [GERMAN]


async def test_an_unknown_configuration_changes_nothing(
    memory: PgVectorMemoryService, database: Database
) -> None:
    await remember_apart(memory, GERMAN)
    for unknown in ("klingon", "german; DROP TABLE memories", "", "x.german"):
        with pytest.raises(ConfigurationError, match=r"has no .* it has .*german"):
            await set_text_search_config(database, app_name="app", config=unknown)
    assert await text_search_config(database, app_name="app") is None
    assert await text_search_config(database, app_name="\x00") is None


async def test_an_app_without_memories_can_be_prepared(
    memory: PgVectorMemoryService, database: Database
) -> None:
    assert await set_text_search_config(database, app_name="app", config="german") == 0
    await remember_apart(memory, GERMAN)
    assert await found(memory, "Haus", mode="text") == [GERMAN]
    assert await found(memory, "kitten", mode="vector") == []


async def test_who_writes_meanwhile_waits_and_has_the_new_words(
    memory: PgVectorMemoryService, database: Database, database_url: str
) -> None:
    """A writer that began before is waited for; one that comes meanwhile sees what was set."""
    await remember_apart(memory, GERMAN)
    writing = "DELETE FROM adkpg.memories WHERE memory_id = 'nobody'"
    async with locked(await home_of(database_url, USER["user_id"]), writing) as writer:
        setting = asyncio.create_task(
            set_text_search_config(database, app_name="app", config="german")
        )
        await writer.until_blocked(1)
        late = asyncio.create_task(remember_apart(memory, "Noch zwei Häuser."))
        await writer.until_blocked(2)
        assert await found(memory, "Häuser", mode="text") == [GERMAN]  # searches go on
        await writer.release()
    assert await setting == 1
    await late
    assert len(await found(memory, "Haus", mode="text")) == 2


async def test_updates_of_one_memory_and_of_all_words_leave_no_mixture(
    memory: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(**USER, memories=[entry(f"Häuser {n}", f"m{n}") for n in range(30)])

    async def update() -> None:
        for number in range(30):
            await memory.update_memory(**USER, memory_id=f"m{number}", text=f"Bäume {number}")

    await asyncio.gather(
        update(), set_text_search_config(database, app_name="app", config="german")
    )
    rows = await connection.fetch(
        "SELECT lexeme, count(*) FROM memory_lexemes"
        " WHERE frequency > 0 AND lexeme !~ '^[0-9]+$' GROUP BY 1"
    )
    assert [tuple(row) for row in rows] == [("baum", 30)]
    apart = "FROM memory_lexemes l JOIN memories m USING (app_name, user_id, position)"
    assert not await connection.fetch(f"SELECT {apart} WHERE l.memory_length <> m.length")


async def test_a_deadlock_with_who_stores_vectors_is_tried_again(
    memory: PgVectorMemoryService, database: Database, database_url: str
) -> None:
    await remember_apart(memory, GERMAN)
    await set_text_search_config(database, app_name="app", config="simple")
    async with locked(database_url, "SELECT FROM adkpg.memories WHERE false FOR SHARE") as lock:
        # So that the change is the one that finds the deadlock, and gives way.
        await lock.connection.execute("SET LOCAL deadlock_timeout = '10min'")
        change = asyncio.ensure_future(
            set_text_search_config(database, app_name="app", config="german")
        )
        await lock.until_blocked(1)
        await lock.connection.execute("SELECT FROM adkpg.app_settings FOR SHARE")
        await lock.release()
        assert await change == 1
    assert await found(memory, "Haus", mode="text") == [GERMAN]
