"""A whole session of very many events: time, memory, and how long the event loop stands still.

    python -m benchmarks.scripts.large_session [--events 200000] [--characters 100]

On ADKPG_DATABASE_URL's server (else the embedded one), in a database of its own. PEAK is the most
memory that reading took, and RETURNED what the session takes afterwards; both are the growth of the
process, as Linux counts it. STANDSTILL is the longest work, in CPU time, between two turns of
another task.
"""

import argparse
import asyncio
import gc
import re
import time
from pathlib import Path

import asyncpg
from google.adk.events.event import Event
from google.genai import types
from rich.console import Console
from rich.table import Table

from adkpg import Database, DatabaseSessionService
from benchmarks.server import chosen_server, own_database

FILL = """
INSERT INTO adkpg.events (app_name, user_id, session_id, seq, event_id, timestamp, payload)
SELECT 'benchmark', 'user', 'large', n, 'event ' || n, now(),
  replace(replace($1, '#id', 'event ' || n), '#text', n || ' ' || repeat('a word ', $2))::json
FROM generate_series(1, $3) n
"""
COUNTED = "UPDATE adkpg.sessions SET revision = $1 WHERE session_id = 'large'"
TICK_S = 0.002


async def fill(url: str, events: int, characters: int) -> None:
    said = types.Content(role="user", parts=[types.Part(text="#text")])
    payload = Event(id="#id", author="user", content=said).model_dump_json(exclude_none=True)
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(FILL, payload, characters // 7, events, timeout=600)
        await connection.execute(COUNTED, events)
        await connection.execute("VACUUM ANALYZE adkpg.events")
    finally:
        await connection.close()


async def standstill(longest: list[float]) -> None:
    """Notes the longest that the event loop worked between two turns of this task, in seconds."""
    while True:
        start = time.thread_time()
        await asyncio.sleep(TICK_S)
        longest[0] = max(longest[0], time.thread_time() - start)


def megabytes(name: str) -> float:
    """Returns what Linux says of this process: VmRSS is now, VmHWM the most so far."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1000


async def measure(server_url: str, events: int, characters: int) -> None:
    async with own_database(server_url, "large") as url, Database(url) as database:
        await database.upgrade()
        service = DatabaseSessionService(database)
        for name in ("small", "large"):
            await service.create_session(app_name="benchmark", user_id="user", session_id=name)
        await fill(url, events, characters)
        await service.get_session(app_name="benchmark", user_id="user", session_id="small")
        gc.collect()
        before, longest = megabytes("VmRSS"), [0.0]
        watch = asyncio.create_task(standstill(longest))
        await asyncio.sleep(10 * TICK_S)
        start = time.perf_counter()
        session = await service.get_session(
            app_name="benchmark", user_id="user", session_id="large"
        )
        took, peak = time.perf_counter() - start, megabytes("VmHWM") - before
        await asyncio.sleep(10 * TICK_S)
        watch.cancel()
        returned = megabytes("VmRSS") - before
        assert session is not None
        assert len(session.events) == events
    table = Table("EVENTS", "TOOK", "PEAK", "RETURNED", "PEAK / RETURNED", "STANDSTILL")
    table.add_row(
        f"{events:,}",
        f"{took:.1f} s",
        f"{peak:,.0f} MB",
        f"{returned:,.0f} MB",
        f"{peak / returned:.2f}",
        f"{1000 * longest[0]:,.0f} ms",
    )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--characters", type=int, default=100, help="of each event's text")
    arguments = parser.parse_args()
    with chosen_server() as url:
        asyncio.run(measure(url, arguments.events, arguments.characters))


if __name__ == "__main__":
    main()
