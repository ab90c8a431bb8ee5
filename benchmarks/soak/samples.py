"""Samples: what a soak holds at one moment: memory, connections, tables; and whether it is flat."""

import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

_MB = 1 << 20

TABLES = """
    SELECT relname AS name, pg_total_relation_size(relid) AS bytes, n_live_tup AS live,
           n_dead_tup AS dead, n_tup_upd AS updated, n_tup_hot_upd AS hot
    FROM pg_stat_user_tables WHERE schemaname = 'adkpg'
"""
ROWS = """
    SELECT (SELECT count(*) FROM adkpg.sessions) AS sessions,
           (SELECT count(*) FROM adkpg.events) AS events,
           (SELECT count(*) FROM adkpg.memories) AS memories,
           (SELECT count(*) FROM adkpg.memory_tombstones) AS memory_tombstones,
           (SELECT count(*) FROM adkpg.memory_jobs) AS memory_jobs
"""
CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND backend_type = 'client backend'
"""


@dataclass(frozen=True)
class Sample:
    """One moment.

    Attributes:
      at_s: Seconds since the start.
      rss_mb: Of each client that is never killed, in megabytes.
      connections: To the server.
      table_mb: Of each table, with its indexes.
      rows: Of some tables.
    """

    at_s: float
    rss_mb: Mapping[str, float]
    connections: int
    table_mb: Mapping[str, float]
    rows: Mapping[str, int]


@dataclass
class Samples:
    """All of them.

    Attributes:
      taken: In their order.
      updates: Updates of each table, and how many of them were HOT, over all restarts.
    """

    taken: list[Sample] = field(default_factory=list)
    updates: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    _last: dict[str, tuple[int, int]] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    async def take(self, connection: asyncpg.Connection, pids: Mapping[str, int]) -> None:
        """Takes one.

        Args:
          connection: To the database.
          pids: Clients, by name.
        """
        rows = await connection.fetch(TABLES)
        connections: int = await connection.fetchval(CONNECTIONS)
        counts = await connection.fetchrow(ROWS)
        for row in rows:
            self.count(row["name"], row["updated"], row["hot"])
        self.taken.append(
            Sample(
                time.monotonic() - self._began,
                {name: _rss_mb(pid) for name, pid in pids.items()},
                connections,
                {row["name"]: row["bytes"] / _MB for row in rows},
                dict(counts.items()),
            )
        )

    def count(self, table: str, updated: int, hot: int) -> None:
        """Adds what a table's statistics say now: its updates, and how many of them were HOT."""
        before = self._last.get(table, (0, 0))
        if updated < before[0]:  # a crash resets the statistics
            before = (0, 0)
        self._last[table] = (updated, hot)
        self.updates[table][0] += updated - before[0]
        self.updates[table][1] += hot - before[1]

    def series(self) -> dict[str, list[float]]:
        """Returns what must be flat, each as a list with a value for every sample."""
        found = {
            f"memory of the {name} (MB)": [sample.rss_mb[name] for sample in self.taken]
            for name in self.taken[0].rss_mb
        }
        found["connections"] = [float(sample.connections) for sample in self.taken]
        found["all tables (MB)"] = [sum(sample.table_mb.values()) for sample in self.taken]
        for name in sorted(self.taken[-1].table_mb):
            sizes = [sample.table_mb.get(name, 0.0) for sample in self.taken]
            if max(sizes) >= 1:
                found[f"{name} (MB)"] = sizes
        for name in self.taken[-1].rows:
            found[f"{name} (rows)"] = [float(sample.rows[name]) for sample in self.taken]
        return found


def thirds(values: Sequence[float]) -> tuple[float, float]:
    """Returns the medians of the second and the last third: a fault is none of them."""
    third = len(values) // 3
    if third == 0:
        return 0.0, 0.0
    return statistics.median(values[third : 2 * third]), statistics.median(values[2 * third :])


def growth(values: Sequence[float]) -> float:
    """Returns by what share the last third is more than the second."""
    middle, last = thirds(values)
    return last / middle - 1 if middle else 0.0


def _rss_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return 0.0
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return int(lines.get("VmRSS", "0 kB").split()[0]) / 1024


def hot_share(samples: Samples, table: str) -> float:
    """Returns the share of HOT updates of a table, 1 without any."""
    updated, hot = samples.updates[table]
    return hot / updated if updated else 1.0
