"""Writes that a person waits for go to the node of their user as one command each."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from google.adk.sessions.base_session_service import GetSessionConfig

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings, Users
from adkpg.database.row_security import quoted
from adkpg.erasure.retention import prune_sessions
from adkpg.erasure.retention_statements import end_over
from adkpg.errors import Busy
from adkpg.memory.search.options import MODES
from adkpg.rules import BY_TABLE
from adkpg.sessions import statements
from adkpg.telemetry import calls
from adkpg.tooling.testing import said as turn
from tests.fakes import citus
from tests.fakes.citus import home_of
from tests.fakes.conversation import USER, conversation, entry, said
from tests.fakes.locks import locked
from tests.fakes.roles import Roles
from tests.fakes.toys import ToyEmbedder

pytestmark = pytest.mark.cluster


async def _heard(database: Database) -> list[str]:
    """Returns what its only connection will say, the commands to other nodes in it."""
    heard: list[str] = []
    async with (await database.engine()).connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        driver.add_log_listener(lambda _, message: heard.append(str(message)))
        await driver.execute("SET client_min_messages = notice")
        await driver.execute("SET citus.log_remote_commands = on")
    return heard


async def test_an_append_is_one_command_to_one_node(
    database: Database, connection: asyncpg.Connection
) -> None:
    session = await DatabaseSessionService(database).create_session(**USER)
    row = await connection.fetchrow("SELECT incarnation::text FROM adkpg.sessions")
    assert row is not None
    given: Any = {
        **USER,
        "session_id": session.id,
        "event_id": "e",
        "timestamp": datetime.now(UTC),
        "payload": "{}",
        "session_delta": None,
        "app_delta": None,
        "user_delta": '{"tea": 1}',
        "state_limit": 1_000_000,
        "writer_limit": 1_000_000,
        "incarnation": row["incarnation"],
        "revision": 0,
        "revision_token": None,
        "token": str(uuid4()),
        "merge": False,
        "holder": None,
    }
    append, parameters = statements.append_event(**given)
    heard: list[str] = []
    connection.add_log_listener(lambda _, message: heard.append(str(message)))
    await connection.execute("SET client_min_messages = notice")
    await connection.execute("SET citus.log_remote_commands = on")
    seq = await connection.fetchval(append.text("adkpg"), *append.arguments(parameters))
    assert seq == 1
    commands = [each for each in heard if re.search(r"issuing SELECT .*append_event_1", each)]
    others = [each for each in heard if "adkpg." in each and each not in commands]
    assert (len(commands), others) == (1, []), heard


@pytest.mark.parametrize("user_id", ["user", 'it\'s "another"'])
async def test_a_write_for_users_keeps_their_parts_where_they_are(
    database: Database, nodes: list[str], user_id: str
) -> None:
    """Whatever moves a part waits for this lock of Citus, of its class 8."""
    home = await home_of(nodes[0], user_id.replace("'", "''"))
    given = [{"app_name": "app", "user_id": user_id, "session_id": "s"}]
    held = (
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 8 AND granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    async with database.run.transaction() as transaction:
        await transaction.fetch(end_over(BY_TABLE["sessions"], given))
        assert (await citus.said(home, held))[0][0] > 0
    assert (await citus.said(home, held))[0][0] == 0


async def test_an_append_with_a_delta_of_the_app_stays_on_the_node_that_is_asked(
    database_url: str, database: Database
) -> None:
    """It writes on all nodes, in one transaction that the node commits."""
    session = await DatabaseSessionService(database).create_session(**USER)
    async with Database(database_url, pool_size=1, max_overflow=0) as coordinator:
        heard = await _heard(coordinator)
        await DatabaseSessionService(coordinator).append_event(
            session, turn("tea", state={"app:tea": 1})
        )
    assert any("PREPARE TRANSACTION" in each for each in heard)
    assert not any("append_event_1" in each for each in heard)


@pytest.mark.parametrize("through", ["the coordinator", "another node"])
async def test_each_call_that_a_person_waits_for_is_one_command_between_nodes(
    database: Database, nodes: list[str], through: str
) -> None:
    """As services make them, through a node that has not the person."""
    home = await home_of(nodes[0], USER["user_id"])
    others = [url for url in nodes if url != home]
    url = others[0] if through == "the coordinator" else others[-1]
    sessions = DatabaseSessionService(database)
    await sessions.create_session(**USER, session_id="s")
    async with Database(url, pool_size=1, max_overflow=0) as one:
        heard = await _heard(one)
        service = DatabaseSessionService(one)
        remembering = DatabaseSessionService(one, remember=True)
        memory = PgVectorMemoryService(one, mode="text", app_wide=False)
        session = await service.get_session(**USER, session_id="s")
        assert session is not None
        made: dict[str, Callable[[], Awaitable[Any]]] = {
            "create": lambda: service.create_session(**USER),
            "append": lambda: service.append_event(session, turn("tea", state={"user:x": 1})),
            "remember": lambda: remembering.append_event(session, turn("I like plums")),
            "get": lambda: service.get_session(**USER, session_id="s"),
            "list": lambda: service.list_sessions(**USER),
            "page": lambda: service.list_sessions_page(**USER),
            "recent": lambda: service.get_session(
                **USER, session_id="s", config=GetSessionConfig(num_recent_events=1)
            ),
            "state": lambda: service.update_state(**USER, state_delta={"user:y": 2}),
            "ingest": lambda: memory.add_session_to_memory(conversation("I like pears")),
            "search": lambda: memory.search(**USER, query="plums"),
            "memories": lambda: memory.list_memories(**USER),
        }
        commands: dict[str, list[str]] = {}
        for name, call in made.items():
            heard.clear()
            await call()
            commands[name] = [each for each in heard if "issuing" in each]
    asked = {name: len(each) for name, each in commands.items()}
    assert asked == dict.fromkeys(made, 1) | {"search": 2}, commands


async def test_a_search_asks_the_users_node_once_and_the_apps_once(
    database: Database, database_url: str
) -> None:
    """For evidence, whatever is found: by each way, and near-duplicates, in further rounds."""
    stored = PgVectorMemoryService(database, embedder=ToyEmbedder())
    same = [entry("a kitten", f"same {number}") for number in range(20)]
    other = [entry(f"a kitten and tea {number}", f"other {number}") for number in range(12)]
    await stored.add_memory(**USER, memories=[*same, *other])
    await stored.add_memory(app_name="app", user_id=None, memories=[entry("a cat", "of the app")])
    async with Database(database_url, pool_size=1, max_overflow=0) as coordinator:
        heard = await _heard(coordinator)
        memory = PgVectorMemoryService(coordinator, embedder=ToyEmbedder())
        for mode in MODES:
            for neighbours in (0, 1):
                asked: Any = {**USER, "mode": mode, "neighbours": neighbours}
                heard.clear()
                hits = await memory.search(**asked, query="a kitten", top_k=12)
                commands = [each for each in heard if "issuing" in each]
                assert len(hits) == 12, "near-duplicates are one hit"
                evidence = [each for each in commands if "rated AS MATERIALIZED" in each]
                assert len(evidence) == 2, (mode, neighbours, commands)
                # Near-duplicates are read until there are enough others, and then neighbours.
                assert len(commands) - len(evidence) <= 2 * (2 + neighbours), commands


async def test_an_ingest_through_any_node_waits_on_the_node_of_its_user_for_who_forgets_them(
    database: Database, nodes: list[str]
) -> None:
    home = await home_of(nodes[0], USER["user_id"])
    person = "hashtextextended(jsonb_build_array('app', 'user')::text, 0)"
    for number, url in enumerate(nodes):
        forgetting = locked(home, f"SELECT pg_advisory_xact_lock({person})")
        async with forgetting as lock, Database(url) as one:
            memory = PgVectorMemoryService(one, mode="text")
            session = conversation(f"I like {number} pears", session_id=f"s{number}")
            ingest = asyncio.create_task(memory.add_session_to_memory(session))
            await lock.until_blocked(1)
            assert not ingest.done()
            await lock.release()
            await ingest
    assert await PgVectorMemoryService(database).count_memories(**USER) == len(nodes)


async def _write_in_poisoned(url: str, settings: Settings) -> None:
    """Makes calls on a connection whose server process sends no function on any more."""
    async with Database(url, settings=settings, pool_size=1, max_overflow=0) as database:
        await database.check()
        async with (await database.engine()).connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            with pytest.raises(asyncpg.FeatureNotSupportedError):
                await driver.fetch(_REFUSED)
        await _calls(database)


_REFUSED = (
    "WITH made AS (INSERT INTO adkpg.user_states (app_name, user_id, state)"
    " VALUES ('other', 'other', '{}') RETURNING app_name),"
    " held AS (SELECT m.position FROM adkpg.memories AS m WHERE m.app_name = 'app' FOR UPDATE)"
    " SELECT count(*) FROM made, held"
)
"""What Citus refuses while it plans a step of it."""


async def _calls(database: Database) -> None:
    """Makes calls whose statements Citus would run step by step."""
    service = DatabaseSessionService(database)
    memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
    session = await service.create_session(**USER)
    async with service.invocation(**USER, session_id=session.id, key="k") as run:
        run.finish("done")
    await memory.add_memory(**USER, memories=[entry("a kitten", "m")])
    await memory.update_memory(**USER, memory_id="m", text="a puppy")
    (hit,) = await memory.search(**USER, query="dog", mode="vector")
    assert hit.memory.id == "m"
    await memory.delete_memory(**USER, memory_id="m")


@pytest.fixture
async def as_another(database_url: str, database: Database) -> AsyncIterator[Roles]:
    """Whoever logs in as ``login`` works in the name of ``serve``, which has the rights."""
    roles = Roles(database_url)
    await roles.create("serve", "login")
    await roles.grant("serve")
    serve, login = quoted(roles.name("serve")), quoted(roles.name("login"))
    await roles.execute([f"GRANT {serve} TO {login}", f"ALTER ROLE {login} SET role = {serve}"])
    yield roles
    await roles.drop()


async def test_a_role_that_was_set_writes_where_no_function_is_sent_on(
    database: Database, nodes: list[str], as_another: Roles
) -> None:
    """It may not end the process of the one that logged in."""
    login, _, _ = as_another.url("login").partition("@")
    for number, url in enumerate(nodes, start=1):
        await _write_in_poisoned(f"{login}@{url.partition('@')[2]}", Settings())
        listed = await DatabaseSessionService(database).list_sessions(**USER)
        assert len(listed.sessions) == number


@pytest.mark.parametrize("application_name", ["adkpg", "citus agents"])
async def test_a_server_process_that_sends_no_function_on_writes_all_the_same(
    nodes: list[str], monkeypatch: pytest.MonkeyPatch, application_name: str
) -> None:
    """Citus forgets that it plans no step any more; a pooler gives that process to others.

    It ends then, so that this costs one repetition.
    """
    repeated: list[None] = []
    monkeypatch.setattr(calls, "retried", lambda: repeated.append(None))
    for url in nodes:
        repeated.clear()
        await _write_in_poisoned(url, Settings(application_name=application_name))
        assert len(repeated) <= 1


async def test_it_writes_in_read_committed_whatever_is_the_default(
    database: Database, nodes: list[str]
) -> None:
    """Else it would not see that a part has moved for which it waited."""
    name = nodes[0].rpartition("/")[2]
    for url in nodes:
        await citus.said(
            url, f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
        )
    for url in nodes:
        async with Database(url) as strict:
            await _calls(strict)


@pytest.mark.race
async def test_apps_do_not_wait_for_each_others_state(database: Database, nodes: list[str]) -> None:
    """Though each node has a copy of all apps' states."""
    service = DatabaseSessionService(database)
    one, other = [
        await service.create_session(app_name=app, user_id="u", state={"app:count": 0})
        for app in ("one", "other")
    ]
    change = {"app:count": 1}
    merge = "SELECT merge_app_state_1('one', '', '{}', 1000000, 1000000)"
    held = f"SET LOCAL search_path = adkpg; {merge}"
    for url in nodes:
        async with locked(url, held) as lock:
            await service.append_event(other, turn("tea", state=change))
            waits = asyncio.create_task(service.append_event(one, turn("tea", state=change)))
            await lock.until_blocked(1)
            await lock.release()
            await waits
    for url in nodes:
        states = await citus.said(url, "SELECT app_name, state::text FROM adkpg.app_states")
        assert {tuple(row) for row in states} == {
            ("one", '{"count": 1}'),
            ("other", '{"count": 1}'),
        }


async def test_sessions_states_and_memories_are_written(database: Database) -> None:
    service = DatabaseSessionService(database)
    memory = PgVectorMemoryService(database, mode="text")
    state = {"own": 1, "user:tea": "green", "app:limit": 1}
    session = await service.create_session(**USER, state=state)
    await service.append_event(session, said("tea"))
    later = {"app:limit": 2, "user:tea": "black"}
    assert await service.update_state(**USER, state_delta=later) == later
    assert await service.update_state(**USER, state_delta={"user:cups": 3}) == {
        "user:tea": "black",
        "user:cups": 3,
    }
    found = await service.get_session(**USER, session_id=session.id)
    assert found is not None
    assert dict(found.state) == {"own": 1, **later, "user:cups": 3}
    assert len(found.events) == 1
    turns = conversation("coffee", "milk")
    await memory.add_session_to_memory(turns)
    turns.events.append(said("sugar", "new"))
    await memory.add_session_to_memory(turns)
    await memory.add_session_to_memory(turns)
    assert await memory.count_memories(**USER) == 3


async def test_who_deletes_for_several_is_not_told_that_nothing_was_written(
    database_url: str, database: Database
) -> None:
    """Each user's rows are deleted by a command of their own: one may be refused after others."""
    service = DatabaseSessionService(database)
    for user_id in ("a", "b"):
        await service.create_session(app_name="app", user_id=user_id)
    await citus.said(database_url, f"SELECT result FROM run_command_on_all_nodes($q${_BUSY}$q$)")
    await citus.said(
        database_url,
        "SELECT result FROM run_command_on_shards('adkpg.sessions', $$CREATE TRIGGER busy BEFORE"
        " DELETE ON %s FOR EACH ROW WHEN (OLD.user_id = 'b') EXECUTE FUNCTION adkpg.busy()$$)",
    )
    hasty = Settings(retry_timeout_s=0)
    async with Database(database_url, settings=hasty) as other:
        with pytest.raises(Busy, match="some users' rows may be written") as caught:
            await prune_sessions(other, app_name=None, user_id=Users.ALL, older_than=timedelta())
    assert caught.value.written is None
    left = await citus.said(database_url, "SELECT user_id FROM adkpg.sessions")
    assert [row["user_id"] for row in left] == ["b"]


_BUSY = (
    "CREATE OR REPLACE FUNCTION adkpg.busy() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN"
    " RAISE lock_not_available; END $f$"
)
