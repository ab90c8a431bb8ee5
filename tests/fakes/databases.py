"""A database of the tests' server that was created with options of its own."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adkpg.tooling.testing.server import Server


@asynccontextmanager
async def database_with(server: Server, options: str) -> AsyncIterator[str]:
    """Creates an empty database and drops it at the end.

    Args:
      server: Where.
      options: As ``CREATE DATABASE`` takes them.

    Yields:
      Its URL.
    """
    name = f"adkpg_test_{server.run}_{uuid.uuid4().hex[:12]}"
    await server.execute(f"CREATE DATABASE {name} TEMPLATE template0 {options}")
    try:
        yield server.url_of(name)
    finally:
        await server.drop(name)
