"""Machines for a number of memories, from the bytes and the WAL that `scale` measured.

    python -m benchmarks.scripts.sizing [--memories 1e8,1e9] [--turns-per-day 1e6] [--active 0.05]

Reads docs/scale.json, the largest size in it. What it assumes stands in the table's first rows;
what it computes is arithmetic, not a run.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

DOCS = Path(__file__).parents[2] / "docs"

SEARCHED = (
    "memories_pkey",
    "memory_lexemes_pkey",
    "memory_vectors_model_idx",
    "memory_vectors_pkey",
)
"""What a search reads of a user, but for rows: of its hits, and vectors of what words found."""

NODE_BYTES = 1e12
"""Data of a machine, at most: what a base backup copies in some hours, and a standby replays."""

SHARD_BYTES = 40e9
"""Of a shard of all tables, on a distributed server: moved in some minutes."""

SLACK = 1.3
"""Dead rows, half-filled pages of old indexes, temporary files, and room to rebuild an index."""


def sized(
    report: dict[str, Any], memories: float, *, turns_per_day: float, active: float
) -> dict[str, str]:
    """What a number of memories needs, by name.

    Args:
      report: docs/scale.json.
      memories: How many.
      turns_per_day: Remembered turns that come each day.
      active: Share of the memories whose users are served within an hour or so.
    """
    measured = report[max(report, key=int)]
    each = sum(measured["bytes"].values())
    data = memories * each
    cached = memories * active * sum(measured["bytes"][name] for name in SEARCHED)
    wal = measured["wal"]["append that remembers"] + measured["wal"]["worker, each memory"]
    machines = max(1, math.ceil(data * SLACK / NODE_BYTES))
    shards = 2 ** math.ceil(math.log2(max(32, data / SHARD_BYTES)))
    return {
        "remembered turns a day": f"{turns_per_day:,.0f}",
        "share of the memories in use at a time": f"{active:.0%}",
        "data": _bytes(data),
        "machines, and disk with 30 % slack": f"{machines} x " + _bytes(data * SLACK / machines),
        "memory for what is in use, all machines": _bytes(cached),
        "WAL a day": _bytes(turns_per_day * wal),
        "growth a day": _bytes(turns_per_day * each),
        "shard_count, if distributed": f"{shards:,}" if machines > 1 else "32",
    }


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1e3:,.1f} kB"


def page_table(report: dict[str, Any]) -> str:
    """The table of docs/deployment/sizing.md, as Markdown."""
    sizes = (1e7, 1e8, 1e9)
    found = [sized(report, size, turns_per_day=size / 1_000, active=0.05) for size in sizes]
    lines = [
        f"| memories | {' | '.join(f'{size:,.0f}' for size in sizes)} |",
        "|---" + "|---:" * len(sizes) + "|",
        *(f"| {name} | {' | '.join(each[name] for each in found)} |" for name in found[0]),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--memories", default="1e7,1e8,1e9", help="how many, by comma")
    parser.add_argument("--turns-per-day", type=float, help="else a thousandth of the memories")
    parser.add_argument("--active", type=float, default=0.05)
    given = parser.parse_args()
    report = json.loads((DOCS / "scale.json").read_text(encoding="utf-8"))
    wanted = [float(each) for each in given.memories.split(",")]
    found = [
        sized(
            report,
            memories,
            turns_per_day=given.turns_per_day or memories / 1_000,
            active=given.active,
        )
        for memories in wanted
    ]
    table = Table("MEMORIES", *(f"{memories:,.0f}" for memories in wanted))
    for name in found[0]:
        table.add_row(name, *(each[name] for each in found))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
