"""The session services that one suite is run over, and what it needs to talk to them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.database_session_service import (
    DatabaseSessionService as AdkDatabaseSessionService,
)

from adkpg import DatabaseSessionService

KINDS = ("in_memory", "adk_database", "adkpg")
ON_A_SERVER = ("adk_database", "adkpg")  # of these and of the memory services


@asynccontextmanager
async def service_of(kind: str, url: str) -> AsyncIterator[BaseSessionService]:
    """Runs one of the services, on this test's own database where it needs one."""
    if kind == "in_memory":
        yield InMemorySessionService()
    elif kind == "adk_database":
        engine_url = url.replace("postgresql://", "postgresql+asyncpg://", 1)
        async with AdkDatabaseSessionService(engine_url) as theirs:
            yield theirs
    else:
        async with DatabaseSessionService(url) as ours:
            yield ours


def expecting(ours: Any, **others: tuple[Any, str]) -> pytest.MarkDecorator:
    """Parametrizes a test over the services; one that differs says what it does and why."""
    return pytest.mark.parametrize(
        ("kind", "expected"),
        [(kind, others.get(kind, (ours, ""))[0]) for kind in KINDS],
        ids=KINDS,
    )


every_service = pytest.mark.parametrize("kind", KINDS)
