"""sqlspec's ADK session service on its asyncpg store."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sqlspec.adapters.asyncpg import AsyncpgConfig
from sqlspec.adapters.asyncpg.adk import AsyncpgADKStore
from sqlspec.extensions.adk import SQLSpecSessionService

from benchmarks.contenders.sessions.adk_service import AdkService
from benchmarks.contenders.sessions.contender import APP


class _Service(AdkService):
    def __init__(self, service: SQLSpecSessionService) -> None:
        super().__init__(service)
        self._pages = service

    async def list_sessions(self, user_id: str, limit: int) -> Sequence[str]:
        found = await self._pages.list_sessions(app_name=APP, user_id=user_id, limit=limit)
        return [session.id for session in found.sessions]


class Sqlspec:
    """sqlspec[adk] with its own tables and its covering index for reading events."""

    name = "sqlspec"
    distribution = "sqlspec"
    keeps_state = True
    lists = True
    note = ""

    async def prepare(self, url: str) -> None:
        config = _config(url, 1)
        try:
            await AsyncpgADKStore(config).create_tables()
        finally:
            await config.close_pool()

    @asynccontextmanager
    async def open(
        self, url: str, pool_size: int, *, shared: bool = False
    ) -> AsyncIterator[AdkService]:
        del shared  # it has no setting for that
        config = _config(url, pool_size)
        try:
            yield _Service(SQLSpecSessionService(AsyncpgADKStore(config)))
        finally:
            await config.close_pool()


def _config(url: str, pool_size: int) -> AsyncpgConfig:
    return AsyncpgConfig(
        connection_config={"dsn": url, "min_size": pool_size, "max_size": pool_size},
        extension_config={"adk": {"enable_covering_indexes": True}},
    )
