"""Every public call of the services, as one user makes it about something of one user."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType
from typing import Any, NamedTuple

import asyncpg
from a2a.server.cluster import ConcurrentTaskModificationError, TaskVersion
from a2a.server.context import ServerCallContext
from a2a.types import ListTasksRequest, Message, Task
from google.adk.sessions.session import Session
from google.genai import types

import adkpg.a2a
import adkpg.artifacts
import adkpg.audit
import adkpg.documents
import adkpg.erasure
import adkpg.facts
import adkpg.tooling.models
import adkpg.tooling.operations
from adkpg import (
    Database,
    DatabaseArtifactService,
    DatabaseSessionService,
    Jobs,
    PgVectorMemoryService,
)
from adkpg.a2a import DatabaseTaskStore
from adkpg.audit import Audit
from adkpg.documents import Documents
from adkpg.facts import Add, Extraction, Facts, Summary
from adkpg.tooling.models import Models
from tests.fakes.callers import Named
from tests.fakes.conversation import entry, said
from tests.fakes.life import PERSONAL, event, live_through
from tests.fakes.toys import ToyEmbedder

APP = "app"


class Echo:
    """An extractor that takes each turn for a fact."""

    async def extract(self, turns: Any, known: Any) -> Extraction:
        new = [turn for turn in turns if not turn.read]
        return Extraction(tuple(Add(f"fact: {turn.text}", (turn.memory_id,)) for turn in new))

    async def summarize(self, turns: Any) -> Summary:
        return Summary(" ".join(turn.text for turn in turns))


class Person(NamedTuple):
    """A user, and the ids of what is theirs alone."""

    user_id: str

    @property
    def secret(self) -> str:
        return f"the secret of {self.user_id}"

    @property
    def session_id(self) -> str:
        return f"{self.user_id}-session"

    @property
    def memory_id(self) -> str:
        return f"{self.user_id}-memory"

    @property
    def task_id(self) -> str:
        return f"{self.user_id}-task"

    @property
    def source(self) -> str:
        return f"{self.user_id}.md"


@dataclass(frozen=True)
class Services:
    """All services on one database."""

    sessions: DatabaseSessionService
    artifacts: DatabaseArtifactService
    memory: PgVectorMemoryService
    documents: Documents
    tasks: DatabaseTaskStore
    facts: Facts
    models: Models
    jobs: Jobs
    audit: Audit
    live: dict[str, Session]

    @classmethod
    def on(cls, database: Database, live: dict[str, Session] | None = None) -> "Services":
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        return cls(
            DatabaseSessionService(database),
            DatabaseArtifactService(database),
            memory,
            Documents(memory),
            DatabaseTaskStore(database, app_name=APP),
            Facts(memory, extractor=Echo()),
            Models(database),
            Jobs(database, work="embed"),
            Audit(database),
            live or {},
        )

    @property
    def database(self) -> Database:
        return self.memory.database


async def furnish(services: Services, connection: asyncpg.Connection, *people: Person) -> None:
    """Gives each a life, and their secret in every kind of row; keeps their live sessions."""
    for person in people:
        scope: dict[str, Any] = {"app_name": APP, "user_id": person.user_id}
        await live_through(services.database, services.memory, connection, person.user_id)
        session = await services.sessions.create_session(
            **scope, session_id=person.session_id, state={"user:is": person.secret}
        )
        await services.sessions.append_event(
            session, event(person.secret, f"{person.user_id}-event", {"is": person.secret})
        )
        await services.memory.add_session_to_memory(session)
        await services.memory.add_memory(**scope, memories=[entry(person.secret, person.memory_id)])
        await services.documents.add(**scope, source=person.source, text=person.secret)
        await services.artifacts.save_artifact(
            **scope,
            session_id=person.session_id,
            filename="a.txt",
            artifact=types.Part(text=person.secret),
        )
        task = _task(person)
        task.id = f"{person.user_id}-told"
        await services.tasks.save(
            task, event=task, prev_version=TaskVersion.MISSING, context=_caller(scope)
        )
        services.live[person.user_id] = session


async def kept(connection: asyncpg.Connection, person: Person) -> dict[str, Any]:
    """All rows of a person, by table."""
    return {
        table: await connection.fetchval(
            f"SELECT array_agg(t::text ORDER BY t::text) FROM {table} t WHERE user_id = $1",
            person.user_id,
        )
        for table in PERSONAL
    }


Call = Callable[[Services, dict[str, Any], Person], Awaitable[object]]
"""Given the services, the app and user that it is made as, and whose ids it names."""


def _caller(who: dict[str, Any]) -> ServerCallContext:
    return ServerCallContext(user=Named(who["user_id"]))


def _task(of: Person) -> Task:
    said = Message(message_id="m", parts=[{"text": of.secret}])
    return Task(id=of.task_id, context_id=of.session_id, history=[said])


async def _save_task(s: Services, who: dict[str, Any], of: Person) -> object:
    task = Task(id=of.task_id, context_id=of.session_id)
    lived = TaskVersion(2)  # as it was left; of another user there is none
    with suppress(ConcurrentTaskModificationError):
        return await s.tasks.save(task, event=None, prev_version=lived, context=_caller(who))
    return None


async def _append(s: Services, who: dict[str, Any], of: Person) -> object:
    session = s.live[of.user_id].model_copy(deep=True)
    session.user_id = who["user_id"]
    return await s.sessions.append_event(session, said("appended"))


async def _run(s: Services, who: dict[str, Any], of: Person) -> object:
    place = {**who, "session_id": of.session_id}
    async with s.sessions.invocation(**place, timeout_s=0, key="k") as run:
        run.finish(of.user_id)
    async with s.sessions.invocation(**place, timeout_s=0, key="k") as again:
        return again.result


def _file(who: dict[str, Any], of: Person) -> dict[str, Any]:
    return {**who, "session_id": of.session_id, "filename": "a.txt"}


async def _open(s: Services, who: dict[str, Any], of: Person) -> object:
    opened = await s.artifacts.open_artifact(**_file(who, of))
    return opened and [part async for part in opened]


async def _stream(s: Services, who: dict[str, Any], of: Person) -> object:
    async def parts() -> AsyncIterator[bytes]:
        yield b"streamed"

    return await s.artifacts.save_stream(**_file(who, of), data=parts(), mime_type="text/plain")


async def _initial_state(s: Services, who: dict[str, Any], of: Person) -> object:
    session = s.live[of.user_id].model_copy(deep=True)
    session.user_id = who["user_id"]
    return await s.sessions.get_initial_state(session)


async def _noted(s: Services, who: dict[str, Any], of: Person) -> object:
    async with s.audit.recording(**who, actor="ops", action="look", subject=of.memory_id):
        pass
    return None


def _session(who: dict[str, Any], of: Person, *events: Any) -> Session:
    return Session(id=of.session_id, app_name=APP, user_id=who["user_id"], events=list(events))


CALLS: dict[str, Call] = {
    "DatabaseSessionService.get_session": lambda s, who, of: s.sessions.get_session(
        **who, session_id=of.session_id
    ),
    "DatabaseSessionService.list_sessions": lambda s, who, of: s.sessions.list_sessions(**who),
    "DatabaseSessionService.list_sessions_page": lambda s, who, of: s.sessions.list_sessions_page(
        **who
    ),
    "DatabaseSessionService.list_events_page": lambda s, who, of: s.sessions.list_events_page(
        **who, session_id=of.session_id
    ),
    "DatabaseSessionService.search_events": lambda s, who, of: s.sessions.search_events(
        **who, query=of.secret, limit=3
    ),
    "DatabaseSessionService.fork_session": lambda s, who, of: s.sessions.fork_session(
        **who, session_id=of.session_id, fork_id=f"fork of {of.user_id}"
    ),
    "DatabaseSessionService.update_state": lambda s, who, of: s.sessions.update_state(
        **who, state_delta={"user:set": 1}
    ),
    "DatabaseSessionService.get_initial_state": _initial_state,
    "Audit.entries": lambda s, who, of: s.audit.entries(**who),
    "Audit.recording": _noted,
    "DatabaseSessionService.get_user_state": lambda s, who, of: s.sessions.get_user_state(**who),
    "DatabaseSessionService.create_session": lambda s, who, of: s.sessions.create_session(
        **who, session_id=f"another of {of.user_id}", state={"user:new": 1}
    ),
    "DatabaseSessionService.append_event": _append,
    "DatabaseSessionService.invocation": _run,
    "DatabaseTaskStore.save": _save_task,
    "DatabaseTaskStore.get": lambda s, who, of: s.tasks.get(of.task_id, _caller(who)),
    "DatabaseTaskStore.list": lambda s, who, of: s.tasks.list(ListTasksRequest(), _caller(who)),
    "DatabaseTaskStore.delete": lambda s, who, of: s.tasks.delete(of.task_id, _caller(who)),
    "DatabaseArtifactService.load_artifact": lambda s, who, of: s.artifacts.load_artifact(
        **_file(who, of)
    ),
    "DatabaseArtifactService.open_artifact": _open,
    "DatabaseArtifactService.list_artifact_keys": lambda s, who, of: s.artifacts.list_artifact_keys(
        **who, session_id=of.session_id
    ),
    "DatabaseArtifactService.list_artifacts_page": lambda s, who, of: (
        s.artifacts.list_artifacts_page(**who)
    ),
    "DatabaseArtifactService.list_versions": lambda s, who, of: s.artifacts.list_versions(
        **_file(who, of)
    ),
    "DatabaseArtifactService.list_artifact_versions": lambda s, who, of: (
        s.artifacts.list_artifact_versions(**_file(who, of))
    ),
    "DatabaseArtifactService.get_artifact_version": lambda s, who, of: (
        s.artifacts.get_artifact_version(**_file(who, of))
    ),
    "DatabaseArtifactService.save_artifact": lambda s, who, of: s.artifacts.save_artifact(
        **_file(who, of), artifact=types.Part(text="saved")
    ),
    "DatabaseArtifactService.save_stream": _stream,
    "DatabaseArtifactService.delete_artifact": lambda s, who, of: s.artifacts.delete_artifact(
        **_file(who, of)
    ),
    "PgVectorMemoryService.search": lambda s, who, of: s.memory.search(**who, query=of.secret),
    "PgVectorMemoryService.search_memory": lambda s, who, of: s.memory.search_memory(
        **who, query=of.secret
    ),
    "PgVectorMemoryService.get_memory": lambda s, who, of: s.memory.get_memory(
        **who, memory_id=of.memory_id
    ),
    "PgVectorMemoryService.same_as": lambda s, who, of: s.memory.same_as(
        **who, memory_id=of.memory_id
    ),
    "PgVectorMemoryService.list_memories": lambda s, who, of: s.memory.list_memories(**who),
    "PgVectorMemoryService.count_memories": lambda s, who, of: s.memory.count_memories(**who),
    "PgVectorMemoryService.retrieve_profiles": lambda s, who, of: s.memory.retrieve_profiles(**who),
    "PgVectorMemoryService.facts_about": lambda s, who, of: s.memory.facts_about(
        **who, topics=None, limit=9
    ),
    "PgVectorMemoryService.add_memory": lambda s, who, of: s.memory.add_memory(
        **who, memories=[entry("a kitten", of.memory_id)]
    ),
    "PgVectorMemoryService.update_memory": lambda s, who, of: s.memory.update_memory(
        **who, memory_id=of.memory_id, text="changed", topics=["t"]
    ),
    "PgVectorMemoryService.add_events_to_memory": lambda s, who, of: s.memory.add_events_to_memory(
        **who, session_id=of.session_id, events=[said("more", f"{of.user_id}-event")]
    ),
    "PgVectorMemoryService.add_session_to_memory": lambda s, who, of: (
        s.memory.add_session_to_memory(_session(who, of, said("again", "other")))
    ),
    "Documents.list_sources": lambda s, who, of: s.documents.list_sources(**who),
    "Documents.add": lambda s, who, of: s.documents.add(**who, source=of.source, text="replaced"),
    "Facts.profile": lambda s, who, of: s.facts.profile(**who),
    "Facts.topics": lambda s, who, of: s.facts.topics(**who),
    "Facts.history": lambda s, who, of: s.facts.history(**who, memory_id="fact: has a cat"),
    "Facts.extract": lambda s, who, of: s.facts.extract(**who),
    "Facts.summarize": lambda s, who, of: s.facts.summarize(**who, session_id=of.session_id),
    "Jobs.backlog": lambda s, who, of: s.jobs.backlog(**who),
    "Jobs.dead": lambda s, who, of: s.jobs.dead(**who),
    "Jobs.revive": lambda s, who, of: s.jobs.revive(**who),
    "text_search_config": lambda s, who, of: adkpg.text_search_config(s.database, app_name=APP),
    "Documents.delete": lambda s, who, of: s.documents.delete(**who, source=of.source),
    "PgVectorMemoryService.delete_memory": lambda s, who, of: s.memory.delete_memory(
        **who, memory_id=of.memory_id
    ),
    "PgVectorMemoryService.delete_exactly": lambda s, who, of: s.memory.delete_exactly(
        **who, memory_ids=[of.memory_id]
    ),
    "DatabaseSessionService.delete_session": lambda s, who, of: s.sessions.delete_session(
        **who, session_id=of.session_id, forget=True
    ),
    "prune_sessions": lambda s, who, of: adkpg.erasure.prune_sessions(
        s.database, **who, older_than=timedelta(0), user_states=True
    ),
    "prune": lambda s, who, of: adkpg.erasure.prune(
        s.database, **who, older_than=timedelta(0), superseded=True
    ),
    "forget": lambda s, who, of: adkpg.erasure.forget(s.database, **who),
}
"""About one user; what destroys most comes last."""

EVERYBODYS: dict[str, Callable[[Services], Awaitable[object]]] = {
    "DatabaseSessionService.list_sessions": lambda s: s.sessions.list_sessions(app_name=APP),
    "DatabaseSessionService.list_sessions_page": lambda s: s.sessions.list_sessions_page(
        app_name=APP
    ),
    "PgVectorMemoryService.embed_pending": lambda s: s.memory.embed_pending(),
    "PgVectorMemoryService.flush": lambda s: s.memory.flush(app_name=APP, timeout_s=60),
    "Facts.enable": lambda s: s.facts.enable(APP),
    "Facts.extract_pending": lambda s: s.facts.extract_pending(),
    "Facts.disable": lambda s: s.facts.disable(APP),
    "Jobs.backlog": lambda s: s.jobs.backlog(),
    "Jobs.dead": lambda s: s.jobs.dead(),
    "Jobs.revive": lambda s: s.jobs.revive(app_name=APP),
    "Models.list_models": lambda s: s.models.list_models(),
    "Models.activate": lambda s: s.models.activate("toy", app_name=APP, force=True),
    "Models.reembed": lambda s: s.models.reembed(ToyEmbedder(model="new"), app_name=APP),
    "Models.drop": lambda s: s.models.drop("toy"),
    "set_text_search_config": lambda s: adkpg.set_text_search_config(
        s.database, app_name=APP, config="german"
    ),
    "prune": lambda s: adkpg.erasure.prune(
        s.database, app_name=APP, user_id=adkpg.Users.ALL, older_than=timedelta(0)
    ),
    "prune_sessions": lambda s: adkpg.erasure.prune_sessions(
        s.database, app_name=None, user_id=adkpg.Users.ALL, older_than=timedelta(days=1)
    ),
    "tidy": lambda s: adkpg.erasure.tidy(s.database),
    "statistics": lambda s: adkpg.tooling.operations.statistics(s.database),
    "list_users": lambda s: adkpg.tooling.operations.list_users(s.database, app_name=APP),
    "apps_of": lambda s: adkpg.tooling.operations.apps_of(s.database, user_id="ana"),
    "report": lambda s: adkpg.tooling.operations.report(s.database),
    "table_sizes": lambda s: adkpg.tooling.operations.table_sizes(s.database),
    "erase_expired": lambda s: adkpg.erasure.erase_expired(s.database),
}
"""About all users, in the role of a worker."""

OTHERS = {
    "DatabaseSessionService.flush": "ADK's; does nothing",
    "DatabaseSessionService.close": "closes connections",
    "DatabaseArtifactService.close": "closes connections",
    "DatabaseTaskStore.close": "closes connections",
    "lifespan": "serves an app",
    "examine": "says of each check whether it may be made; tested with the doctor",
    "sweep_objects": "asks nothing without an object store; tested with one",
    "PgVectorMemoryService.warm": "loads the embedder",
    "PgVectorMemoryService.close": "closes connections",
    "PgVectorMemoryService.run_worker": "tested with the worker",
    "PgVectorMemoryService.index_large_scopes": "the owner's; tested with the index",
    "Models.index": "the owner's; tested with the index",
    "Models.add": "names a model; no person's",
    "FactExtractor.extract": "asks a model",
    "FactExtractor.summarize": "asks a model",
    "MemoryExtractor.extract": "an interface",
    "Summarizer.summarize": "an interface",
    "InMemoryVectorMemoryService": "keeps nothing in a database",
    "Database": "runs what it is given",
}
"""Public calls that read and write no person's rows by themselves, and why."""


def public_calls() -> Iterator[str]:
    """The names of all public coroutines of the services, as the tables above have them."""
    for package in (
        adkpg,
        adkpg.a2a,
        adkpg.artifacts,
        adkpg.audit,
        adkpg.documents,
        adkpg.erasure,
        adkpg.facts,
        adkpg.tooling.models,
        adkpg.tooling.operations,
    ):
        yield from _calls_of(package)


def _calls_of(package: ModuleType) -> Iterator[str]:
    for name in package.__all__:
        found = getattr(package, name)
        if inspect.iscoroutinefunction(found):
            yield name
        elif inspect.isclass(found) and name not in OTHERS:
            for method, bound in inspect.getmembers(found, inspect.isfunction):
                function = inspect.unwrap(bound)
                called = (
                    inspect.iscoroutinefunction(function)
                    or "AsyncContextManager" in str(inspect.signature(function).return_annotation)
                    # of `asynccontextmanager`
                    or (function is not bound and inspect.isasyncgenfunction(function))
                )
                if called and not method.startswith("_"):
                    yield f"{name}.{method}"
