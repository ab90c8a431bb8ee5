"""The hot statements use their indexes at size, and appends stay HOT."""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.erasure import statements as erasure_statements
from adkpg.sessions import invocation_statements as invocations
from adkpg.sessions import life_statements as life
from adkpg.sessions import reading_statements, statements
from adkpg.tables import DISTRIBUTED
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER
from tests.fakes.locks import until_connections
from tests.fakes.queries import statement_of

pytestmark = pytest.mark.plan

# 20 users with 100 sessions of 10 events each, and the states of 2,000 apps and users.
_LOAD = """
INSERT INTO adkpg.sessions (app_name, user_id, session_id, revision, created_at, updated_at,
                            settled_at)
SELECT 'app', 'user ' || u, 'session ' || s, 10, now() - s * interval '1 hour', now(),
       CASE WHEN s > 7 THEN now() END
FROM generate_series(1, 20) u, generate_series(1, 100) s;
INSERT INTO adkpg.events (app_name, user_id, session_id, seq, event_id, timestamp, payload)
SELECT app_name, user_id, session_id, n, gen_random_uuid(), now() - n * interval '1 minute',
       json_build_object('author', 'a', 'text', repeat('word ', 40))
FROM adkpg.sessions, generate_series(1, 10) n;
INSERT INTO adkpg.user_states (app_name, user_id, state)
SELECT 'app', 'user ' || n, '{"k": 1}' FROM generate_series(1, 2000) n;
INSERT INTO adkpg.app_states (app_name, state)
SELECT 'app ' || n, '{"k": 1}' FROM generate_series(1, 2000) n;
INSERT INTO adkpg.memory_tombstones (app_name, user_id, session_id, event_id)
SELECT app_name, user_id, session_id, event_id FROM adkpg.events WHERE seq <= 3;
INSERT INTO adkpg.invocation_waiters (app_name, user_id, session_id, holder)
SELECT app_name, user_id, session_id, gen_random_uuid() FROM adkpg.sessions, generate_series(1, 3);
INSERT INTO adkpg.invocation_results
  (app_name, user_id, session_id, idempotency_key, holder, result, expires_at)
SELECT app_name, user_id, session_id, 'key ' || n, gen_random_uuid(), 'null',
       now() + n * interval '1 hour'
FROM adkpg.sessions, generate_series(1, 10) n;
VACUUM ANALYZE;
"""

_TIME = datetime(2026, 1, 2, tzinfo=UTC)
_PARAMETERS: dict[str, Any] = {
    "app_name": "app",
    "user_id": "user 7",
    "session_id": "session 7",
    "event_id": "new",
    "after": _TIME,
    "limit": 20,
    "most_bytes": 64_000_000,
    "after_seq": 5,
    "after_time": _TIME,
    "after_user_id": "user 7",
    "after_session_id": "session 7",
    "incarnation": "00000000-0000-0000-0000-000000000000",
    "revision": 10,
    "next_seq": 5,
    "revision_token": "00000000-0000-0000-0000-000000000001",
    "last_event_id": "new",
    "count": 10,
    "holder": "00000000-0000-0000-0000-000000000000",
    "key": "key 7",
    "lease_s": 30.0,
    "unrenewed": None,
    "ttl_s": 30.0,
    "result": "null",
    "patterns": ["%word%"],
    "before": _TIME,
    "last_time": _TIME,
    "last_session_id": "session 7",
    "last_seq": 5,
}
_FIRST: dict[str, Any] = {**_PARAMETERS, **dict.fromkeys(("after", "key", "after_time"))}
_FIRST |= dict.fromkeys(("after_user_id", "after_session_id"))
"""Of a call that leaves out what it may."""
_SESSION, _EVENT = "sessions_pkey", "events_event_id_key"
_WAITERS, _RESULTS = "invocation_waiters_pkey", "invocation_results_pkey"

HOT: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "begin an invocation": (invocations.begin, {_SESSION, _WAITERS, _RESULTS}),
    "renew an invocation": (invocations.renew, {_SESSION}),
    "end an invocation": (invocations.end, {_SESSION, _WAITERS, _RESULTS}),
    "head": (statements.select_head, {_SESSION, _EVENT, "events_pkey"}),
    "get": (
        reading_statements.select_session,
        {_SESSION, "events_pkey", "app_states_pkey", "user_states_pkey"},
    ),
    "get a window": (
        reading_statements.select_recent_session,
        {_SESSION, "events_pkey", "app_states_pkey", "user_states_pkey"},
    ),
    "get again": (
        reading_statements.select_session_again,
        {_SESSION, "events_pkey", "app_states_pkey", "user_states_pkey"},
    ),
    "get a long one": (reading_statements.select_further_events, {_SESSION, "events_pkey"}),
    "list a user's": (
        reading_statements.list_sessions,
        {"sessions_active_idx", "sessions_settled_at_idx"},
    ),
    "page an app's": (
        reading_statements.list_newest_sessions_of_app,
        {"sessions_created_at_idx", _SESSION},
    ),
    "page events": (reading_statements.list_events_page, {"events_pkey"}),
    "find in a session": (life.find_events_of_session, {"events_pkey", _SESSION}),
    "user state": (reading_statements.select_user_state, {"user_states_pkey"}),
    "delete": (erasure_statements.delete_session, {_SESSION}),
}


@pytest.fixture
async def loaded(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    for statement in _LOAD.strip().removesuffix(";").split(";"):
        await connection.execute(statement)
    yield connection
    await connection.close()


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


async def _plan(
    connection: asyncpg.Connection,
    database: Database,
    function: Callable[..., Any],
    parameters: dict[str, Any] = _PARAMETERS,
) -> list[dict[str, Any]]:
    statement = statement_of(function)
    answer = await connection.fetchval(
        f"EXPLAIN (FORMAT JSON) {statement.text(database.schema)}",
        *statement.arguments(parameters),
    )
    return list(_nodes(json.loads(answer)[0]["Plan"]))


async def _general_plan(
    connection: asyncpg.Connection, database: Database, function: Callable[..., Any]
) -> list[dict[str, Any]]:
    statement = statement_of(function)
    await connection.execute(f"PREPARE asked AS {statement.text(database.schema)}")
    given = ", ".join(["NULL"] * len(statement.names))
    answer = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked({given})")
    await connection.execute("DEALLOCATE asked")
    return list(_nodes(json.loads(answer)[0]["Plan"]))


async def test_hot_statements_use_their_indexes(
    loaded: asyncpg.Connection, database: Database
) -> None:
    await loaded.execute("SET plan_cache_mode = force_generic_plan")
    for name, (function, indexes) in HOT.items():
        for nodes, without in (
            (await _plan(loaded, database, function), set()),
            (await _plan(loaded, database, function, _FIRST), {_RESULTS}),
            (await _general_plan(loaded, database, function), set()),
        ):
            scanned = [node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"]
            assert scanned == [], name
            used = {node["Index Name"] for node in nodes if "Index Name" in node}
            assert indexes - without <= used, name


@pytest.mark.parametrize("name", ["get", "head"])
async def test_no_session_is_read_for_a_revision_before_a_first_analyze(
    connection: asyncpg.Connection, database: Database, name: str
) -> None:
    service = DatabaseSessionService(database)
    session = await service.create_session(**USER)
    for number in range(20):
        await service.append_event(session, said(f"{number}"))
    nodes = await _plan(connection, database, HOT[name][0])
    of_ids = [node["Index Cond"] for node in nodes if node.get("Index Name") == _EVENT]
    assert all("event_id" in condition for condition in of_ids)
    assert any(node.get("Index Name") == "events_pkey" for node in nodes)


@pytest.mark.usefixtures("loaded")
@pytest.mark.direct("sets what its server process logs")
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_functions_use_their_indexes(database_url: str, mode: str) -> None:
    plans: list[str] = []
    place: dict[str, Any] = {"app_name": "app", "user_id": "user 7"}
    async with Database(database_url, pool_size=1, max_overflow=0) as database:
        sessions = DatabaseSessionService(database, remember=True, on_conflict="merge")
        memory = PgVectorMemoryService(database, mode="text")
        async with (await database.engine()).connect() as pooled:
            driver: Any = (await pooled.get_raw_connection()).driver_connection
            await driver.execute(
                "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
                "SET auto_explain.log_nested_statements = on;"
                f"SET client_min_messages = log; SET plan_cache_mode = {mode}"
            )
            driver.add_log_listener(lambda _, message: plans.append(message.message))
        delta = {"own": 1, "user:a": 1, "app:a": 1}
        session = await sessions.create_session(**place, session_id="new", state=delta)
        for number in range(2):
            event = said(f"said {number}", state=delta)
            await sessions.append_event(session, event)
            await memory.add_events_to_memory(
                app_name="app", user_id="user 7", session_id="none", events=[event]
            )
        await memory.add_session_to_memory(session)
        await sessions.update_state(**place, state_delta={"user:a": 2})
        plain = DatabaseSessionService(database)
        session = await plain.create_session(**place, session_id="plain")
        before = len(plans)
        for number in range(2):
            await plain.append_event(session, said(f"said {number}"))
    alone = "\n".join(plans[before:])
    assert (alone.count("Update on sessions"), alone.count("on events e ")) == (2, 0)
    text = "\n".join(plans)
    for name in set(DISTRIBUTED) - {"at_part_1"}:
        assert f"SELECT adkpg.{name.removesuffix('_1')}" in text
    empty = {"memories", "memory_lexemes", "memory_jobs", "app_settings", "adkpg_version"}
    scanned = {each for each in re.findall(r"Seq Scan on (\w+)", text) if each[:3] != "pg_"}
    assert scanned <= empty
    if mode == "force_generic_plan":
        assert {_SESSION, "events_pkey"} <= set(re.findall(r"using (\w+)", text))


async def test_a_page_of_an_app_reads_no_more_than_the_page(
    loaded: asyncpg.Connection, database: Database
) -> None:
    statement = statement_of(reading_statements.list_newest_sessions_of_app)
    answer = await loaded.fetchval(
        f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement.text(database.schema)}",
        *statement.arguments(_FIRST),
    )
    read = [
        node["Actual Rows"] * node["Actual Loops"]
        for node in _nodes(json.loads(answer)[0]["Plan"])
        if node.get("Index Name") == "sessions_created_at_idx"
    ]
    assert read == [20]


async def test_appends_and_invocations_are_hot(database_url: str) -> None:
    """Versions of 250 bytes and fewer than 32, which a page holds: pruning may be put off."""
    async with DatabaseSessionService(database_url) as service:
        session = await service.create_session(
            **USER, state={"a": 0, "user:a": 0, "app:a": 0}, ttl="3600s"
        )
        for run in range(3):
            async with service.invocation(**USER, session_id=session.id):
                for number in range(4):
                    delta = dict.fromkeys(("a", "user:a", "app:a"), 4 * run + number)
                    await service.append_event(session, said("x", state=delta))
            await service.append_event(session, said("an event alone"))
    await until_connections(database_url, 0)  # a connection that ends has written its statistics
    connection = await asyncpg.connect(database_url)
    rows = await connection.fetch(
        "SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE n_tup_upd > 0"
        " AND schemaname = 'adkpg'"
    )
    await connection.close()
    found = {row["relname"]: (row["n_tup_upd"], row["n_tup_hot_upd"]) for row in rows}
    assert found == {"sessions": (21, 21), "app_states": (12, 12), "user_states": (12, 12)}


async def test_a_state_without_a_delta_is_not_rewritten(
    database: Database, database_url: str
) -> None:
    """A state of 1 MB lies out of line; appends that leave it alone do not write it again."""
    service = DatabaseSessionService(database)
    session = await service.create_session(
        **USER, state={"big": [str(number) for number in range(100_000)]}
    )
    connection = await asyncpg.connect(database_url)
    toast = (
        "SELECT pg_relation_size(reltoastrelid) FROM pg_class"
        " WHERE oid = 'adkpg.sessions'::regclass"
    )
    before = await connection.fetchval(toast)
    for _ in range(5):
        await service.append_event(session, said("x", state={"user:a": 1}))
    assert before > 0
    assert await connection.fetchval(toast) == before
    await connection.close()
