"""Where the contenders of the sessions suite take turns: blocks, the check, and figures."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from google.adk.events.event import Event
from rich.progress import Progress

from benchmarks.contenders.sessions.contender import Contender, Service, content
from benchmarks.figures import Figure, percentile
from benchmarks.server import installed

SUITE = "sessions"
USER = "ines"


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
      blocks: Turns of each contender in a case, besides the one that warms up.
      writers: Numbers of writers that append simultaneously.
      appends: Of a block, by all writers together.
      turns: Of a block.
      reads: Of a block, where reading is cheap; fewer of large sessions.
      sessions: To list some of.
      histories: Numbers of events to read, and to append after.
      shared: Numbers of events that each of the services writes into the one session.
      processes: Processes that write one session, as many events each as the last of `shared`; 0
        for none, since starting them takes longer than their writing.
      bytes: Of the large state.
    """

    blocks: int
    writers: tuple[int, ...]
    appends: int
    turns: int
    reads: int
    sessions: int
    histories: tuple[int, ...]
    shared: tuple[int, ...]
    processes: int
    bytes: int = 100_000


@dataclass
class Block:
    """What a contender did in one of its turns.

    Attributes:
      times: Of each operation, in ``unit``.
      elapsed_s: Of all of them together; None where a rate says nothing.
      faults: What was lost or wrong, in words.
      remarks: What a reader should know.
    """

    times: list[float] = field(default_factory=list)
    elapsed_s: float | None = None
    faults: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


Work = Callable[[Contender, Service, int], Awaitable[Block]]


class Stage:
    """The contenders on their prepared databases.

    Args:
      contenders: Who takes part, in order.
      urls: The database of each, by name.
      effort: How much is measured.
      progress: Shows what is being done.
    """

    def __init__(
        self,
        contenders: Sequence[Contender],
        urls: Mapping[str, str],
        effort: Effort,
        progress: Progress,
    ) -> None:
        self.contenders = contenders
        self.urls = urls
        self.effort = effort
        self._progress = progress

    @asynccontextmanager
    async def open(
        self,
        pool_size: int,
        *,
        urls: Mapping[str, str] | None = None,
        contenders: Sequence[Contender] | None = None,
    ) -> AsyncIterator[dict[str, Service]]:
        """Yields a service of each contender with a pool of its own, by name."""
        async with AsyncExitStack() as stack:
            yield {
                contender.name: await stack.enter_async_context(
                    contender.open((urls or self.urls)[contender.name], pool_size)
                )
                for contender in contenders or self.contenders
            }

    async def measure(
        self,
        case: str,
        size: str,
        services: Mapping[str, Service],
        work: Work,
        *,
        unit: str = "ms",
        note: str = "",
    ) -> list[Figure]:
        """Lets the contenders work in turn, block by block, and returns a figure of each.

        Args:
          case: What is done.
          size: How much of it.
          services: By contender; who is not in here cannot do it.
          work: One block; its last parameter is the block's number, 0 the one that warms up.
          unit: Of the times.
          note: What a reader must know of all contenders' figures.
        """
        taking = [contender for contender in self.contenders if contender.name in services]
        blocks: dict[str, list[Block]] = {contender.name: [] for contender in taking}
        rounds = self.effort.blocks + 1
        task = self._progress.add_task(f"{case}, {size}" if size else case, total=rounds)
        for number in range(rounds):
            for contender in taking:
                done = await work(contender, services[contender.name], number)
                blocks[contender.name].append(done)
            self._progress.advance(task)
        self._progress.remove_task(task)
        return [
            self._figure(case, size, contender, blocks.get(contender.name), unit, note)
            for contender in self.contenders
        ]

    def _figure(
        self,
        case: str,
        size: str,
        contender: Contender,
        blocks: Sequence[Block] | None,
        unit: str,
        note: str,
    ) -> Figure:
        said = [part for part in (note, contender.note) if part]
        if blocks is None:
            said.append("cannot do it")
            blocks = ()
        times = [took for block in blocks[1:] for took in block.times]
        rates = [len(block.times) / block.elapsed_s for block in blocks[1:] if block.elapsed_s]
        faults = list(dict.fromkeys(fault for block in blocks for fault in block.faults))
        remarks = list(dict.fromkeys(each for block in blocks[1:] for each in block.remarks))
        return Figure(
            suite=SUITE,
            case=case,
            size=size,
            contender=contender.name,
            version=installed(contender.distribution) if contender.distribution else "",
            unit=unit,
            p50=percentile(times, 0.5) if times else None,
            p95=percentile(times, 0.95) if times else None,
            rate=percentile(rates, 0.5) if rates else None,
            samples=len(times),
            correct=not faults,
            note="; ".join([*said, *remarks[:1], *faults[:2]]),
        )


async def timed(call: Callable[[], Awaitable[Any]]) -> float:
    """Returns how long a call took, in milliseconds."""
    start = time.perf_counter()
    await call()
    return (time.perf_counter() - start) * 1000


async def append_all(service: Service, live: Any, events: Sequence[Event]) -> list[float]:
    """Appends events one after another; returns what each took, in milliseconds."""
    times = []
    for prepared in [service.prepared(event) for event in events]:
        start = time.perf_counter()
        await service.append(live, prepared)
        times.append((time.perf_counter() - start) * 1000)
    return times


def faults_of(
    contender: Contender,
    service: Service,
    live: Any,
    events: Sequence[Event],
    state: Mapping[str, Any],
) -> list[str]:
    """Returns what is wrong with a session that was read; nothing if it is what was written."""
    seen = service.seen(live)
    expected = [(event.id, content(event)) for event in events]
    faults = []
    missing = len(set(expected) - set(seen.events))
    foreign = len(set(seen.events) - set(expected))
    if missing:
        faults.append(f"{missing} of {len(expected)} events are lost or changed")
    if foreign or len(seen.events) != len(set(seen.events)):
        faults.append("there are events too many")
    if not missing and not foreign and seen.events != expected:
        faults.append("events came back in another order")
    if contender.keeps_state and seen.state != dict(state):
        lost = sum((seen.state or {}).get(key) != value for key, value in state.items())
        faults.append(
            f"{lost} of {len(state)} state keys are lost"
            if lost
            else "there are state keys too many"
        )
    return faults
