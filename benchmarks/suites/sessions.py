"""Sessions, side by side with what a user would pick instead, on one server in one run.

    python -m benchmarks.suites.sessions [--quick] [--json PATH]

Needs the environment of ``make bench``. The server is ADKPG_DATABASE_URL, else the embedded one
with its durable defaults. adkpg, ADK's own service, sqlspec, openai-agents and the floor (adkpg's
statements on a raw asyncpg pool) have a database each with the tables and indexes that they make,
and pools of one size. They take turns in blocks, so that a machine whose speed drifts favours
none. Everything that was written is read again and compared.
"""

from contextlib import AsyncExitStack

from rich.progress import Progress

from benchmarks.contenders.sessions import CONTENDERS
from benchmarks.figures import Bar, Figure
from benchmarks.server import own_database
from benchmarks.suites.session_bars import bars as promised
from benchmarks.suites.session_reading import get_again, get_and_append, list_sessions
from benchmarks.suites.session_stage import SUITE, Effort, Stage
from benchmarks.suites.session_writing import append, processes, shared, state, turn
from benchmarks.suites.suite import Suite

QUICK = Effort(
    blocks=2,
    writers=(1, 16),
    appends=48,
    turns=3,
    reads=6,
    sessions=200,
    histories=(10, 300),
    shared=(4,),
    processes=0,
)
FULL = Effort(
    blocks=5,
    writers=(1, 8, 16, 32),
    appends=256,
    turns=10,
    reads=20,
    sessions=10_000,
    histories=(10, 300, 3_000, 10_000),
    shared=(10, 25),
    processes=8,
)

CASES = (append, turn, shared, processes, state, get_and_append, get_again, list_sessions)

PACKAGES = (
    *sorted({contender.distribution for contender in CONTENDERS if contender.distribution}),
    "asyncpg",
    "pydantic",
    "sqlalchemy",
)
"""What a report's header names."""


async def run(
    server_url: str, *, quick: bool, progress: Progress
) -> tuple[list[Figure], list[Bar]]:
    """Measures sessions.

    Args:
      server_url: Of a server where databases may be made.
      quick: Fewer and smaller blocks, under a minute.
      progress: Shows what is being done.

    Returns:
      Figures, and the bars of the cases that were measured.
    """
    async with AsyncExitStack() as stack:
        urls = {}
        for contender in CONTENDERS:
            database = own_database(server_url, f"sessions_{contender.name}")
            urls[contender.name] = await stack.enter_async_context(database)
            await contender.prepare(urls[contender.name])
        stage = Stage(CONTENDERS, urls, QUICK if quick else FULL, progress)
        figures = []
        for case in (
            append,
            turn,
            shared,
            processes,
            state,
            get_and_append,
            get_again,
            list_sessions,
        ):
            figures += await case(stage)
    return figures, promised(figures)


THIS = Suite(SUITE, PACKAGES, run)

if __name__ == "__main__":
    THIS.command(__doc__)
