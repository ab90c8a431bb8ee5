"""Moves: exports in files, and all that is stored, to compare two databases with."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import asyncpg

from adkpg import Database
from adkpg.tooling.transfer import ImportReport, export, import_from

# What a database makes itself: tokens and incarnations tell two databases apart, which sessions are
# settled is its own affair; vectors, words and jobs derive from the memories.
DERIVED = {
    "app_states": {"writers"},
    "sessions": {
        "incarnation",
        "revision_token",
        "settled_at",
        "invocation_holder",
        "invocation_expires_at",
        "invocation_lease_s",
        "watched_until",
    },
    "events": {"revision_token"},
    "app_settings": {"model_id", "updated_at"},
}
MOVED = (
    "sessions",
    "events",
    "app_states",
    "user_states",
    "app_settings",
    "memories",
    "memory_provenance",
    "memory_tombstones",
    "memory_lexemes",
    "artifacts",
    "artifact_chunks",
    "saved_questions",
    "tasks",
    "task_events",
)


async def exported(database: Database, path: Path, **scope: Any) -> list[dict[str, Any]]:
    """Writes an export to a file, after what it holds, and returns its lines."""
    lines = [line async for line in export(database, **scope)]
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return [json.loads(line) for line in lines]


async def imported(database: Database, source: Any, **options: Any) -> ImportReport:
    """Imports a source whole, of which nothing is to differ or missing."""
    report = await import_from(database, source=source, **options)
    assert (report.unread.first, report.differing.first) == ([], [])
    return report


async def stored(
    url: str,
    tables: tuple[str, ...] = MOVED,
    *,
    without: Mapping[str, Collection[str]] = DERIVED,
) -> dict[str, list[dict[str, Any]]]:
    """Returns the rows of all tables that move, without what a database makes itself."""
    connection = await asyncpg.connect(url)
    try:
        found = {}
        for table in tables:
            rows = await connection.fetch(f"SELECT * FROM adkpg.{table}")
            dropped = without.get(table, ())
            plain = [
                {name: value for name, value in row.items() if name not in dropped} for row in rows
            ]
            found[table] = sorted(plain, key=repr)
        return found
    finally:
        await connection.close()
