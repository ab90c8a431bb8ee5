"""The cases of the sessions suite that read: gets, again and with history, and listings."""

import asyncio
import time
from functools import partial
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService
from benchmarks.contenders.sessions.contender import APP, Contender, Service
from benchmarks.figures import OURS, Figure, percentile
from benchmarks.server import installed
from benchmarks.suites import session_events
from benchmarks.suites.session_stage import SUITE, USER, Block, Stage, append_all, faults_of, timed

GET = "get"
AFTER = "append after a history"
AGAIN = "get again after a turn"
LIST = "list 50 sessions"

KEPT = "adkpg, shared_events_mb"
COPIED = "adkpg, shared_events_mb, events copied by the caller"
LISTED = 50


def events_size(events: int) -> str:
    """The size of a case with this many events."""
    return f"{events:,} events"


async def get_and_append(stage: Stage) -> list[Figure]:
    """Reads sessions of growing history, and appends to them."""
    async with stage.open(4) as services:
        histories = {
            contender.name: await _histories(services[contender.name], stage)
            for contender in stage.contenders
        }
        figures = []
        for size in stage.effort.histories:
            reads = max(2, min(stage.effort.reads, 6_000 // size))
            work = _Reads(reads, histories, size)
            figures += await stage.measure(GET, events_size(size), services, work)
        for size in (0, *stage.effort.histories):
            appends = _Appends(min(50, stage.effort.appends), histories, size)
            figures += await stage.measure(AFTER, events_size(size), services, appends)
    return figures


Histories = dict[str, dict[int, list[Event]]]


async def _histories(service: Service, stage: Stage) -> dict[int, list[Event]]:
    """Writes a session of each size; returns the events of each."""
    written: dict[int, list[Event]] = {}

    async def write(size: int) -> None:
        live = await service.create(USER, f"history-{size}", {})
        written[size] = []
        for place in range(size):
            event = session_events.said(place)
            await service.append(live, service.prepared(event))
            written[size].append(event)

    await asyncio.gather(*(write(size) for size in (0, *stage.effort.histories)))
    return written


class _Reads:
    def __init__(self, reads: int, histories: Histories, size: int) -> None:
        self._reads = reads
        self._histories = histories
        self._size = size

    async def __call__(self, contender: Contender, service: Service, number: int) -> Block:
        read = partial(service.get, USER, f"history-{self._size}")
        start = time.perf_counter()
        times = [await timed(read) for _ in range(self._reads)]
        block = Block(times, time.perf_counter() - start)
        written = self._histories[contender.name][self._size]
        block.faults = faults_of(contender, service, await read(), written, {})
        return block


class _Appends:
    def __init__(self, appends: int, histories: Histories, size: int) -> None:
        self._appends = appends
        self._histories = histories
        self._size = size

    async def __call__(self, contender: Contender, service: Service, number: int) -> Block:
        name = f"history-{self._size}"
        events = [session_events.said(place) for place in range(self._appends)]
        if self._size:
            written = self._histories[contender.name][self._size]
        else:
            name, written = f"new-{number}", []
            await service.create(USER, name, {})
        live = await service.get(USER, name)
        start = time.perf_counter()
        block = Block(await append_all(service, live, events))
        block.elapsed_s = time.perf_counter() - start
        written += events
        block.faults = faults_of(contender, service, await service.get(USER, name), written, {})
        return block


async def list_sessions(stage: Stage) -> list[Figure]:
    """Lists the newest of a user's many sessions."""
    size = f"of {stage.effort.sessions:,}"
    async with stage.open(4) as services:
        listing = {c.name: services[c.name] for c in stage.contenders if c.lists}
        newest = {name: await _many(each, stage.effort.sessions) for name, each in listing.items()}

        async def work(contender: Contender, service: Service, number: int) -> Block:
            block = Block()
            start = time.perf_counter()
            for _ in range(max(3, stage.effort.reads // 4)):
                begin = time.perf_counter()
                found = await service.list_sessions("lister", LISTED)
                block.times.append((time.perf_counter() - begin) * 1000)
                if list(found) != newest[contender.name]:
                    block.faults = ["other sessions than the newest came back"]
            block.elapsed_s = time.perf_counter() - start
            if contender.name == "ADK":
                block.remarks = ["its interface lists all sessions"]
            return block

        return await stage.measure(LIST, size, listing, work)


async def _many(service: Service, count: int) -> list[str]:
    """Creates sessions of one user; returns the ids of the newest, the newest first."""
    numbers = iter(range(count))

    async def create() -> None:
        for number in numbers:
            await service.create("lister", f"{number:05}", {"topic": f"topic {number}"})

    await asyncio.gather(*(create() for _ in range(4)))
    newest = []
    for number in range(0, count, count // LISTED)[:LISTED]:
        live = await service.get("lister", f"{number:05}")
        await service.append(live, service.prepared(session_events.said(number)))
        newest.append(f"{number:05}")
    return newest[::-1]


async def get_again(stage: Stage) -> list[Figure]:
    """Reads a session again after four events more: from the server alone, and with kept events.

    The others have no such thing; this compares adkpg with itself.
    """
    history = max(size for size in stage.effort.histories if size <= 3_000)
    times: dict[str, list[float]] = {OURS: [], KEPT: [], COPIED: []}
    faults: dict[str, list[str]] = {name: [] for name in times}
    async with Database(stage.urls[OURS], pool_size=2, max_overflow=0) as database:
        plain = DatabaseSessionService(database)
        kept = DatabaseSessionService(database, shared_events_mb=64)
        live = await plain.create_session(app_name=APP, user_id=USER, session_id="again")
        written: list[Event] = []

        async def write(count: int) -> None:
            for _ in range(count):
                written.append(session_events.said(len(written)))
                await plain.append_event(live, written[-1])

        async def read(service: DatabaseSessionService, *, copied: bool = False) -> Session:
            found = await service.get_session(app_name=APP, user_id=USER, session_id="again")
            assert found is not None
            if copied:
                found.events = [event.model_copy(deep=True) for event in found.events]
            return found

        await write(history)
        calls: dict[str, Any] = {
            OURS: partial(read, plain),
            KEPT: partial(read, kept),
            COPIED: partial(read, kept, copied=True),
        }
        rounds = stage.effort.reads
        for number in range(rounds + 1):
            await write(4)
            for name, call in calls.items():
                if name == COPIED:
                    await write(4)  # the reader before has what was written already
                start = time.perf_counter()
                found = await call()
                took = (time.perf_counter() - start) * 1000
                if found.events != written:
                    faults[name] = ["other events than were written came back"]
                if number:  # the first one fills what is kept
                    times[name].append(took)
    return [
        Figure(
            suite=SUITE,
            case=AGAIN,
            size=f"{history:,} events, 4 new",
            contender=name,
            version=installed("adkpg"),
            unit="ms",
            p50=percentile(times[name], 0.5),
            p95=percentile(times[name], 0.95),
            rate=None,
            samples=len(times[name]),
            correct=not faults[name],
            note="; ".join(faults[name]),
        )
        for name in times
    ]
