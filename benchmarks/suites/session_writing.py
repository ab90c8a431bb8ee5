"""The cases of the sessions suite that write: appends of every kind, and turns."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from google.adk.events.event import Event

from benchmarks.contenders.sessions.contender import Contender, Service
from benchmarks.figures import Figure
from benchmarks.network import Network, ping_ms
from benchmarks.suites import session_events
from benchmarks.suites.session_process import ServiceProcess, Written, service_process, write
from benchmarks.suites.session_stage import USER, Block, Stage, append_all, faults_of

APPEND = "append"
USER_STATE = "append with user: state"
TURN = "one-tool turn"
SHARED = "services writing one session"
PROCESSES = "processes writing one session"
STATE = "append, one-key delta"
BYTES = "bytes of an append, one-key delta"

POOL = 16
SERVICES = 8
DELAY_MS = 1.0
DELAYS = ("no delay", "1 ms of delay")
STATES = ("empty state", "100 kB of state")


async def append(stage: Stage) -> list[Figure]:
    """Writers with a session each; then writers who share their user's state."""
    figures = []
    async with stage.open(POOL) as services:
        for writers in stage.effort.writers:
            size = "1 writer" if writers == 1 else f"{writers} writers"
            figures += await stage.measure(APPEND, size, services, _Writers(stage, writers, False))
        stateful = {c.name: services[c.name] for c in stage.contenders if c.keeps_state}
        figures += await stage.measure(
            USER_STATE,
            f"{POOL} writers",
            stateful,
            _Writers(stage, POOL, True),
            note="each writes a user: key of its own, all for one user",
        )
    return figures


class _Writers:
    def __init__(self, stage: Stage, writers: int, user_state: bool) -> None:
        self._each = max(2, stage.effort.appends // writers)
        self._writers = range(writers)
        self._user_state = user_state

    async def __call__(self, contender: Contender, service: Service, number: int) -> Block:
        kind = "state" if self._user_state else "plain"
        user = f"{kind}-{len(self._writers)}-{number}"
        names = [f"{user}-{writer}" for writer in self._writers]
        lives = [await service.create(user, name, {}) for name in names]
        given = [
            [session_events.said(place, self._delta(writer, place)) for place in range(self._each)]
            for writer in self._writers
        ]
        start = time.perf_counter()
        took = await asyncio.gather(
            *(append_all(service, live, events) for live, events in zip(lives, given, strict=True))
        )
        block = Block([each for times in took for each in times], time.perf_counter() - start)
        state: dict[str, Any] = {}
        if self._user_state:
            state = {f"user:{writer}": self._each - 1 for writer in self._writers}
        for name, events in zip(names, given, strict=True):
            live = await service.get(user, name)
            block.faults += faults_of(contender, service, live, events, state)
        return block

    def _delta(self, writer: int, place: int) -> dict[str, Any]:
        return {f"user:{writer}": place} if self._user_state else {}


async def turn(stage: Stage) -> list[Figure]:
    """A get and four appends, without and with a network's delay."""
    async with stage.open(2) as services:
        figures = await stage.measure(TURN, DELAYS[0], services, _Turns(stage, "near"))
    async with AsyncExitStack() as stack:
        first = next(iter(stage.urls.values()))
        direct = await ping_ms(first)
        async with Network(first, DELAY_MS) as trial:
            excess = await ping_ms(trial.url) - direct - DELAY_MS  # the proxy's own work
        delay = max(0.0, DELAY_MS - excess)
        urls = {
            name: (await stack.enter_async_context(Network(url, delay))).url
            for name, url in stage.urls.items()
        }
        measured = await ping_ms(next(iter(urls.values()))) - direct
        note = f"a round trip takes {measured:.2f} ms longer, half of it each way"
        services = await stack.enter_async_context(stage.open(2, urls=urls))
        work = _Turns(stage, "far")
        figures += await stage.measure(TURN, DELAYS[1], services, work, note=note)
    return figures


class _Turns:
    def __init__(self, stage: Stage, place: str) -> None:
        self._count = stage.effort.turns
        self._place = place

    async def __call__(self, contender: Contender, service: Service, number: int) -> Block:
        name = f"turns-{self._place}-{number}"
        await service.create(USER, name, {})
        written: list[Event] = []
        block = Block()
        for place in range(self._count):
            events = session_events.turn(place)
            prepared = [service.prepared(event) for event in events]
            start = time.perf_counter()
            live = await service.get(USER, name)
            for event in prepared:
                await service.append(live, event)
            block.times.append((time.perf_counter() - start) * 1000)
            written += events
        live = await service.get(USER, name)
        state = {"celsius": (self._count - 1) % 40}
        block.faults = faults_of(contender, service, live, written, state)
        return block


async def shared(stage: Stage) -> list[Figure]:
    """Several services with pools of their own write one session."""
    async with AsyncExitStack() as stack:
        pools = {
            contender.name: [
                await stack.enter_async_context(
                    contender.open(stage.urls[contender.name], 1, shared=True)
                )
                for _ in range(SERVICES)
            ]
            for contender in stage.contenders
        }
        first = {name: services[0] for name, services in pools.items()}
        figures = []
        for each in stage.effort.shared:
            work = _Shared(each, pools)
            figures += await stage.measure(SHARED, shared_size(each), first, work)
    # What one append takes depends on how often it is tried again; all of them together count.
    return [replace(figure, p50=None, p95=None) for figure in figures]


def shared_size(each: int) -> str:
    """Returns the name of this many events by each of the services."""
    return f"{SERVICES} services, {SERVICES * each} events"


class _Shared:
    def __init__(self, each: int, pools: Mapping[str, list[Service]]) -> None:
        self._each = each
        self._pools = pools

    async def __call__(self, contender: Contender, service: Service, number: int) -> Block:
        name = f"shared-{self._each}-{number}"
        services = self._pools[contender.name]
        first, given = await _begun(service, name, len(services), self._each)
        start = time.perf_counter()
        written = await asyncio.gather(
            *(
                self._write(writer, name, events)
                for writer, events in zip(services, given, strict=True)
            )
        )
        block = _block(time.perf_counter() - start, written)
        block.faults += await _faults(contender, service, name, first, given)
        return block

    async def _write(self, service: Service, name: str, events: list[Event]) -> Written:
        live = await service.get(USER, name)
        return await write(service, name, live, [service.prepared(event) for event in events])


async def processes(stage: Stage) -> list[Figure]:
    """Several processes, each with a service, write one session."""
    each, count = stage.effort.shared[-1], stage.effort.processes
    if not count:
        return []
    async with AsyncExitStack() as stack:
        writers = {
            contender.name: [
                await stack.enter_async_context(
                    service_process(contender, stage.urls[contender.name])
                )
                for _ in range(count)
            ]
            for contender in stage.contenders
        }
        services = await stack.enter_async_context(stage.open(1))
        size = f"{count} processes, {count * each} events"
        figures = await stage.measure(PROCESSES, size, services, _Processes(each, writers))
    return [replace(figure, p50=None, p95=None) for figure in figures]


class _Processes:
    def __init__(self, each: int, writers: Mapping[str, list[ServiceProcess]]) -> None:
        self._each = each
        self._writers = writers

    async def __call__(self, contender: Contender, service: Service, number: int) -> Block:
        name = f"processes-{number}"
        writers = self._writers[contender.name]
        first, given = await _begun(service, name, len(writers), self._each)
        for writer, events in zip(writers, given, strict=True):
            await writer.load(name, events)
        start = time.perf_counter()
        written = await asyncio.gather(*(writer.write() for writer in writers))
        block = _block(time.perf_counter() - start, written)
        block.faults += await _faults(contender, service, name, first, given)
        return block


async def _begun(
    service: Service, name: str, writers: int, each: int
) -> tuple[Event, list[list[Event]]]:
    """Makes a session that several will write; returns its first event and each writer's."""
    first = session_events.said(0)
    live = await service.create(USER, name, {})
    await service.append(live, service.prepared(first))
    return first, [
        [session_events.said(place, {f"{writer}-{place}": place}) for place in range(each)]
        for writer in range(writers)
    ]


def _block(elapsed_s: float, written: Sequence[Written]) -> Block:
    block = Block(
        times=[took for each in written for took in each.times],
        elapsed_s=elapsed_s,
        faults=[fault for each in written for fault in each.faults],
    )
    if refused := sum(each.refused for each in written):
        block.remarks.append(f"{refused} times refused as stale for {len(block.times)} events")
    return block


async def _faults(
    contender: Contender, service: Service, name: str, first: Event, given: Sequence[list[Event]]
) -> list[str]:
    """Says what was lost of a session that several wrote."""
    faults = []
    live = await service.get(USER, name)
    # Whose event comes first is open; each writer's are in order among themselves.
    place = {event_id: n for n, (event_id, _) in enumerate(service.seen(live).events)}
    for events in given:
        found = [place.get(event.id, -1) for event in events]
        if -1 not in found and found != sorted(found):
            faults.append("a writer's events came back in another order")
    every = [first, *(event for events in given for event in events)]
    every.sort(key=lambda event: place.get(event.id, -1))
    state = {key: value for event in every for key, value in event.actions.state_delta.items()}
    return faults + faults_of(contender, service, live, every, state)


async def state(stage: Stage) -> list[Figure]:
    """Deltas of one key to a state of 100 kB, in time and in bytes on the wire."""
    stateful = [contender for contender in stage.contenders if contender.keeps_state]
    large = {f"key-{place:03}": "x" * (stage.effort.bytes // 100) for place in range(100)}
    figures = []
    async with stage.open(2, contenders=stateful) as services:
        for size, held in zip(STATES, ({}, large), strict=True):
            work = _State(min(50, stage.effort.appends), held)
            figures += await stage.measure(STATE, size, services, work)
    async with AsyncExitStack() as stack:
        networks = {
            contender.name: await stack.enter_async_context(Network(stage.urls[contender.name]))
            for contender in stateful
        }
        urls = {name: network.url for name, network in networks.items()}
        services = await stack.enter_async_context(stage.open(1, urls=urls, contenders=stateful))
        for size, held in zip(STATES, ({}, large), strict=True):
            figures += await stage.measure(
                BYTES, size, services, _Bytes(10, held, networks), unit="bytes"
            )
    return figures


class _State:
    def __init__(self, appends: int, held: Mapping[str, Any]) -> None:
        self._appends = appends
        self._held = held

    async def __call__(self, contender: Contender, service: Service, number: int) -> Block:
        name = f"{type(self).__name__}-{len(self._held)}-{number}"
        live = await service.create(USER, name, dict(self._held))
        events = [session_events.said(place, {"step": place}) for place in range(self._appends)]
        block = await self._append(contender, service, live, events)
        live = await service.get(USER, name)
        expected = {**self._held, "step": self._appends - 1}
        block.faults += faults_of(contender, service, live, events, expected)
        return block

    async def _append(
        self, contender: Contender, service: Service, live: Any, events: list[Event]
    ) -> Block:
        del contender
        start = time.perf_counter()
        times = await append_all(service, live, events)
        return Block(times, time.perf_counter() - start)


class _Bytes(_State):
    def __init__(
        self, appends: int, held: Mapping[str, Any], networks: Mapping[str, Network]
    ) -> None:
        super().__init__(appends, held)
        self._networks = networks

    async def _append(
        self, contender: Contender, service: Service, live: Any, events: list[Event]
    ) -> Block:
        network = self._networks[contender.name]
        before = await network.traffic()
        await append_all(service, live, events)
        passed = await network.traffic() - before
        block = Block([(passed.sent + passed.received) / len(events)])
        trips = passed.round_trips / len(events)
        block.remarks.append(f"{trips:.0f} round trip{'' if round(trips) == 1 else 's'} an append")
        return block
