"""Processes of their own: ``python -m tests.fakes.writers JOBS`` forks one for each job.

Forked after the imports and before any connection, so that they begin at once and cheaply.
"""

import asyncio
import json
import os
import sys

from adkpg import Database, DatabaseSessionService
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER


async def append(url: str, name: str, count: int) -> None:
    """Appends through a handle of its own, whatever others append."""
    async with DatabaseSessionService(url, on_conflict="merge") as service:
        session = await service.get_session(**USER, session_id="shared")
        assert session is not None
        for number in range(count):
            key = f"{name}.{number}"
            delta = {key: 1, f"user:{key}": 1, f"app:{key}": 1}
            await service.append_event(session, said(key, state=delta))


async def upgrade(url: str) -> None:
    async with Database(url) as database:
        await database.upgrade()


async def first_use(url: str) -> None:
    async with DatabaseSessionService(url, auto_upgrade=True) as service:
        await service.create_session(**USER)


JOBS = {job.__name__: job for job in (append, upgrade, first_use)}


def main() -> int:
    children = []
    for name, *arguments in json.loads(sys.argv[1]):
        child = os.fork()
        if child == 0:
            asyncio.run(JOBS[name](*arguments))
            return 0
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main())
