"""The service that a test of the session suite runs on: fixture ``service``, by its ``kind``."""

from collections.abc import AsyncIterator

import pytest
from google.adk.sessions.base_session_service import BaseSessionService

from tests.conformance.services import service_of


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest) -> str:
    """The URL of this test's own database, where the service needs one."""
    url: str = "" if kind == "in_memory" else request.getfixturevalue("database_url")
    return url


@pytest.fixture
async def service(kind: str, place: str) -> AsyncIterator[BaseSessionService]:
    async with service_of(kind, place) as running:
        yield running
