"""How fast `adkpg import` reads ADK's databases, and how much memory it takes.

``python -m benchmarks.scripts.imports --events 100000 --events 1000000`` makes a file of ADK's
DatabaseSessionService (schema v1) for each number, imports it into ``ADKPG_DATABASE_URL``, which is
best empty, and prints events per second and the peak of the process's memory, the verification
included. ``--url`` imports another source instead, such as one that ``adkpg export --to`` wrote.
"""

import argparse
import asyncio
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from google.adk.sessions.database_session_service import DatabaseSessionService

_IN_A_SESSION = 50
_USERS = 1_000
_COLUMN = "2023-11-14 22:13:20.000000"


def events(count: int) -> Iterator[tuple[str, ...]]:
    for number in range(count):
        session = number // _IN_A_SESSION
        text = f"I always travel by train and never by plane, said number {number}. "
        event = {
            "id": f"e{number}",
            "invocation_id": f"i{number}",
            "author": "user" if number % 2 else "guide",
            "timestamp": 1.7e9 + number,
            "content": {"role": "user", "parts": [{"text": text + "Some words more. " * 12}]},
            "actions": {"state_delta": {"n": number}},
        }
        user = f"user{session % _USERS}"
        place = ("app", user, f"{count}-{session}", f"i{number}")
        yield (f"e{number}", *place, _COLUMN, json.dumps(event))


async def make(path: Path, count: int) -> None:
    async with DatabaseSessionService(f"sqlite+aiosqlite:///{path}") as service:
        await service.prepare_tables()
    with sqlite3.connect(path) as made:
        made.executemany(
            "INSERT INTO sessions VALUES (?, ?, ?, '{}', ?, ?)",
            (
                ("app", f"user{number % _USERS}", f"{count}-{number}", _COLUMN, _COLUMN)
                for number in range(-(-count // _IN_A_SESSION))
            ),
        )
        made.executemany(
            "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp,"
            " event_data) VALUES (?, ?, ?, ?, ?, ?, ?)",
            events(count),
        )
    made.close()


def measure(source: str) -> None:
    """Imports in a process of its own; the peak is that of the largest so far."""
    begun = time.perf_counter()
    program = [sys.executable, "-m", "adkpg", "import", source, "--json"]
    ran = subprocess.run(program, stdout=subprocess.PIPE, check=True, env=os.environ)
    took = time.perf_counter() - begun
    read = json.loads(ran.stdout)["events"]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1_000
    print(f"{read:>10,} events  {read / took:>8,.0f}/s  {took:>7.1f} s  peak {peak:,.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, action="append", default=[])
    parser.add_argument("--url")
    asked = parser.parse_args()
    if asked.url:
        measure(asked.url)
    with tempfile.TemporaryDirectory() as folder:
        for count in sorted(asked.events):
            path = Path(folder, f"{count}.db")
            asyncio.run(make(path, count))
            measure(str(path))


if __name__ == "__main__":
    main()
