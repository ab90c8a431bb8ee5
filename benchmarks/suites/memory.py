"""Memory, side by side with what a user would pick instead, on one server in one run.

    python -m benchmarks.suites.memory [--quick] [--json PATH]

Needs the environment of ``make bench``. The server is ADKPG_DATABASE_URL, else the embedded one
with its durable defaults. Each package has databases of its own, filled with 10,000 and 250,000
memories of one and of 1,056 users (``--quick``: 10,000 of 1,056): the same texts with the same
vectors, from one embedding function that costs next to nothing. They are filled in bulk, with the
tables and indexes that the package itself makes. Then all are asked and written to, in turn and in
blocks. A search is asked for ten memories, of which it is known which are the nearest, and which
one the question's words come from.
"""

from rich.progress import Progress

from benchmarks.contenders.memory import CONTENDERS
from benchmarks.contenders.memory.contender import Way
from benchmarks.contenders.memory.memshield import borrowed_role
from benchmarks.corpus import Vocabulary
from benchmarks.figures import Bar, Figure, find
from benchmarks.suites.memory_floor import floor
from benchmarks.suites.memory_stage import QUALITY, SEARCH, SUITE, Effort, Stage, many_size
from benchmarks.suites.suite import Suite

QUICK = Effort(blocks=2, questions=5, batches=1, turn_s=0.2, one=False)
FULL = Effort(blocks=3, questions=40, batches=10, turn_s=2, one=True)
MANY = 250_000
BARS = {100: (2, 4), 1_000: (4, 10), 10_000: (20, 60), 50_000: (60, 250)}
"""By the user's memories: most ms of a vector search's p50, and of a hybrid one's."""

PACKAGES = (
    "adkpg",
    "asyncpg",
    "google-adk",
    "numpy",
    "pgvector",
    "psycopg",
    "sqlalchemy",
    *sorted({contender.package for contender in CONTENDERS} - {"adkpg", "google-adk"}),
)
"""What a report's header names."""


async def run(
    server_url: str, *, quick: bool, progress: Progress
) -> tuple[list[Figure], list[Bar]]:
    """Measures memory.

    Args:
      server_url: Of a server where databases and a role may be made.
      quick: Fewer memories and questions, under a minute.
      progress: Shows what is being done.

    Returns:
      Figures, and the bars that were measured: a quick run has those of ingest only.
    """
    vocabulary = Vocabulary(seed=1)
    effort = QUICK if quick else FULL
    figures: list[Figure] = []
    async with borrowed_role(server_url):
        for memories in (10_000,) if quick else (10_000, MANY):
            figures += await Stage(vocabulary, memories, effort, progress).run(server_url)
    plain, bars = await floor(server_url, vocabulary, blocks=2 if quick else 10, progress=progress)
    figures += plain
    return figures, bars if quick else [*search_bars(figures), *bars]


def search_bars(figures: list[Figure]) -> list[Bar]:
    """Returns the bars of searches among many memories."""
    bars = []
    for size, (vector_ms, hybrid_ms) in BARS.items():
        among = many_size(size, MANY)
        promised: dict[Way, int] = {"vectors": vector_ms, "both": hybrid_ms}
        for way, most in promised.items():
            figure = find(figures, SEARCH[way], among)
            p50 = figure.p50 if figure else None
            rule = f"p50 of at most {most} ms"
            bars.append(Bar.of(SUITE, SEARCH[way], among, rule, p50, "<=", most))
        figure = find(figures, QUALITY["vectors"], among)
        recall = figure.p50 if figure else None
        rule = "recall@10 of at least 0.99"
        bars.append(Bar.of(SUITE, QUALITY["vectors"], among, rule, recall, ">=", 0.99))
    return bars


THIS = Suite(SUITE, PACKAGES, run)

if __name__ == "__main__":
    THIS.command(__doc__)
