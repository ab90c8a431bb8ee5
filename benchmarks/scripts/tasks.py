"""A task of A2A that grows by a stream, and one of a turn: the sdk's own stores beside adkpg's.

    python -m benchmarks.scripts.tasks [--chunks 1000]

One task is saved once for each of its chunks of 50 characters, as a request handler does, on a
database of its own on ADKPG_DATABASE_URL's server (else the embedded one). WAL is what the server
wrote. A turn is five saves: submitted, working, a message, an artifact, completed.
"""

import argparse
import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from a2a.server.cluster import TaskVersion, VersionedDatabaseTaskStore
from a2a.server.context import ServerCallContext
from a2a.server.tasks import DatabaseTaskStore as PlainTaskStore
from a2a.types import (
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from rich.console import Console
from rich.table import Table
from sqlalchemy.ext.asyncio import create_async_engine

from adkpg import Database
from adkpg.a2a import DatabaseTaskStore
from benchmarks.server import chosen_server, own_database

CALLER = ServerCallContext()
Save = Callable[[Task, Any], Awaitable[None]]


def versioned(store: Any) -> Save:
    """Saves by version."""
    version = TaskVersion.MISSING

    async def save(task: Task, event: Any) -> None:
        nonlocal version
        version = await store.save(
            task, event=event, prev=None, prev_version=version, context=CALLER
        )

    return save


async def stream(save: Save, chunks: int) -> None:
    """Saves a task once for each chunk of its result."""
    task = Task(id="stream", context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_WORKING))
    await save(task, task)
    for number in range(chunks):
        artifact = Artifact(artifact_id="a", parts=[Part(text=secrets.token_hex(25))])
        if number:
            task.artifacts[0].parts.extend(artifact.parts)
        else:
            task.artifacts.append(artifact)
        await save(
            task,
            TaskArtifactUpdateEvent(
                task_id=task.id, context_id="c", append=number > 0, artifact=artifact
            ),
        )


async def turn(save: Save, number: int) -> None:
    """Saves a task as often as a text turn of ADK's does."""
    said = Message(message_id="m", parts=[Part(text="Where is the museum? " * 5)])
    task = Task(
        id=f"turn {number}",
        context_id="c",
        status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
        history=[said],
    )
    await save(task, task)
    for text in ("", "By the river, five minutes from the bridge. " * 5):
        status = TaskStatus(state=TaskState.TASK_STATE_WORKING)
        if text:
            status.message.CopyFrom(Message(message_id="a", parts=[Part(text=text)]))
        task.status.CopyFrom(status)
        await save(task, TaskStatusUpdateEvent(task_id=task.id, context_id="c", status=status))
    artifact = Artifact(artifact_id="a", parts=[Part(text=text)])
    task.artifacts.append(artifact)
    await save(task, TaskArtifactUpdateEvent(task_id=task.id, context_id="c", artifact=artifact))
    task.history.append(task.status.message)
    task.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_COMPLETED))
    await save(task, TaskStatusUpdateEvent(task_id=task.id, context_id="c", status=task.status))


async def measured(url: str, chunks: int) -> Table:
    """Measures each store on its own tables."""
    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://", 1))
    plain = PlainTaskStore(engine)
    cluster = VersionedDatabaseTaskStore(engine, table_name="versioned_tasks")
    await plain.initialize()
    await cluster.initialize()
    server = await asyncpg.connect(url)
    table = Table("store", f"{chunks} chunks", "WAL", "a turn")

    async def unversioned(task: Task, event: Any) -> None:
        await plain.save(task, CALLER)

    async with Database(url, auto_upgrade=True) as database:
        own = DatabaseTaskStore(database, app_name="shop")
        makers: dict[str, Callable[[], Save]] = {
            "the sdk's": lambda: unversioned,
            "the sdk's, versioned": lambda: versioned(cluster),
            "adkpg": lambda: versioned(own),
        }
        for name, make in makers.items():
            await turn(make(), -1)  # connects, and makes what is made once
            before = await server.fetchval("SELECT pg_current_wal_insert_lsn()")
            began = time.perf_counter()
            await stream(make(), chunks)
            took_s = time.perf_counter() - began
            wal = await server.fetchval(
                "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)", before
            )
            began = time.perf_counter()
            for number in range(50):
                await turn(make(), number)
            turn_ms = (time.perf_counter() - began) / 50 * 1_000
            table.add_row(
                name, f"{took_s:.2f} s", f"{float(wal) / 1_048_576:.1f} MiB", f"{turn_ms:.1f} ms"
            )
    await server.close()
    await engine.dispose()
    return table


async def main(chunks: int) -> None:
    """Measures on a database of its own."""
    with chosen_server() as server_url:
        async with own_database(server_url, "tasks") as url:
            Console().print(await measured(url, chunks))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=1_000)
    asyncio.run(main(parser.parse_args().chunks))
