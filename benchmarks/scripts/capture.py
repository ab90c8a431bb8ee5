"""The cost of remembering in an append: plain appends alongside those with remember=True.

    python -m benchmarks.scripts.capture [--appends 600]

In turn, in blocks, on one connection of ADKPG_DATABASE_URL's server (else the embedded one), in a
database of its own, with the server's default durability.
"""

import argparse
import asyncio
import statistics
import time

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types
from rich.console import Console
from rich.table import Table

from adkpg import Database, DatabaseSessionService
from benchmarks.server import chosen_server, own_database

TEXT = "I always travel by train, never by plane, since my flight to Lisbon was so bumpy in {}."
BLOCK = 50


async def append(service: DatabaseSessionService, session: Session, number: int) -> float:
    """Returns how long one append took, in milliseconds."""
    said = types.Content(role="user", parts=[types.Part(text=TEXT.format(number))])
    event = Event(author="user", content=said)
    start = time.perf_counter()
    await service.append_event(session, event)
    return 1000 * (time.perf_counter() - start)


async def measure(server_url: str, appends: int) -> None:
    async with own_database(server_url, "outbox") as url:
        async with Database(url, pool_size=1, max_overflow=0) as database:
            await database.upgrade()
            services = {
                "plain": DatabaseSessionService(database, remember=False),
                "remember": DatabaseSessionService(database, remember=True),
            }
            sessions = {
                name: await service.create_session(app_name="benchmark", user_id=name)
                for name, service in services.items()
            }
            took: dict[str, list[float]] = {name: [] for name in services}
            for first in range(0, appends + BLOCK, BLOCK):
                for name, service in services.items():
                    for number in range(first, first + BLOCK):
                        took[name].append(await append(service, sessions[name], number))
        p50 = {name: statistics.median(each[BLOCK:]) for name, each in took.items()}
        table = Table("APPEND", "p50", "TIMES PLAIN")
        for name, each in p50.items():
            table.add_row(name, f"{each:.2f} ms", f"{each / p50['plain']:.2f}")
        Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--appends", type=int, default=600)
    arguments = parser.parse_args()
    with chosen_server() as url:
        asyncio.run(measure(url, arguments.appends))


if __name__ == "__main__":
    main()
