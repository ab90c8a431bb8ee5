"""Searches: how long they take, as the server knows it."""

from dataclasses import dataclass

from adkpg.database import Database
from adkpg.errors import DatabaseError, InvalidInput, RetryableError
from adkpg.limits import require_rows
from adkpg.operations import searches_statements as statements
from adkpg.telemetry.calls import on, traced_function

_LONGEST_S = 1e9  # the server's intervals end somewhere


@dataclass(frozen=True)
class RunningSearch:
    """A search that runs now.

    Attributes:
      pid: The server's process.
      seconds: For how long.
      waits: What it waits for; ``""`` if it computes.
    """

    pid: int
    seconds: float
    waits: str


@dataclass(frozen=True)
class PastSearches:
    """Searches of one kind since the server began to count.

    Attributes:
      words: Whether they look for words; None if a function of the database prepares searches,
        behind a pooler that loses prepared statements and on a cluster: all kinds are one.
      vectors: Whether they compare vectors; None likewise.
      calls: How many.
      mean_ms: How long one took on average, in milliseconds.
      max_ms: How long the longest took.
    """

    words: bool | None
    vectors: bool | None
    calls: int
    mean_ms: float
    max_ms: float


@dataclass(frozen=True)
class SlowSearches:
    """What is known of slow searches.

    Attributes:
      running: Those that run now, the longest first.
      past: By kind, those that took most time altogether first; None if the server does not count
        them: that takes the extension pg_stat_statements, and the right to read it.
      complete: Whether those of other roles are among them, which takes the rights of
        pg_read_all_stats.
    """

    running: tuple[RunningSearch, ...]
    past: tuple[PastSearches, ...] | None
    complete: bool


@traced_function(on("pg_stat_activity"))
async def slow_searches(
    database: Database, *, least_s: float = 1.0, limit: int = 20
) -> SlowSearches:
    """Returns which searches take long.

    Args:
      database: Where.
      least_s: From how many seconds on a search that runs counts.
      limit: At most this many of each.

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
      InvalidInput: `limit` is out of range, or `least_s` is no time.
    """
    if not 0 <= least_s <= _LONGEST_S:
        raise InvalidInput(f"least_s={least_s} is not from 0 to {_LONGEST_S:.0e}; give seconds.")
    database.require_every_scope()
    require_rows(database.settings, "limit", limit)
    running = await database.look(statements.select_running(), {"least_s": least_s, "limit": limit})
    past = None
    (known,) = await database.look(statements.select_known(), {})
    if known["place"] is not None:
        try:
            rows = await database.look(statements.select_past(known["place"]), {"limit": limit})
            past = tuple(PastSearches(**dict(row)) for row in rows)
        except RetryableError:
            raise
        except DatabaseError:  # made, and not loaded or not to be read
            past = None
    return SlowSearches(
        tuple(RunningSearch(**dict(row)) for row in running), past, known["complete"]
    )
