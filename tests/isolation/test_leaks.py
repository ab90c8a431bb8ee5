"""What Postgres keeps back by itself: statements that forget to say whose rows they are about."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import asyncpg
import pytest
from sqlalchemy import delete, insert, literal, select, text, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.base import Executable

import adkpg
from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.database import row_security
from adkpg.database.row_security import quoted
from adkpg.documents import Documents
from adkpg.errors import AdkpgError, ConfigurationError, PermissionDenied, SchemaError, ScopeMissing
from adkpg.memory.queue.worker import Worker
from adkpg.memory.vectors.index import extend_indexes
from adkpg.memory.vectors.vectors import Vectors
from adkpg.memory.vectors.work import Embedding
from adkpg.queries import Query
from adkpg.tables import app_states, metadata, sessions
from tests.fakes.conversation import MODES, entry, found, said, text_of
from tests.fakes.public_calls import APP, Person, Services, furnish, kept
from tests.fakes.queries import written
from tests.fakes.roles import GUARDED, Roles
from tests.fakes.toys import SeededEmbedder, ToyEmbedder

ADA, BOB = Person("ada"), Person("bob")
HERS: dict[str, Any] = {"app_name": APP, "user_id": "ada"}
HIS: dict[str, Any] = {"app_name": APP, "user_id": "bob"}
THE_APPS: dict[str, Any] = {"app_name": APP, "user_id": None}

PROTECTED = row_security.protected()


def broken(sql: str | Executable) -> Query[Any]:
    """A query that adkpg would not make."""
    if not isinstance(sql, str):
        compiled: Any = sql.compile(  # type: ignore[attr-defined] # Executable is a mixin
            dialect=postgresql.dialect(),  # type: ignore[no-untyped-call]
            compile_kwargs={"literal_binds": True},
        )
        sql = str(compiled)
    return written(sql)


async def rows(database: Database, sql: str | Executable) -> Sequence[Any]:
    return await database.run.fetch(broken(sql))


@pytest.fixture
async def furnished(roles: Roles, database_url: str, connection: asyncpg.Connection) -> None:
    """Two people's lives in a table each, and what the app knows for both."""
    async with Database(database_url) as database:
        services = Services.on(database)
        await furnish(services, connection, ADA, BOB)
        await services.documents.add(app_name=APP, source="rules.md", text="a dog is welcome")
        await services.documents.add(app_name="other", source="other.md", text="a dog stays out")


def test_every_table_of_an_app_or_a_person_has_policies() -> None:
    plain = {table.name for table in metadata.sorted_tables} - {table.name for table in PROTECTED}
    # Objects to be removed and claims are random names, of nobody any more.
    assert plain == {"embedding_models", "artifact_removals", "artifact_claims"}
    for table in PROTECTED:
        assert row_security.policies("adkpg", table)


async def test_every_table_is_forced_to_its_policies(
    roles: Roles, connection: asyncpg.Connection
) -> None:
    forced = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity"
    )
    assert {row["relname"] for row in forced} == {table.name for table in PROTECTED}


async def test_a_plan_that_the_server_keeps_is_nobodys(roles: Roles) -> None:
    """One server process, whose statement of a search all users share."""
    options: dict[str, Any] = {"connect_args": {"statement_cache_size": 0}}
    async with Database(
        roles.url("serve"), settings=GUARDED, pool_size=1, max_overflow=0, **options
    ) as database:
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        for own in (HERS, HIS):
            with adkpg.scope(**own):
                await memory.add_memory(**own, memories=[entry(f"a dog of {own['user_id']}")])
        for _ in range(7):
            for own, others in ((HERS, HIS), (HIS, HERS)):
                with adkpg.scope(**own):
                    assert await found(memory, "dog", **own) == [f"a dog of {own['user_id']}"]
                    assert await found(memory, "dog", **others) == []
            with pytest.raises(ScopeMissing):
                await found(memory, "dog", **HERS)


@pytest.mark.usefixtures("furnished")
async def test_a_statement_without_any_condition_reads_one_users_rows(served: Database) -> None:
    for table in PROTECTED:
        personal = "user_id" in table.c
        owner = table.c.user_id if personal else literal("")
        read = broken(select(table.c.app_name, owner.label("owner")))
        seen = set()
        for scope in (HERS, {**HERS, "user_id": "nobody"}):
            with adkpg.scope(**scope):
                seen |= {tuple(row) for row in await served.run.fetch(read)}
                async with served.run.transaction() as transaction:
                    seen |= {tuple(row) for row in await transaction.fetch(read)}
        if personal:
            assert (APP, "ada") in seen, table
        app_wide = {(APP, "\x01app")} if table.info.get("app_wide") else set()
        assert seen <= {(APP, "ada" if personal else ""), *app_wide}, table


@pytest.mark.usefixtures("furnished")
async def test_a_statement_without_any_condition_changes_one_users_rows(
    served: Database, connection: asyncpg.Connection
) -> None:
    others = [BOB, Person("\x01app")]
    before = [await kept(connection, person) for person in others]
    personal = [table for table in PROTECTED if "user_id" in table.c]
    with adkpg.scope(**HERS):
        for table in personal:
            await served.run.fetch(broken(update(table).values(app_name=table.c.app_name)))
            with pytest.raises(PermissionDenied):
                await served.run.fetch(broken(update(table).values(user_id="bob")))
        for table in reversed(personal):
            await served.run.fetch(broken(delete(table)))
    assert [await kept(connection, person) for person in others] == before
    assert set((await kept(connection, ADA)).values()) == {None}


@pytest.mark.usefixtures("furnished")
async def test_nothing_is_written_in_another_users_name(served: Database) -> None:
    with adkpg.scope(**HERS):
        for owner in ("bob", "\x01app"):
            row = insert(sessions).values(app_name=APP, user_id=owner, session_id="forged")
            with pytest.raises(PermissionDenied, match="outside of the entered scope"):
                await rows(served, row)
        with pytest.raises(PermissionDenied):
            await rows(served, insert(app_states).values(app_name="other", state=text("'{}'")))


@pytest.mark.usefixtures("furnished")
@pytest.mark.parametrize(
    "injected",
    [
        "true",
        "user_id = 'bob' OR true",
        "true UNION ALL SELECT body FROM adkpg.memories WHERE user_id = 'bob'",
        "EXISTS (SELECT FROM adkpg.sessions WHERE user_id = 'bob') AND user_id = 'bob'",
        "1 / (user_id <> 'bob')::int = 1",
        "position IN (SELECT position FROM adkpg.memory_vectors) AND user_id = 'bob'",
    ],
)
async def test_injected_text_meets_the_policies(served: Database, injected: str) -> None:
    """Conditions that could tell by an error, too: policies come before all that can leak."""
    sql = f"SELECT body FROM adkpg.memories WHERE {injected}"
    with adkpg.scope(**HERS):
        told = repr(await rows(served, sql))
    assert BOB.secret not in told
    assert "puppy" not in told or "bob" not in told


@pytest.mark.usefixtures("furnished")
async def test_ids_and_texts_of_every_kind_stay_values(
    served: Database, sessions: DatabaseSessionService
) -> None:
    """In the message that begins a transaction, too, which takes no parameters."""
    for user in ("'", "'; SELECT 1; --", "\\", "\\'", "$1", "é\U0001f600", " ", "%s", '"', "\n"):
        scope: dict[str, Any] = {"app_name": f"app {user}", "user_id": user}
        with adkpg.scope(**scope):
            made = await sessions.create_session(**scope, session_id=user or "s")
            await sessions.append_event(made, said("hello"))
            async with served.run.transaction() as transaction:
                entered = broken("SELECT adkpg.scope_app() AS app, adkpg.scope_user() AS owner")
                (row,) = await transaction.fetch(entered)
            assert tuple(row) == (scope["app_name"], scope["user_id"])
            assert len((await sessions.list_sessions(**scope)).sessions) == 1


@pytest.mark.usefixtures("furnished")
async def test_what_an_app_knows_is_read_by_its_users_and_written_in_its_own_scope(
    served: Database, memory: PgVectorMemoryService
) -> None:
    documents = Documents(memory)
    with adkpg.scope(**HERS):
        assert "a dog is welcome" in await found(memory, "hound", **HERS)
        assert "a dog stays out" not in await found(memory, "hound", **HERS, top_k=50)
        with pytest.raises(PermissionDenied):
            await documents.add(app_name=APP, source="forged.md", text="a cat is welcome")
        with pytest.raises(PermissionDenied, match="user_id=None"):
            await documents.delete(app_name=APP, source="rules.md")
        (shared,) = (await memory.list_memories(**THE_APPS)).items
        for change in (memory.delete_memory, partial(memory.update_memory, text="changed")):
            with pytest.raises(PermissionDenied, match="user_id=None"):
                await change(**THE_APPS, memory_id=str(shared.id))
    with adkpg.scope(**THE_APPS):
        await documents.add(app_name=APP, source="more.md", text="a cat is welcome")
        assert await documents.delete(app_name=APP, source="rules.md") == 1
        assert await found(memory, ADA.secret, **HERS, mode="text") == []
    with adkpg.scope(**HERS):
        assert "a cat is welcome" in await found(memory, "kitten", **HERS, top_k=50)


async def test_passages_of_long_memories_are_ones_own_and_the_apps(
    served: Database, worked: Database, database_url: str
) -> None:
    """The passage that matches best is another user's, in the same words; so is another app's."""
    embedder = ToyEmbedder()
    embedder.window = 16  # type: ignore[attr-defined] # any embedder may have one
    around = "People walk about and talk of the weather and of the sea. " * 20
    text_by = {
        "bob": f"{around} Bob's kitten, the feline cat, sleeps. {around}",
        "ada": f"{around} Ada's kitten barks at a hound. {around}",
        None: f"{around} The app's kitten has a car and tea. {around}",
    }
    async with Database(database_url) as database:
        everybodys = PgVectorMemoryService(database, embedder=embedder)
        for user, said_by in text_by.items():
            scope: dict[str, Any] = {"app_name": APP, "user_id": user}
            await everybodys.add_memory(**scope, memories=[entry(said_by, "long")])
            other = {**scope, "app_name": "other"}
            await everybodys.add_memory(**other, memories=[entry(said_by, "long")])
    memory = PgVectorMemoryService(served, embedder=embedder)
    passages = "SELECT DISTINCT app_name, user_id FROM adkpg.memory_vectors"
    with adkpg.scope(**HERS):
        for mode in MODES:
            hits = await memory.search(**HERS, query="a kitten?", mode=mode, passages=True)
            told = {str(hit.reason.passage) for hit in hits}
            assert len(told) == 2
            assert all("kitten" in passage for passage in told)
            assert not any("Bob" in repr(hit) for hit in hits)
            assert await memory.search(**{**HERS, "app_name": "other"}, query="kitten") == []
            assert await memory.search(**HIS, query="a kitten?", mode=mode, app_wide=False) == []
        seen = {tuple(row) for row in await rows(served, passages)}
        assert seen == {(APP, "ada"), (APP, "\x01app")}
        await memory.update_memory(**HERS, memory_id="long", text=f"{around} Ada's dog.")
        await memory.delete_memory(**HERS, memory_id="long")
        seen = {tuple(row) for row in await rows(served, passages)}
        assert seen == {(APP, "\x01app")}
    with adkpg.every_scope():
        his = f"{passages} WHERE user_id = 'bob'"
        assert len(await rows(worked, his)) == 2


@pytest.mark.parametrize("iterative", ["off", "strict_order", "relaxed_order"])
async def test_the_hnsw_index_gives_nothing_of_others(
    roles: Roles, served: Database, database_url: str, iterative: str
) -> None:
    """Though the nearest vectors are theirs; also to a search that names them."""
    embedder = SeededEmbedder(dimensions=8, clusters=1)
    async with Database(database_url, settings=Settings(exact_limit=5)) as database:
        everybodys = PgVectorMemoryService(database, embedder=embedder)
        for scope, numbers in ((HIS, range(300)), (HERS, range(300, 320))):
            entries = [entry(f"turn {number}") for number in numbers]
            await everybodys.add_memory(**scope, memories=entries)
        assert await everybodys.index_large_scopes() == 320
    memory = PgVectorMemoryService(served, embedder=embedder)
    with adkpg.scope(**HERS):
        for _ in range(2):  # the second knows of the index
            hits = await memory.search(**HERS, query="turn 7", mode="vector", top_k=10)
            assert {int(text_of(hit.memory).split()[1]) // 20 for hit in hits} == {15}
            assert await memory.search(**HIS, query="turn 7", mode="vector") == []
        async with served.run.transaction() as transaction:
            for setting in (f"hnsw.iterative_scan = {iterative}", "enable_sort = off"):
                await transaction.fetch(broken(f"SET LOCAL {setting}"))
            near = (
                "SELECT user_id FROM adkpg.memory_vectors WHERE approximate AND model_id = 1"
                f" ORDER BY embedding::halfvec(8) <=> '{embedder.vector('turn 7')}'::halfvec(8)"
                " LIMIT 10"
            )
            plan = await transaction.fetch(broken(f"EXPLAIN {near}"))
            assert "memory_vectors_hnsw_1" in str(plan)
            owners = [row["user_id"] for row in await transaction.fetch(broken(near))]
    assert set(owners) <= {"ada"}
    # Without iteration the index stops at the nearest, which are others'.
    assert (len(owners) == 10) == (iterative != "off")


async def test_a_worker_may_put_everybodys_vectors_into_the_index(
    roles: Roles, worked: Database, database_url: str
) -> None:
    async with Database(database_url, settings=Settings(exact_limit=5)) as database:
        memory = PgVectorMemoryService(database, embedder=SeededEmbedder(dimensions=8, clusters=1))
        for scope in (HIS, HERS):
            await memory.add_memory(**scope, memories=[entry(f"turn {n}") for n in range(10)])
        assert await memory.index_large_scopes() == 20
        for scope in (HIS, HERS):
            await memory.add_memory(**scope, memories=[entry(f"later {n}") for n in range(20)])
    with adkpg.scope(**HERS), pytest.raises(ScopeMissing):
        await extend_indexes(worked)
    with adkpg.every_scope():
        assert [await extend_indexes(worked) for _ in range(2)] == [40, 0]


@pytest.mark.usefixtures("furnished")
async def test_a_worker_works_in_the_scope_of_each_user(
    worked: Database, connection: asyncpg.Connection
) -> None:
    """It finds everybody's work, and does each with nobody else's rows in sight."""
    seen: dict[str, set[str]] = {}

    class Watched(Embedding):
        async def work(self, app_name: str, user_id: str) -> int:
            read = broken("SELECT DISTINCT user_id FROM adkpg.memories WHERE kind <> 'document'")
            seen[user_id] = {row["user_id"] for row in await worked.run.fetch(read)}
            return await super().work(app_name, user_id)

    await connection.execute(
        "INSERT INTO memory_jobs (app_name, user_id, position, work)"
        " SELECT app_name, user_id, position, 'embed' FROM memories ON CONFLICT DO NOTHING"
    )
    vectors = Vectors(worked, ToyEmbedder())
    while await Worker([Watched(vectors)]).run_once():
        continue
    assert seen == {"ada": {"ada"}, "bob": {"bob"}, "\x01app": set()}
    assert not await connection.fetchval("SELECT count(*) FROM memory_jobs WHERE work = 'embed'")


@pytest.mark.usefixtures("furnished")
async def test_the_scope_ends_with_the_transaction(served: Database) -> None:
    """What a pooled connection, or a pooler, serves next has none."""
    left = "SELECT current_setting('adkpg.user_id', true)"
    engine = await served.engine()
    with adkpg.scope(**HERS):
        await rows(served, select(sessions.c.user_id))
        async with served.run.transaction() as transaction:
            assert await transaction.fetch(broken("SELECT user_id FROM adkpg.sessions"))
        with pytest.raises(AdkpgError):
            await rows(served, ("SELECT 1 / 0 FROM adkpg.sessions"))
    async with engine.connect() as own:
        assert await own.scalar(text(left)) in (None, "")
        with pytest.raises(DBAPIError) as refused:
            await own.execute(text("SELECT user_id FROM adkpg.sessions"))
        assert getattr(refused.value.orig, "sqlstate", "") == "ADK01"


@pytest.mark.usefixtures("furnished")
async def test_requests_side_by_side_keep_their_own_scopes(
    served: Database, sessions: DatabaseSessionService
) -> None:
    async def request(person: Person) -> set[str]:
        scope: dict[str, Any] = {"app_name": APP, "user_id": person.user_id}
        with adkpg.scope(**scope):
            seen = set()
            for _ in range(20):
                read = await rows(served, ("SELECT user_id FROM adkpg.sessions"))
                seen |= {row["user_id"] for row in read}
                session = await sessions.create_session(**scope)
                await asyncio.gather(*(sessions.append_event(session, said("x")) for _ in "ab"))
            return seen

    assert (
        await asyncio.gather(*(request(each) for each in (ADA, BOB) * 4))
        == [
            {"ada"},
            {"bob"},
        ]
        * 4
    )


@pytest.mark.usefixtures("furnished")
async def test_a_client_that_was_told_nothing_is_told_what_to_set(roles: Roles) -> None:
    async with Database(roles.url("serve")) as database:
        with pytest.raises(ScopeMissing, match="ADKPG_ROW_LEVEL_SECURITY=true"):
            await DatabaseSessionService(database).get_session(**HERS, session_id="s1")


async def test_a_role_that_passes_policies_is_refused(roles: Roles, database_url: str) -> None:
    await roles.create("bypass")
    serve, bypass = (quoted(roles.name(each)) for each in ("serve", "bypass"))
    await roles.execute([f"GRANT {serve} TO {bypass}", f"ALTER ROLE {bypass} BYPASSRLS"])
    for url in (database_url, roles.url("bypass")):
        async with Database(url, settings=GUARDED) as database:
            with adkpg.scope(**HERS), pytest.raises(ConfigurationError, match="BYPASSRLS"):
                await DatabaseSessionService(database).get_session(**HERS, session_id="s1")


async def test_tables_without_policies_are_refused_before_they_are_read(
    database_url: str, connection: asyncpg.Connection
) -> None:
    roles = Roles(database_url)
    await roles.create("serve")
    try:
        await roles.grant("serve")
        async with Database(roles.url("serve"), settings=GUARDED) as database:
            with adkpg.scope(**HERS), pytest.raises(SchemaError, match="adkpg db upgrade"):
                await DatabaseSessionService(database).get_session(**HERS, session_id="s1")
    finally:
        await roles.drop()


async def test_upgrading_again_makes_what_is_missing_and_nothing_else(
    roles: Roles, connection: asyncpg.Connection, database_url: str
) -> None:
    """A table that a later revision brings has policies from then on, also for known workers."""
    policies = "SELECT oid, polname FROM pg_policy WHERE polrelid = 'events'::regclass ORDER BY 2"
    before = await connection.fetch(policies)
    for name in (quoted(row["polname"]) for row in before):
        await connection.execute(f"DROP POLICY {name} ON events")
    await connection.execute("ALTER TABLE events NO FORCE ROW LEVEL SECURITY")
    kept_oids = "SELECT oid FROM pg_policy WHERE polrelid = 'sessions'::regclass ORDER BY 1"
    others = await connection.fetch(kept_oids)
    async with Database(database_url) as database:  # the setting may be left out from then on
        await database.upgrade()
    after = await connection.fetch(policies)
    assert [row["polname"] for row in after] == [row["polname"] for row in before]
    assert await connection.fetch(kept_oids) == others
    async with Database(roles.url("work"), settings=GUARDED) as database:
        with adkpg.every_scope():
            await DatabaseSessionService(database).list_sessions(app_name=APP)
