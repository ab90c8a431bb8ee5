"""What an app keeps of a person: at least one row in every table that holds a person's data."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from a2a.server.cluster import TaskVersion
from a2a.server.context import ServerCallContext
from a2a.types import Task, TaskState, TaskStatusUpdateEvent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from adkpg import (
    Database,
    DatabaseArtifactService,
    DatabaseSessionService,
    PgVectorMemoryService,
)
from adkpg.a2a import DatabaseTaskStore
from adkpg.audit import Audit
from adkpg.memory.records import Memory
from adkpg.tables import metadata
from tests.fakes.conversation import entry

LONG = "It stands by the road to the sea, and nobody drives it. " * 60
"""More than an embedder reads at once, so that its vectors are of passages."""

PERSONAL = sorted(table.name for table in metadata.tables.values() if "user_id" in table.columns)


def scope_of(user_id: str, app_name: str = "app") -> dict[str, Any]:
    return {"app_name": app_name, "user_id": user_id}


def event(text: str, event_id: str, state: dict[str, Any] | None = None) -> Event:
    return Event(
        id=event_id,
        author="user",
        content=types.Content(role="user", parts=[types.Part(text=text)]),
        actions=EventActions(state_delta=state or {}),
    )


async def live_through(
    database: Database,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    user_id: str,
    app_name: str = "app",
) -> None:
    """Lives two remembered sessions, with a note, a fact, a deletion, runs, and work that waits."""
    sessions = DatabaseSessionService(database)
    scope = scope_of(user_id, app_name)
    for session_id in ("s1", "s2"):
        session = await sessions.create_session(**scope, session_id=session_id, state={"user:a": 1})
        for number, text in enumerate(("my kitten sleeps", "oolong please", "a puppy barks")):
            await sessions.append_event(session, event(text, f"{session_id}-{number}"))
        await memory.add_session_to_memory(session)
    async with sessions.invocation(**scope, session_id="s1", key="request") as run:
        run.finish("oolong")
    await connection.execute(  # as a request leaves it whose process was killed while it waited
        "INSERT INTO invocation_waiters (app_name, user_id, session_id, holder)"
        " VALUES ($1, $2, 's1', gen_random_uuid())",
        app_name,
        user_id,
    )
    await DatabaseArtifactService(database).save_artifact(
        **scope, session_id="s1", filename="a.txt", artifact=types.Part(text="a list")
    )
    await connection.execute(  # as a save leaves it whose process was killed while it uploaded
        "INSERT INTO artifact_uploads (app_name, user_id, session_id, artifact_id)"
        " VALUES ($1, $2, 's1', gen_random_uuid())",
        app_name,
        user_id,
    )
    await memory.add_memory(
        **scope, memories=[entry(f"keeps an automobile. {LONG}", f"{user_id}-note")]
    )
    turns = await connection.fetch(
        "SELECT memory_id FROM memories WHERE app_name = $1 AND user_id = $2 AND session_id = 's1'"
        " ORDER BY position",
        app_name,
        user_id,
    )
    await add_drawn(memory, connection, scope, "has a cat", turns[0]["memory_id"])
    await memory.delete_exactly(**scope, memory_ids=[turns[2]["memory_id"]])
    await connection.execute(
        "INSERT INTO memory_jobs (app_name, user_id, position, work) SELECT app_name, user_id,"
        " position, 'extract' FROM memories WHERE app_name = $1 AND user_id = $2",
        app_name,
        user_id,
    )
    await connection.execute(
        "INSERT INTO saved_questions (app_name, user_id, question_id, question, evidence)"
        " VALUES ($1, $2, gen_random_uuid(), 'who barks?', '[]')",
        app_name,
        user_id,
    )
    store = DatabaseTaskStore(database, app_name=app_name, owner_resolver=lambda _: user_id)
    task = Task(id=f"{user_id}-task", context_id="s1")
    version = await store.save(
        task, event=task, prev_version=TaskVersion.MISSING, context=ServerCallContext()
    )
    task.status.state = TaskState.TASK_STATE_INPUT_REQUIRED
    asked = TaskStatusUpdateEvent(task_id=task.id, context_id="s1", status=task.status)
    await store.save(task, event=asked, prev_version=version, context=ServerCallContext())
    async with Audit(database).recording(**scope, actor="ops", action="look"):
        pass
    await connection.execute(
        "INSERT INTO approximate_scopes (app_name, user_id, model_id)"
        " SELECT $1, $2, model_id FROM embedding_models",
        app_name,
        user_id,
    )


async def add_drawn(
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    scope: dict[str, Any],
    text: str,
    origin_id: str,
    kind: str = "fact",
) -> str:
    """Remembers a fact or summary that was drawn from a memory; returns its id."""
    memory_id = f"{kind}: {text}"
    drawn = Memory(id=memory_id, content=entry(text).content, kind=kind)
    await memory.add_memory(**scope, memories=[drawn])
    await connection.execute(
        "INSERT INTO memory_provenance (app_name, user_id, memory_id, origin_id)"
        " VALUES ($1, $2, $3, $4)",
        scope["app_name"],
        scope["user_id"],
        memory_id,
        origin_id,
    )
    return memory_id


def earlier(column: str, interval: str) -> str:
    """Returns what of an UPDATE moves a time back.

    In UTC: elsewhere days may have other lengths, which a cluster has no way to agree on.
    """
    return f"{column} = ({column} AT TIME ZONE 'UTC' - interval '{interval}') AT TIME ZONE 'UTC'"


class FactWriter:
    """A worker that has read a turn and is about to write what it drew from it.

    Args:
      connection: Its own.
      memory_id: The turn.
    """

    def __init__(self, connection: asyncpg.Connection, memory_id: str) -> None:
        self._connection = connection
        self._memory_id = memory_id

    async def hold(self) -> None:
        """Locks the turn, as workers do before they write."""
        await self._connection.execute("SET search_path = adkpg, public")
        await self._connection.execute("BEGIN")
        await self._connection.execute(
            "SELECT FROM memories WHERE memory_id = $1 AND user_id = 'alice' FOR UPDATE",
            self._memory_id,
        )

    async def finish(self) -> None:
        """Writes the fact and its source, and commits."""
        await self._connection.execute(
            "INSERT INTO memories (app_name, user_id, position, memory_id, kind, session_id,"
            " timestamp, content, body, length, digest) SELECT app_name, user_id, 7, 'the fact',"
            " 'fact', '', now(), content, 'likes oolong', 2, 'd' FROM memories"
            " WHERE memory_id = $1",
            self._memory_id,
        )
        await self._connection.execute(
            "INSERT INTO memory_provenance (app_name, user_id, memory_id, origin_id)"
            " SELECT app_name, user_id, 'the fact', memory_id FROM memories WHERE memory_id = $1",
            self._memory_id,
        )
        await self._connection.execute("COMMIT")


@asynccontextmanager
async def fact_writer(url: str, memory_id: str) -> AsyncIterator[FactWriter]:
    """Connects a `FactWriter` that holds its turn."""
    connection = await asyncpg.connect(url)
    try:
        writer = FactWriter(connection, memory_id)
        await writer.hold()
        yield writer
    finally:
        await connection.close()


async def rows_of(
    connection: asyncpg.Connection, user_id: str, app_name: str = "app"
) -> dict[str, int]:
    """Counts a person's rows in each table that holds a person's data."""
    return {
        table: await connection.fetchval(
            f'SELECT count(*) FROM "{table}" WHERE app_name = $1 AND user_id = $2',
            app_name,
            user_id,
        )
        for table in PERSONAL
    }
