"""The server that benchmarks run on, a database of their own there, and what it runs on."""

import os
import platform
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import asyncpg

from adkpg import Settings
from adkpg.embedded import EmbeddedServer
from benchmarks.figures import Header


@contextmanager
def chosen_server() -> Iterator[str]:
    """Yields the URL of the server of ADKPG_DATABASE_URL, else of the embedded one."""
    configured = Settings().database_url
    if configured is not None and configured.get_secret_value() != "embedded":
        yield configured.get_secret_value()
        return
    with EmbeddedServer() as server:
        yield server.url


@asynccontextmanager
async def own_database(server_url: str, name: str) -> AsyncIterator[str]:
    """Yields the URL of a database made for this run, and drops it afterwards."""
    name = f"{name}_{uuid.uuid4().hex[:8]}"
    admin: Any = await asyncpg.connect(server_url)
    try:
        await admin.execute(f'create database "{name}"')
        try:
            parts = server_url.split("?", 1)
            query = f"?{parts[1]}" if len(parts) > 1 else ""
            yield parts[0].rsplit("/", 1)[0] + f"/{name}" + query
        finally:
            await admin.execute(f'drop database "{name}" with (force)')
    finally:
        await admin.close()


async def describe(server_url: str, packages: Iterable[str]) -> Header:
    """Describes the server and machine that benchmarks run on.

    Args:
      server_url: The server.
      packages: Distribution names; those that are not installed are left out.
    """
    connection: Any = await asyncpg.connect(server_url)
    try:
        row = await connection.fetchrow(
            "select current_setting('server_version') postgres, (select default_version"
            " from pg_available_extensions where name = 'vector') pgvector,"
            " current_setting('fsync') fsync, current_setting('synchronous_commit') commit"
        )
    finally:
        await connection.close()
    pages, page_size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return Header(
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        machine=platform.machine(),
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        ram_gb=round(pages * page_size / 2**30, 1),
        os=platform.platform(),
        python=platform.python_version(),
        postgres=row["postgres"].split()[0],
        pgvector=row["pgvector"] or "",
        durability=f"fsync {row['fsync']}, synchronous_commit {row['commit']}",
        packages={name: found for name in packages if (found := installed(name))},
    )


def installed(distribution: str) -> str:
    """The version of an installed distribution, ``""`` if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
