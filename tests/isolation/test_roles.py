"""What each role may do by the scripts that `adkpg db grants` prints."""

from typing import Any

import asyncpg
import pytest

import adkpg
from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.database.grants import script
from adkpg.errors import DatabaseError, PermissionDenied, ScopeMissing
from adkpg.tables import metadata
from tests.fakes.conversation import entry, found, said
from tests.fakes.public_calls import APP, CALLS, EVERYBODYS, Person, Services, furnish
from tests.fakes.roles import GUARDED, Roles, as_owner
from tests.fakes.toys import SeededEmbedder

ADA = Person("ada")
HERS: dict[str, Any] = {"app_name": APP, "user_id": "ada"}
UNPREPARED: dict[str, Any] = {"connect_args": {"statement_cache_size": 0}}
"""Then a function prepares a search."""


async def test_each_role_does_what_it_is_for_without_row_level_security(owned: Roles) -> None:
    await as_owner(owned, guarded=False)
    connection = await asyncpg.connect(owned.url("migrate"))
    await connection.execute("SET search_path = adkpg, public")
    async with Database(owned.url("serve")) as database:
        services = Services.on(database)
        await furnish(services, connection, ADA)
        answers = {name: await call(services, HERS, ADA) for name, call in CALLS.items()}
        assert answers["forget"]
        for everybodys in EVERYBODYS.values():
            await everybodys(services)
        with pytest.raises(adkpg.errors.ConfigurationError, match="the role that migrates"):
            await services.memory.index_large_scopes()
    await connection.close()


async def test_the_reading_role_reads_and_is_refused_the_rest(owned: Roles) -> None:
    await as_owner(owned, guarded=False)
    async with Database(owned.url("serve")) as database:
        services = Services.on(database)
        session = await services.sessions.create_session(**HERS, session_id="s")
        await services.sessions.append_event(session, said("hello"))
        await services.memory.add_memory(**HERS, memories=[entry("a kitten sleeps", "m")])
    async with Database(owned.url("read")) as database:
        reading = Services.on(database)
        await database.check()
        read = await reading.sessions.get_session(**HERS, session_id="s")
        assert read is not None
        assert len(read.events) == 1
        assert len((await reading.sessions.list_sessions(app_name=APP)).sessions) == 1
        assert await found(reading.memory, "feline", **HERS) == ["a kitten sleeps"]
        async with Database(owned.url("read"), **UNPREPARED) as unprepared:
            memory = Services.on(unprepared).memory
            assert await found(memory, "feline", **HERS) == ["a kitten sleeps"]
        for writing in (
            reading.sessions.append_event(read, said("more")),
            reading.sessions.create_session(**HERS),
            reading.sessions.delete_session(**HERS, session_id="s"),
            reading.memory.delete_memory(**HERS, memory_id="m"),
            reading.memory.add_memory(**HERS, memories=[entry("new")]),
            adkpg.erasure.forget(database, **HERS),
        ):
            with pytest.raises(PermissionDenied, match="`adkpg db grants` prints"):
                await writing
    async with Database(owned.url("serve")) as database:
        listed = await DatabaseSessionService(database).list_sessions(**HERS)
        assert [session.id for session in listed.sessions] == ["s"]


async def test_a_role_without_rights_is_told_where_they_are(owned: Roles) -> None:
    async with Database(owned.url("serve")) as database:
        with pytest.raises(PermissionDenied, match="`adkpg db grants` prints") as refused:
            await DatabaseSessionService(database).get_session(**HERS, session_id="s")
    assert "of the test" not in str(refused.value)  # its password


async def test_each_role_keeps_to_its_scope_with_row_level_security(owned: Roles) -> None:
    """Also the owner, whom Postgres holds to policies only if it is forced to."""
    await as_owner(owned, guarded=True)
    with adkpg.scope(**HERS):
        async with Database(owned.url("serve"), settings=GUARDED) as database:
            services = Services.on(database)
            session = await services.sessions.create_session(**HERS, session_id="s")
            await services.sessions.append_event(session, said("hello"))
            await services.memory.add_memory(**HERS, memories=[entry("a kitten sleeps", "m")])
    for purpose in ("read", "work", "migrate"):
        async with Database(owned.url(purpose), settings=GUARDED) as database:
            reading = Services.on(database)
            with adkpg.scope(**HERS):
                assert await found(reading.memory, "feline", **HERS) == ["a kitten sleeps"]
            with adkpg.scope(app_name=APP, user_id="bob"):
                assert await reading.sessions.get_session(**HERS, session_id="s") is None
                assert await found(reading.memory, "feline", **HERS) == []
            with pytest.raises(ScopeMissing):
                await reading.sessions.get_session(**HERS, session_id="s")
            with adkpg.every_scope():
                listing = reading.sessions.list_sessions(app_name=APP)
                if purpose == "read":
                    with pytest.raises(PermissionDenied):
                        await listing
                else:
                    assert len((await listing).sessions) == 1


async def test_the_owner_indexes_everybody_within_every_scope(owned: Roles) -> None:
    await as_owner(owned, guarded=True)
    few = GUARDED.model_copy(update={"exact_limit": 5})
    async with Database(owned.url("migrate"), settings=few) as database:
        memory = PgVectorMemoryService(database, embedder=SeededEmbedder())
        with adkpg.scope(**HERS):
            entries = [entry(f"turn {number}") for number in range(20)]
            await memory.add_memory(**HERS, memories=entries)
            with pytest.raises(ScopeMissing, match="every_scope"):
                await memory.index_large_scopes()
        with adkpg.every_scope():
            assert await memory.index_large_scopes() == 20


async def test_tables_of_a_later_revision_are_granted_by_default(owned: Roles) -> None:
    await as_owner(owned, guarded=False)
    await owned.execute(["CREATE TABLE adkpg.later (n int)"], url=owned.url("migrate"))
    await owned.execute(["INSERT INTO adkpg.later VALUES (1)"], url=owned.url("serve"))
    await owned.execute(["SELECT n FROM adkpg.later"], url=owned.url("read"))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await owned.execute(["DELETE FROM adkpg.later"], url=owned.url("read"))


async def test_serving_needs_no_right_to_change_the_schema(owned: Roles) -> None:
    await as_owner(owned, guarded=True)
    for statement in (
        "ALTER TABLE adkpg.sessions DISABLE ROW LEVEL SECURITY",
        "DROP POLICY own ON adkpg.sessions",
        "UPDATE adkpg.adkpg_version SET version_num = ''",
        "CREATE TABLE adkpg.mine (n int)",
        "SELECT adkpg.enter_every_scope()",
        "SET ROLE postgres",
    ):
        with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.PostgresError)):
            await owned.execute([statement], url=owned.url("serve"))
    # A setting of everybody's scope is nothing without the policy, which names roles.
    connection = await asyncpg.connect(owned.url("serve"))
    await connection.execute("SET adkpg.app_name = '*'; SET adkpg.user_id = '*'")
    assert await connection.fetch("SELECT * FROM adkpg.sessions") == []
    await connection.close()


def test_scripts_name_every_table() -> None:
    for purpose in ("serve", "read", "work"):
        printed = script("bots", purpose, "x")
        for table in metadata.sorted_tables:
            assert f'"bots".{table.name}' in printed


async def test_a_missing_database_right_is_told_as_one(owned: Roles) -> None:
    async with Database(owned.url("work")) as database:
        with pytest.raises(DatabaseError, match="adkpg db grants"):
            await database.upgrade()
