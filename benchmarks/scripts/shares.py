"""Where the time of one append, one get and one search goes: Postgres, driver, SQLAlchemy, ...

    python -m benchmarks.scripts.shares [--seconds 20] [--call append]

py-spy samples a process that repeats one call (as root, or where ptrace is allowed). A sample
belongs to the package of its innermost frame that is in one; waiting for the socket is Postgres'
time with the way there. Beside it stands what the server's process itself used, read from /proc.
The server is ADKPG_DATABASE_URL's, else the embedded one, with its default durability.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from shutil import which

import numpy as np
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from rich.console import Console
from rich.table import Table

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.queries import Nothing, Query, Statement
from benchmarks.sentences import Sentences
from benchmarks.server import chosen_server, own_database

APP, USER = "benchmark", "u"
CALLS = ("append", "append and remember", "get of 300 events", "search of 2,000 memories")
WARM_UP = 200
REPORT_EVERY_S = 0.5

# The parts of a path that say whose a frame is, and what the table calls it.
OWNERS = (
    ("/selectors.py", "Postgres, and the wait"),
    ("/asyncpg/", "driver"),
    ("/sqlalchemy/", "SQLAlchemy"),
    ("/pydantic/", "pydantic"),
    ("/google/genai/", "pydantic"),
    ("/google/adk/", "ADK"),
    ("/adkpg/", "adkpg"),
    ("/asyncio/", "event loop"),
)


class Directions:
    """An embedder whose vectors cost nothing: a direction at random for each text."""

    model = "directions"
    dimensions = 384

    def __init__(self) -> None:
        drawn = np.random.default_rng(7).normal(size=(4_096, self.dimensions))
        self._vectors = drawn.astype(np.float32).tolist()

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        vector: list[float] = self._vectors[zlib.crc32(text.encode()) % len(self._vectors)]
        return vector


def said(text: str) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", invocation_id="benchmark", content=content)


async def prepared(call: str, database: Database) -> Callable[[], Awaitable[object]]:
    """Writes what a call needs, and returns the call."""
    sentences = Sentences(seed=7)
    if call == "search of 2,000 memories":
        memory = PgVectorMemoryService(database, embedder=Directions())
        entries = [
            MemoryEntry(content=types.Content(parts=[types.Part(text=sentences.make(15))]))
            for _ in range(2_000)
        ]
        for first in range(0, len(entries), 500):
            await memory.add_memory(
                app_name=APP, user_id=USER, memories=entries[first : first + 500]
            )
        await database.run.execute("vacuum analyze", timeout_s=60)
        questions = [sentences.make(8) for _ in range(50)]
        await asyncio.gather(
            *(memory.search(app_name=APP, user_id=USER, query=each) for each in questions)
        )

        async def search() -> object:
            questions.append(questions.pop(0))
            return await memory.search(app_name=APP, user_id=USER, query=questions[0])

        return search
    service = DatabaseSessionService(database, remember=call == "append and remember" or None)
    session = await service.create_session(app_name=APP, user_id=USER)
    if call == "get of 300 events":
        for _ in range(300):
            await service.append_event(session, said(sentences.make(80)))
        return lambda: service.get_session(app_name=APP, user_id=USER, session_id=session.id)
    return lambda: service.append_event(session, said(sentences.make(15)))


async def repeat(call: str, url: str) -> None:
    """Repeats a call for ever; says the server process, then how many calls were made when."""
    async with Database(url, pool_size=1, max_overflow=0) as database:
        await database.upgrade()
        repeated = await prepared(call, database)
        for _ in range(WARM_UP):
            await repeated()
        row = await database.run.fetch_one(_PID)
        print(row["pid"] if row else "", flush=True)
        made, next_report = 0, 0.0
        while True:
            await repeated()
            made += 1
            if time.perf_counter() >= next_report:
                next_report = time.perf_counter() + REPORT_EVERY_S
                print(time.perf_counter(), made, flush=True)


_PID: Query[Nothing] = Query(Statement("SELECT pg_backend_pid() AS pid", Nothing), {})


def owner_of(stack: str) -> str:
    """Whose a sample is; `stack` is py-spy's: frames from the outermost on, with ``;`` between."""
    for frame in reversed(stack.split(";")):
        for part, owner in OWNERS:
            if part in frame:
                return owner
    return "Python"


def shares(samples: str) -> dict[str, float]:
    """What share of py-spy's samples of the main thread each owner has."""
    counts: Counter[str] = Counter()
    for line in samples.splitlines():
        stack, _, number = line.rpartition(" ")
        if "<module>" in stack:  # the pool's threads only wait
            counts[owner_of(stack)] += int(number)
    total = sum(counts.values())
    return {owner: count / total for owner, count in counts.items()}


def measured(call: str, url: str, seconds: float) -> dict[str, float]:
    """Milliseconds per call: in all, of each owner, and of the server's process."""
    program = which("py-spy", path=str(Path(sys.executable).parent)) or "py-spy"
    arguments = [sys.executable, "-m", "benchmarks.scripts.shares", "--repeat", call, "--url", url]
    with (
        tempfile.NamedTemporaryFile() as samples,
        subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            server_pid = process.stdout.readline().strip()
            started, _ = process.stdout.readline().split()
            used = server_ms(server_pid)
            record = [program, "record", "--idle", "--full-filenames", "--format", "raw"]
            record += ["--rate", "250", "--duration", str(round(seconds)), "--output", samples.name]
            subprocess.run([*record, "--pid", str(process.pid)], check=True, capture_output=True)
            used = server_ms(server_pid) - used
        finally:
            process.terminate()
        reports = [line.split() for line in process.stdout.read().splitlines()]
        ended, made = next(
            each for each in reversed(reports) if len(each) == 2 and each[1].isdigit()
        )
        elapsed_ms = 1000 * (float(ended) - float(started))
        per_call = elapsed_ms / int(made)
        parts = {
            owner: share * per_call
            for owner, share in shares(Path(samples.name).read_text(encoding="utf-8")).items()
        }
    return {"call": per_call, **parts, "server process": used / int(made)}


def server_ms(pid: str) -> float:
    """How long a process has run on a CPU, in milliseconds; 0 where it cannot be read."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6
    return 0.0


async def show(server_url: str, calls: Sequence[str], seconds: float) -> None:
    found = {}
    for call in calls:
        async with own_database(server_url, "shares") as url:
            found[call] = await asyncio.to_thread(measured, call, url, seconds)
    table = Table("MILLISECONDS", *(call.upper() for call in calls))
    owners = ["call", *dict.fromkeys(owner for _, owner in OWNERS), "Python", "server process"]
    for owner in owners:
        table.add_row(owner, *(f"{found[call].get(owner, 0):.2f}" for call in calls))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--call", choices=CALLS, action="append")
    parser.add_argument("--repeat", choices=CALLS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.repeat:
        asyncio.run(repeat(arguments.repeat, arguments.url))
    with chosen_server() as url:
        asyncio.run(show(url, arguments.call or CALLS, arguments.seconds))


if __name__ == "__main__":
    main()
