"""``adkpg worker``: gives memories their vectors, and draws facts if it is told to."""

import asyncio
import signal
from functools import partial

import click

from adkpg.cli.connection import database_url, run
from adkpg.database import Database
from adkpg.erasure.pruning import erase_expired
from adkpg.facts.llm import FactExtractor
from adkpg.facts.service import Facts
from adkpg.facts.work import Extracting
from adkpg.memory.queue.jobs import Jobs
from adkpg.memory.queue.worker import Work, Worker
from adkpg.memory.service import PgVectorMemoryService
from adkpg.memory.vectors.work import Embedding


@click.command()
@click.option("--once", is_flag=True, help="End when nothing is due, instead of waiting for more.")
@click.option(
    "--extract",
    "model",
    metavar="MODEL",
    help="Draw facts with this ADK model, for apps where that is on.",
)
@click.option(
    "--users-at-once",
    default=2,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many users' batches run side by side.",
)
@click.option(
    "--poll-interval",
    "poll_interval_s",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0.01),
    help="Pause when nothing is due, in seconds.",
)
@click.option("--revive", is_flag=True, help="First make due again what was given up.")
@database_url
def worker(
    once: bool,
    model: str | None,
    users_at_once: int,
    poll_interval_s: float,
    revive: bool,
    database_url: str | None,
) -> None:
    """Embed what waits for a vector, until stopped.

    Ctrl-C and SIGTERM end it after the batches that run. For applications that remember with each
    event (remember=), or that write much. Run as many as you like: work is claimed user by user,
    retried with growing delays, and kept with its error when it is given up. Memories that have
    expired are erased on the way.

    \b
    Example:
      adkpg worker
      adkpg worker --once --revive
      adkpg worker --extract gemini-2.5-flash
    """

    async def work(database: Database) -> int:
        memory = PgVectorMemoryService(database)
        embed = Jobs(database, "embed")
        works: list[Work] = [Embedding(memory.required_vectors(), embed)]
        queues = [embed]
        if model is not None:
            extract = Jobs(database, "extract")
            works.append(Extracting(Facts(memory, FactExtractor(model)), extract))
            queues.append(extract)
        if revive:
            click.echo(f"Revived: {sum([await queue.revive() for queue in queues])}.")
        found = Worker(
            works,
            chores=[partial(erase_expired, database)],
            poll_interval_s=poll_interval_s,
            users_at_once=users_at_once,
        )
        if not once:
            return await found.run(_stopped_by_signals())
        done = 0
        while progress := await found.run_once():
            done += progress
        return done

    click.echo(f"Done: {run(database_url, work)}.")


def _stopped_by_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop
