"""ADK's own DatabaseSessionService on asyncpg."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from google.adk.sessions import DatabaseSessionService

from benchmarks.contenders.sessions.adk_service import AdkService


def sqlalchemy_url(url: str) -> str:
    """The URL as SQLAlchemy wants it."""
    return url.replace("postgresql://", "postgresql+asyncpg://", 1)


class Adk:
    """ADK as it comes, with its tables prepared."""

    name = "ADK"
    distribution = "google-adk"
    keeps_state = True
    lists = True
    note = ""

    async def prepare(self, url: str) -> None:
        service = DatabaseSessionService(sqlalchemy_url(url))
        await service.prepare_tables()
        await service.close()

    @asynccontextmanager
    async def open(
        self, url: str, pool_size: int, *, shared: bool = False
    ) -> AsyncIterator[AdkService]:
        del shared  # it has no setting for that: a stale writer is refused
        service = DatabaseSessionService(sqlalchemy_url(url), pool_size=pool_size, max_overflow=0)
        try:
            await service.prepare_tables()
            yield AdkService(service)
        finally:
            await service.close()
