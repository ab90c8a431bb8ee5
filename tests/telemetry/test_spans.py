"""One span for each public call, whatever becomes of it, and nobody's words in it."""

import asyncio
import importlib
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from a2a.utils.errors import InternalError
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from opentelemetry.trace import SpanKind, StatusCode

from adkpg import (
    Database,
    DatabaseSessionService,
    PgVectorMemoryService,
    Settings,
)
from adkpg.artifacts import sweep_objects
from adkpg.errors import AdkpgError, SessionExists, StaleSession
from adkpg.telemetry.calls import is_traced
from adkpg.tooling.evaluation import SavedQuestions, evaluate_apart, evaluate_stored, parsed
from adkpg.tooling.operations import examine, report
from adkpg.tooling.transfer import export, export_to_adk, import_from
from tests.fakes.checkout import CHECKOUT
from tests.fakes.conversation import USER, entry, said
from tests.fakes.front_door import PACKAGES
from tests.fakes.proxy import Proxy
from tests.fakes.public_calls import APP, CALLS, EVERYBODYS, Person, Services, furnish
from tests.fakes.telemetry import Watched
from tests.fakes.toys import ToyEmbedder

ADA = Person("ada")
IMPATIENT = Settings(retry_timeout_s=0)

UNTRACED = {
    "Audit.recording": "lasts as long as the caller's block; the calls within have their spans",
    "DatabaseSessionService.watch_session": "lasts as long as somebody watches",
    "DatabaseSessionService.invocation": "lasts as long as the caller's block, a run of an agent",
    "PgVectorMemoryService.run_worker": "lasts as long as the process",
    "PgVectorMemoryService.warm": "loads the embedder; asks no database",
    "preloaded": "asks the memory service, whose call has a span",
}
CLASSES = {
    "Database": "runs what the services give it: the spans are theirs, and its migrations' none",
    "InMemoryVectorMemoryService": "for tests and notebooks; asks no database",
    "MemoryPlugin": "ADK's plugin: it calls the memory service, whose calls have spans",
}
"""Classes without spans of their own, and why."""
ELSEWHERE = {
    "adkpg.embedding": "a model's; a span of the call that asks it",
    "adkpg.reranking": "a model's",
    "adkpg.tooling.testing": "for tests",
    "adkpg.tools": "ADK traces its tools",
}
"""Packages whose calls are not on the database by themselves, and why."""
MODELS = ("FactExtractor", "MemoryExtractor", "Summarizer")


async def _exported(services: Services) -> list[str]:
    return [line async for line in export(services.database, app_name=APP)]


async def _imported(services: Services) -> object:
    elsewhere = InMemorySessionService()
    await elsewhere.create_session(app_name=APP, user_id="eve")
    return await import_from(services.database, source=elsewhere, app_name=APP)


def _saved(services: Services) -> SavedQuestions:
    return SavedQuestions(services.database)


OPERATORS: dict[str, Callable[[Services], Awaitable[object]]] = {
    "SavedQuestions.add": lambda s: _saved(s).add(
        app_name=APP, user_id="ada", text="what is the secret?", evidence=[ADA.memory_id]
    ),
    "SavedQuestions.list": lambda s: _saved(s).list(app_name=APP, user_id="ada"),
    "SavedQuestions.delete": lambda s: _saved(s).delete(
        app_name=APP, user_id="ada", question_id=str(UUID(int=1))
    ),
    "evaluate_stored": lambda s: evaluate_stored(
        parsed([{"q": "what is the secret?", "evidence": [ADA.memory_id]}]),
        memory=s.memory,
        app_name=APP,
        user_id="ada",
    ),
    "export": _exported,
    "import_from": _imported,
    **EVERYBODYS,
    "examine": lambda s: examine(s.database),
    "PgVectorMemoryService.index_large_scopes": lambda s: s.memory.index_large_scopes(),
    "Models.add": lambda s: s.models.add("further", dimensions=3),
    "Models.index": lambda s: s.models.index("further"),
}
"""Calls about everybody, and those of who owns the tables."""
INHERITED = ("close", "flush")  # ADK's own, and closing connections
ALONE = ("evaluate_apart", "export_to_adk", "sweep_objects")
"""Calls that have tests of their own here: they are not on the database of the others."""


def public_coroutines() -> Iterator[tuple[str, Any]]:
    for package in sorted({*PACKAGES} - set(ELSEWHERE)):
        module = importlib.import_module(package)
        for name in module.__all__:
            found = getattr(module, name)
            if _calls(found):
                yield name, found
            elif inspect.isclass(found) and name not in (*CLASSES, *MODELS):
                for method, function in inspect.getmembers(found, inspect.isfunction):
                    if method.startswith("_") or not str(function.__module__).startswith("adkpg"):
                        continue
                    if _calls(function):
                        yield f"{name}.{method}", function


def _calls(function: object) -> bool:
    """Whether it is awaited, or yields as it is read; not whether it is a block."""
    if not inspect.isfunction(function):
        return False
    made = inspect.unwrap(function)
    return inspect.iscoroutinefunction(made) or (
        inspect.isasyncgenfunction(made) and (made is function or is_traced(function))
    )


def test_each_public_call_is_traced_or_says_why_not() -> None:
    found = dict(public_coroutines())
    assert len(found) > 60
    bare = {
        name
        for name, function in found.items()
        if not is_traced(function)
        and not (name.endswith(INHERITED) and not name.startswith("PgVectorMemoryService.flush"))
    }
    assert {name for name in bare if found[name].__qualname__ not in UNTRACED} == set()
    made = {*CALLS, *OPERATORS}
    of = {found[name].__qualname__ for name in found.keys() - bare if is_traced(found[name])}
    assert {name for name in of - made if not name.startswith(ALONE)} == set()


@pytest.fixture
async def furnished(
    database: Database, connection: asyncpg.Connection, watched: Watched
) -> Services:
    services = Services.on(database)
    await furnish(services, connection, ADA, Person("bob"))
    watched.clear()
    return services


async def test_each_call_makes_one_span(furnished: Services, watched: Watched) -> None:
    mine = {"app_name": APP, "user_id": "ada"}
    several = {}
    for name, call in CALLS.items():
        if name in UNTRACED:
            continue
        watched.clear()
        with suppress(AdkpgError):
            await call(furnished, mine, ADA)
        if len(watched.calls) != 1:
            several[name] = [span.name for span in watched.calls]
        for span in watched.all:
            told = json.dumps(dict(span.attributes or {})).replace(ADA.session_id, "")
            told = told.replace(ADA.memory_id, "")
            assert ADA.secret not in told, name
            assert '"ada"' not in told, name
            assert span.events == (), name
    assert several == {}
    for name, operators in OPERATORS.items():
        watched.clear()
        await operators(furnished)
        assert len(watched.calls) == 1, name


async def test_calls_on_other_databases_make_one_span_each(
    database: Database, database_url: str, watched: Watched, tmp_path: Path
) -> None:
    said = {"id": "m", "author": "user", "text": "a kitten sleeps"}
    asked = {"question": "who sleeps?", "evidence": ["m"]}
    pets = {"name": "pets", "sessions": [{"id": "s", "turns": [said]}], "questions": [asked]}
    data = parsed([pets])
    for name, call in {
        "evaluate_apart": evaluate_apart(data, server_url=database_url, modes=["text"]),
        "export_to_adk": export_to_adk(database, url=f"sqlite:///{tmp_path}/adk.db", app_name=APP),
        "sweep_objects": sweep_objects(database),
    }.items():
        watched.clear()
        await call
        (span,) = watched.calls
        assert (span.attributes or {})["db.operation.name"] == name


async def test_an_export_is_one_span_and_what_its_reader_does_is_none_of_it(
    database: Database, sessions: DatabaseSessionService, watched: Watched
) -> None:
    await sessions.create_session(**USER, session_id="s")
    watched.clear()
    async with aclosing(export(database, app_name="app")) as lines:
        await anext(lines)
        await anext(lines)
        await sessions.get_session(**USER, session_id="s")
        (own,) = [span for span in watched.all if span.parent is None]
        assert own.name == "get_session events"
    (_, exported) = watched.calls
    assert exported.name == "export"
    assert exported.status.status_code is StatusCode.UNSET, "it was left, which is no error"
    assert "postgresql" in watched.children(exported)


async def test_a_session_is_a_database_span(
    sessions: DatabaseSessionService, watched: Watched
) -> None:
    session = await sessions.create_session(**USER, session_id="s")
    await sessions.append_event(session, said("my secret"))
    created, appended = watched.calls
    assert (created.name, appended.name) == ("create_session sessions", "append_event events")
    assert created.kind == appended.kind == SpanKind.CLIENT
    assert appended.attributes is not None
    assert appended.attributes["db.system.name"] == "postgresql"
    assert appended.attributes["gen_ai.conversation.id"] == "s"
    assert "server.address" in appended.attributes
    assert str(appended.attributes["db.namespace"]).endswith("|adkpg")
    assert watched.children(appended) == ["postgresql"]
    assert "my secret" not in "".join(span.to_json() for span in watched.all)


async def test_memory_is_named_by_the_conventions(
    memory: PgVectorMemoryService, sessions: DatabaseSessionService, watched: Watched
) -> None:
    await memory.add_memory(**USER, memories=[entry("a kitten sleeps", "m"), entry("tea", "n")])
    await memory.search(**USER, query="kitten")
    await memory.search_memory(**USER, query="kitten")
    await memory.update_memory(**USER, memory_id="m", text="a cat")
    session = await sessions.create_session(**USER, session_id="s")
    await sessions.append_event(session, said("one"))
    await sessions.append_event(session, said("two"))
    await memory.add_session_to_memory(session)
    await memory.delete_memory(**USER, memory_id="m")
    found = [span for span in watched.calls if "gen_ai.operation.name" in (span.attributes or {})]
    assert [span.name for span in found] == [
        "create_memory",
        "search_memory",
        "search_memory",
        "update_memory",
        "upsert_memory",
        "delete_memory",
    ]
    by = [dict(span.attributes or {}) for span in found]
    assert {each["gen_ai.memory.store.id"] for each in by} == {"app"}
    assert [each.get("gen_ai.memory.record.count") for each in by] == [2, 1, 1, 1, 2, 1]
    assert (by[3]["gen_ai.memory.record.id"], by[4]["gen_ai.conversation.id"]) == ("m", "s")
    assert "embeddings toy" in watched.children(found[0])
    assert "embeddings toy" in watched.children(found[1])
    assert "postgresql" in watched.children(found[1])
    assert not any("query.text" in name or name.endswith("records") for each in by for name in each)


async def test_questions_and_memories_are_shown_to_who_asks_for_them(
    memory: PgVectorMemoryService, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    await memory.add_memory(**USER, memories=[entry("a kitten sleeps", "m")])
    await memory.search(**USER, query="kitten")
    attributes = dict(watched.calls[1].attributes or {})
    assert attributes["gen_ai.memory.query.text"] == "kitten"
    (record,) = json.loads(str(attributes["gen_ai.memory.records"]))
    assert (record["id"], record["content"]) == ("m", "a kitten sleeps")
    assert record["score"] > 0


async def test_what_is_stored_is_shown_to_who_asks_for_it(
    database: Database,
    sessions: DatabaseSessionService,
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")

    def shown() -> dict[str, Any]:
        (span,) = watched.calls
        watched.clear()
        attributes = dict(span.attributes or {})
        (record,) = json.loads(str(attributes["gen_ai.memory.records"]))
        assert attributes["gen_ai.memory.record.count"] == 1
        return {**record, "of": attributes.get("gen_ai.memory.record.id")}

    session = await sessions.create_session(**USER, session_id="s")
    await sessions.append_event(session, said("one \ud800"))
    watched.clear()
    stored = PgVectorMemoryService(database, mode="text")
    await stored.add_memory(**USER, memories=[entry("a kitten", "m")])
    assert shown() == {"content": "a kitten", "id": "m", "of": "m"}
    await stored.add_events_to_memory(**USER, events=[said("two")], session_id="t")
    assert shown() == {"content": "two", "of": None}
    await stored.add_session_to_memory(session)
    assert shown() == {"content": "one \ufffd", "of": None}
    await stored.update_memory(**USER, memory_id="m", text="a cat")
    assert shown() == {"content": "a cat", "id": "m", "of": "m"}
    await stored.update_memory(**USER, memory_id="nothing", text="a cat")
    (nothing,) = watched.calls
    assert dict(nothing.attributes or {})["gen_ai.memory.record.count"] == 0
    assert "a cat" not in nothing.to_json()


async def test_an_error_is_named_and_its_message_is_not(
    sessions: DatabaseSessionService, watched: Watched
) -> None:
    await sessions.create_session(**USER, session_id="s")
    watched.clear()
    with pytest.raises(SessionExists):
        await sessions.create_session(**USER, session_id="s")
    (span,) = watched.calls
    assert span.attributes is not None
    assert span.attributes["error.type"] == "SessionExists"
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert span.events == ()


async def test_each_call_that_is_cancelled_is_one_span_and_leaves_nothing(
    furnished: Services, proxy: Proxy, connection: asyncpg.Connection, watched: Watched
) -> None:
    """Each is cancelled in each of its round trips, while the server's answer is on its way."""
    mine = {"app_name": APP, "user_id": "ada"}
    wrong = {}
    async with Database(proxy.url) as database:
        through = Services.on(database, furnished.live)
        every: dict[str, Callable[[], Awaitable[object]]] = {
            **{name: partial(call, through, mine, ADA) for name, call in CALLS.items()},
            **{name: partial(call, through) for name, call in OPERATORS.items()},
        }
        for name, call in every.items():
            if name in UNTRACED:
                continue
            cancelled = 0
            while True:
                await through.models.list_models()  # so that there is a connection
                watched.clear()
                proxy.hold(cancelled + 1, "answer")
                calling = asyncio.ensure_future(call())
                held = asyncio.create_task(proxy.held.wait())
                await asyncio.wait((calling, held), return_when=asyncio.FIRST_COMPLETED)
                held.cancel()
                if calling.done():
                    proxy.release()
                    calling.exception()
                    break
                calling.cancel()
                proxy.release()
                with pytest.raises(asyncio.CancelledError):
                    await calling
                cancelled += 1
                errors = [(span.attributes or {}).get("error.type") for span in watched.calls]
                if errors != ["CancelledError"]:
                    wrong[f"{name}, in round trip {cancelled}"] = errors
                await _nothing_left(connection)
            assert cancelled, name
    assert wrong == {}


async def _nothing_left(connection: asyncpg.Connection) -> None:
    """Returns when nobody else has a transaction or a lock in this database."""
    async with asyncio.timeout(60):
        while await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity a WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND (state <> 'idle'"
            " OR EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid))"
        ):
            pass


async def test_each_call_that_fails_is_one_span(furnished: Services, watched: Watched) -> None:
    """Nobody listens where this database is said to be."""
    mine = {"app_name": APP, "user_id": "ada"}
    several = {}
    async with Database("postgresql://ada@127.0.0.1:1/away", settings=IMPATIENT) as database:
        away = Services.on(database, furnished.live)
        every: dict[str, Callable[[], Awaitable[object]]] = {
            **{name: partial(call, away, mine, ADA) for name, call in CALLS.items()},
            **{name: partial(call, away) for name, call in OPERATORS.items()},
        }
        for name, call in every.items():
            if name in UNTRACED:
                continue
            watched.clear()
            with pytest.raises((AdkpgError, InternalError)):  # the store of tasks has the sdk's
                await call()
            errors = [(span.attributes or {}).get("error.type") for span in watched.calls]
            if len(errors) != 1 or errors[0] is None:
                several[name] = errors
    assert several == {}


async def test_metrics_count_what_happened(
    sessions: DatabaseSessionService, memory: PgVectorMemoryService, watched: Watched
) -> None:
    def total(name: str) -> float:
        return sum(getattr(point, "value", None) or 0 for point in watched.points(name))

    def count(name: str) -> int:
        return sum(point.count for point in watched.points(name))

    names = ("adkpg.search.hits", "adkpg.search.top_cosine", "gen_ai.client.operation.duration")
    before = {name: count(name) for name in (*names, "db.client.operation.duration")}
    events, stale = total("adkpg.events"), total("adkpg.stale_appends")
    session = await sessions.create_session(**USER, session_id="s")
    other = session.model_copy(deep=True)
    await sessions.append_event(session, said("one"))
    with pytest.raises(StaleSession):
        await sessions.append_event(other, said("two"))
    await memory.add_memory(**USER, memories=[entry("a kitten")])
    await memory.search(**USER, query="kitten")
    assert (total("adkpg.events"), total("adkpg.stale_appends")) == (events + 1, stale + 1)
    assert {name: count(name) - before[name] for name in before} == {
        "adkpg.search.hits": 1,
        "adkpg.search.top_cosine": 1,
        "gen_ai.client.operation.duration": 2,
        "db.client.operation.duration": 3,
    }
    errors = [point.attributes for point in watched.points("db.client.operation.duration")]
    assert any(each.get("error.type") == "StaleSession" for each in errors)
    assert ToyEmbedder().model not in str(errors)


async def test_what_waits_and_the_pool_are_reported(
    database: Database, connection: asyncpg.Connection, watched: Watched
) -> None:
    words = PgVectorMemoryService(database, mode="text")
    await words.add_memory(**USER, memories=[entry("one"), entry("two"), entry("three")])
    await connection.execute("UPDATE memory_jobs SET created_at = now() - interval '1 hour'")
    await connection.execute(
        "UPDATE memory_jobs SET dead = true"
        " WHERE position = (SELECT min(position) FROM memory_jobs)"
    )
    await report(database)
    metrics = watched.metrics()

    def gauge(name: str, **labels: str) -> float:
        (point,) = (
            point
            for point in metrics[name]
            if set(labels.values()) <= set(point.attributes.values())
        )
        return float(point.value)

    assert gauge("adkpg.jobs.waiting", work="embed") == 2
    assert gauge("adkpg.jobs.dead", work="embed") == 1
    assert gauge("adkpg.jobs.oldest", work="embed") >= 3_600
    assert gauge("adkpg.jobs.waiting", work="extract") == 0
    place = str(database.place["server.address"])
    assert gauge("db.client.connection.count", pool=place, state="idle") == 1
    assert gauge("db.client.connection.count", pool=place, state="used") == 0
    assert gauge("db.client.connection.max", pool=place) == database.settings.pool_size


async def test_waiting_for_a_connection_is_measured(
    database_url: str, connection: asyncpg.Connection, watched: Watched
) -> None:
    """The pool's only connection is held by a call that waits for a lock of the test's."""
    place = "db.client.connection.wait_time"

    def waits() -> int:
        return sum(point.count for point in watched.points(place))

    one = Settings(pool_size=1)
    async with Database(database_url, settings=one) as database:
        sessions = DatabaseSessionService(database)
        await sessions.create_session(**USER, session_id="s")
        before = waits()
        async with connection.transaction():
            await connection.execute("SELECT FROM sessions FOR UPDATE")
            first = asyncio.create_task(sessions.delete_session(**USER, session_id="s"))
            while not await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND datname = current_database()"
            ):
                pass
            assert waits() == before + 1
            second = asyncio.create_task(sessions.list_sessions(**USER))
            await asyncio.sleep(0)
            await connection.fetchval("SELECT 1")
            assert waits() == before + 1
        await asyncio.gather(first, second)
    assert waits() >= before + 2
    (point,) = (
        point
        for point in watched.points(place)
        if point.attributes["db.client.connection.pool.name"] == database.place["server.address"]
    )
    assert point.sum > 0


async def test_a_repeated_call_is_one_span_and_counted(proxy: Proxy, watched: Watched) -> None:
    async with Database(proxy.url) as database:
        sessions = DatabaseSessionService(database)
        session = await sessions.create_session(**USER, session_id="s")
        watched.clear()
        before = sum(point.value for point in watched.points("adkpg.retries"))
        proxy.lose_answers = 1
        await sessions.append_event(session, said("one"))
        (span,) = watched.calls
        assert watched.children(span) == ["postgresql", "postgresql"]
        assert sum(point.value for point in watched.points("adkpg.retries")) == before + 1


def test_the_page_names_every_call() -> None:
    page = (CHECKOUT / "docs" / "telemetry.md").read_text(encoding="utf-8")
    names = {name.rpartition(".")[2] for name, found in public_coroutines() if is_traced(found)}
    assert {name for name in names if f"`{name}`" not in page} == set()
    for metric in (
        "gen_ai.client.operation.duration",
        "db.client.operation.duration",
        *("adkpg.search.hits", "adkpg.search.top_cosine", "adkpg.events", "adkpg.stale_appends"),
        *("adkpg.retries", "adkpg.jobs.waiting", "adkpg.jobs.oldest", "adkpg.jobs.dead"),
        *("db.client.connection.count", "db.client.connection.max"),
        "db.client.connection.wait_time",
    ):
        assert f"`{metric}`" in page
