"""adkpg's DatabaseSessionService."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from adkpg import Database, DatabaseSessionService
from benchmarks.contenders.sessions.adk_service import AdkService
from benchmarks.contenders.sessions.contender import APP


class _Service(AdkService):
    def __init__(self, service: DatabaseSessionService) -> None:
        super().__init__(service)
        self._pages = service

    async def list_sessions(self, user_id: str, limit: int) -> Sequence[str]:
        page = await self._pages.list_sessions_page(app_name=APP, user_id=user_id, limit=limit)
        return [session.id for session in page.items]


class Adkpg:
    """adkpg as it comes; ``on_conflict="merge"`` where several services write a session."""

    name = "adkpg"
    distribution = "adkpg"
    keeps_state = True
    lists = True
    note = ""

    async def prepare(self, url: str) -> None:
        async with Database(url) as database:
            await database.upgrade()

    @asynccontextmanager
    async def open(
        self, url: str, pool_size: int, *, shared: bool = False
    ) -> AsyncIterator[AdkService]:
        async with Database(url, pool_size=pool_size, max_overflow=0) as database:
            yield _Service(
                DatabaseSessionService(database, on_conflict="merge" if shared else "raise")
            )
