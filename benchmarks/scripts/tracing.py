"""What an append costs with its span and metrics switched off, next to one without any.

    python -m benchmarks.scripts.tracing [--blocks 40] [--appends 250]

No SDK of OpenTelemetry is given to the process, as by default. Blocks of appends take turns in one
process on one connection: as adkpg makes them, and by the same method without what `traced` puts
around it, with the question in each round trip whether a call is open answered beforehand. Their
order within a pair changes from pair to pair. It prints the medians, and of the pairs' ratios the
median with its 95 % interval (bootstrap): of wall time, and of the client's own CPU, which tells
more on a machine that others use. It ends with an error if a median is above 1.02.
"""

import argparse
import asyncio
import gc
import inspect
import random
import statistics
import sys
import time
from typing import Any

from google.adk.events.event import Event
from google.genai import types

from adkpg import Database, DatabaseSessionService
from adkpg.database import connections, transaction
from adkpg.telemetry import calls
from benchmarks.server import chosen_server, own_database

MOST = 1.02
_BEFORE = 200  # appends before the first that counts


class _Untraced:
    """In place of `adkpg.telemetry.calls` where statements run: no call is ever open."""

    def __getattr__(self, name: str) -> Any:
        return getattr(calls, name)

    is_open = staticmethod(bool)


def said() -> Event:
    content = types.Content(role="user", parts=[types.Part(text="I always travel by train.")])
    return Event(author="user", invocation_id="benchmark", content=content)


async def measured(append: Any, session: Any, appends: int) -> tuple[float, float]:
    """Microseconds of wall time and of CPU that one append took on average."""
    events = [said() for _ in range(appends)]
    wall, own = time.perf_counter(), time.process_time()
    for event in events:
        await append(session, event)
    return (
        (time.perf_counter() - wall) / appends * 1e6,
        (time.process_time() - own) / appends * 1e6,
    )


async def compared(url: str, blocks: int, appends: int) -> list[tuple[float, float, float, float]]:
    """Wall time and CPU of the appends of each pair of blocks: traced, then bare."""
    found = []
    async with Database(url) as database:
        await database.upgrade()
        service = DatabaseSessionService(database)
        traced = service.append_event
        bare = inspect.unwrap(DatabaseSessionService.append_event).__get__(service)
        assert bare is not traced
        untraced: Any = _Untraced()

        async def block(*, spans: bool) -> tuple[float, float]:
            # A session of their own, so that all blocks are of the same length.
            session = await service.create_session(app_name="benchmark", user_id="ana")
            for module in (connections, transaction):  # neither exports it
                setattr(module, "calls", calls if spans else untraced)  # noqa: B010
            try:
                return await measured(traced if spans else bare, session, appends)
            finally:
                for module in (connections, transaction):
                    setattr(module, "calls", calls)  # noqa: B010

        warm = await service.create_session(app_name="benchmark", user_id="ana")
        await measured(traced, warm, _BEFORE)
        gc.collect()
        gc.freeze()
        for number in range(blocks):
            order = (True, False) if number % 2 else (False, True)
            taken = {spans: await block(spans=spans) for spans in order}
            found.append((*taken[True], *taken[False]))
    return found


def told(name: str, traced: list[float], bare: list[float]) -> float:
    """Prints a line; returns the median ratio."""
    ratios = [one / other for one, other in zip(traced, bare, strict=True)]
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2_000))
    ratio = statistics.median(ratios)
    print(
        f"{name:10} {statistics.median(traced):8.1f} us  {statistics.median(bare):8.1f} us bare  "
        f"ratio {ratio:.4f} ({medians[50]:.4f} to {medians[-50]:.4f})"
    )
    return ratio


async def run(server_url: str, blocks: int, appends: int) -> bool:
    async with own_database(server_url, "tracing") as url:
        rows = await compared(url, blocks, appends)
    wall, own, bare_wall, bare_own = (list(each) for each in zip(*rows, strict=True))
    ratios = [told("wall time", wall, bare_wall), told("CPU", own, bare_own)]
    return max(ratios) <= MOST


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--appends", type=int, default=250)
    given = parser.parse_args()
    with chosen_server() as url:
        sys.exit(0 if asyncio.run(run(url, given.blocks, given.appends)) else 1)


if __name__ == "__main__":
    main()
