"""``adkpg worker``: gives memories their vectors, and draws facts if it is told to."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import click

import adkpg.tooling
from adkpg.tooling.cli.answers import say
from adkpg.tooling.cli.connection import connected
from adkpg.tooling.cli.operations.health import answering
from adkpg.tooling.cli.options import as_json, span
from adkpg.tooling.cli.switches import say_remembering, say_waiting

if TYPE_CHECKING:
    from adkpg.memory.queue.jobs import WorkKind

_DONE: dict[WorkKind, str] = {"embed": "Embedded", "extract": "Drew facts from"}


@click.command()
@click.option("--once", is_flag=True, help="End when nothing is due, instead of waiting.")
@click.option(
    "--extract",
    "model",
    metavar="MODEL",
    help="Draw facts with this ADK model, for apps where that is on.",
)
@click.option(
    "--concurrency",
    default=2,
    show_default=True,
    type=click.IntRange(1, 1_000),
    help="How many users' batches run in parallel.",
)
@click.option(
    "--poll-interval", default="1s", show_default=True, type=span, help="Pause when nothing is due."
)
@click.option(
    "--health-port",
    type=click.IntRange(0, 65_535),
    help="Answer GET /livez and /readyz on this port; 0 chooses one.",
)
@click.option(
    "--health-host",
    default="127.0.0.1",
    show_default=True,
    help="The address to answer them on; 0.0.0.0 for all.",
)
@click.option("--revive", is_flag=True, help="Queue the dead letters again.")
@as_json
@connected
async def worker(
    database: adkpg.Database,
    model: str | None,
    concurrency: int,
    poll_interval: timedelta,
    health_port: int | None,
    health_host: str,
    *,
    once: bool,
    revive: bool,
    as_json: bool,
) -> None:
    """Embed memories that wait for a vector, until stopped.

    Run as many as you like. Ctrl-C and SIGTERM end it after the running batches, which have five
    seconds. It retries jobs with growing delays. Jobs that keep failing become dead letters, with
    their error. Every ten minutes it also does what `adkpg db tidy` does, and adds vectors to the
    index of `adkpg memory index`.

    \b
    Example:
      adkpg worker
      adkpg worker --once --revive
      adkpg worker --extract gemini-3.5-flash
      adkpg worker --health-port 8001 --health-host 0.0.0.0
    """
    from adkpg.facts.service import Extracting
    from adkpg.memory.queue.worker import Work, Worker
    from adkpg.memory.vectors.index import extend_indexes
    from adkpg.memory.vectors.vectors import Vectors
    from adkpg.memory.vectors.work import Embedding

    memory = adkpg.PgVectorMemoryService(database)
    works: dict[WorkKind, Work] = {}
    if memory.embedder is not None:
        works["embed"] = Embedding(Vectors(database, memory.embedder))
    if model is not None:
        extractor = adkpg.facts.FactExtractor(model)
        works["extract"] = Extracting(adkpg.facts.Facts(memory, extractor=extractor))
    if not works:
        raise click.ClickException(
            "There is nothing to work with: no embedder, and no model to draw facts with; run "
            "pip install 'adkpg[local]', set ADKPG_EMBEDDER, or give --extract MODEL."
        )
    revived = (
        sum([await adkpg.Jobs(database, work=kind).revive() for kind in works]) if revive else None
    )
    if revive and not as_json:
        click.echo(f"Revived: {revived}.")
    found = Worker(
        [*works.values()],
        chores=[
            partial(adkpg.erasure.tidy, database),
            partial(adkpg.artifacts.sweep_objects, database),
            partial(extend_indexes, database),
        ],
        poll_interval_s=poll_interval.total_seconds(),
        concurrency=concurrency,
    )
    done, stop = 0, _stopped_by_signals()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(adkpg.tooling.operations.reporting(database))
        if health_port is not None:
            await stack.enter_async_context(answering(database, health_host, health_port))
        if once:
            say_remembering(remembers=database.captures)
        else:  # the line at the start says it
            stack.enter_context(_logged())
        await say_waiting(database, done=works)
        if not once:
            done = await found.run(stop)
        while once and not stop.is_set() and (progress := await found.run_once(stop)):
            done += progress
    counted = {kind: found.done_by[work.name] for kind, work in works.items()}
    said = [f"{_DONE[kind]} {_memories(count)}." for kind, count in counted.items()]
    say(" ".join(said), {"done": done, "revived": revived}, as_json=as_json)


def _memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count:,} memories"


@contextmanager
def _logged() -> Iterator[None]:
    """Logs what a service says while it runs to standard error, the line at its start first."""
    own = logging.getLogger(adkpg.__name__)
    before = own.level
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    own.setLevel(logging.INFO)
    try:
        yield
    finally:
        own.setLevel(before)


def _stopped_by_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop
