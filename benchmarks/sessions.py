"""Append and read, side by side with ADK's own DatabaseSessionService, on one server in one run.

    python benchmarks/sessions.py [--appends 500] [--reads 40]

The server is ADKPG_DATABASE_URL, else the embedded one with its durable defaults. Both services
take turns in blocks, so that a machine whose speed drifts does not favour one.
"""

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService
from google.adk.sessions import DatabaseSessionService as AdkSessionService
from google.adk.sessions.session import Session
from google.genai import types
from rich.console import Console
from rich.table import Table

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.embedded import EmbeddedServer

HISTORY = 300
BLOCKS = 4


def event() -> Event:
    text = "the quick brown fox jumps over the lazy dog " * 10
    return Event(
        author="user",
        invocation_id="benchmark",
        content=types.Content(role="user", parts=[types.Part(text=text)]),
    )


async def timed(call: Callable[[], Awaitable[Any]]) -> float:
    start = time.perf_counter()
    await call()
    return (time.perf_counter() - start) * 1000


async def appends(service: BaseSessionService, session: Session, count: int) -> list[float]:
    return [await timed(partial(service.append_event, session, event())) for _ in range(count)]


async def reads(service: BaseSessionService, session: Session, count: int) -> list[float]:
    async def read() -> None:
        found = await service.get_session(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id
        )
        if found is None or len(found.events) != HISTORY:
            raise SystemExit("a session came back with another number of events than it was given")

    return [await timed(read) for _ in range(count)]


async def compare(url: str, append_count: int, read_count: int) -> None:
    ours_database = Database(url)
    await ours_database.upgrade()
    services: dict[str, BaseSessionService] = {
        "adkpg": DatabaseSessionService(ours_database),
        "ADK": AdkSessionService(url.replace("postgresql://", "postgresql+asyncpg://", 1)),
    }
    append_ms: dict[str, list[float]] = {name: [] for name in services}
    read_ms: dict[str, list[float]] = {name: [] for name in services}
    app = f"benchmark-{uuid.uuid4()}"
    for block in range(BLOCKS + 1):
        for name, service in services.items():
            session = await service.create_session(app_name=app, user_id="u")
            append_times = await appends(service, session, append_count // BLOCKS)
            history = await service.create_session(app_name=app, user_id="u")
            await appends(service, history, HISTORY)
            read_times = await reads(service, history, read_count // BLOCKS)
            if block:  # the first one warms up
                append_ms[name] += append_times
                read_ms[name] += read_times
    report(append_ms, read_ms)
    await ours_database.close()


def report(append_ms: dict[str, list[float]], read_ms: dict[str, list[float]]) -> None:
    table = Table("call", "adkpg p50", "ADK p50", "ratio")
    for call, times in (("append_event", append_ms), (f"get_session, {HISTORY} events", read_ms)):
        ours, theirs = statistics.median(times["adkpg"]), statistics.median(times["ADK"])
        table.add_row(call, f"{ours:.2f} ms", f"{theirs:.2f} ms", f"{theirs / ours:.1f} x")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--appends", type=int, default=500)
    parser.add_argument("--reads", type=int, default=40)
    arguments = parser.parse_args()
    configured = Settings().database_url
    if configured is not None and configured.get_secret_value() != "embedded":
        url = configured.get_secret_value()
        asyncio.run(compare(url, arguments.appends, arguments.reads))
        return
    with EmbeddedServer() as server:
        asyncio.run(compare(server.url, arguments.appends, arguments.reads))


if __name__ == "__main__":
    main()
