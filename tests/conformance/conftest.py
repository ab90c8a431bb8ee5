"""The service that a test of the session suite runs on: fixture ``service``, by its ``kind``."""

from collections.abc import AsyncIterator

import pytest
from google.adk.sessions.base_session_service import BaseSessionService

from tests.conformance.services import ON_A_SERVER, service_of


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the runs of a test whose service keeps what it is told on the server."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and callspec.params.get("kind") in ON_A_SERVER:
            item.add_marker(pytest.mark.server)


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest) -> str:
    """The URL of this test's own database, where the service needs one."""
    url: str = request.getfixturevalue("database_url") if kind in ON_A_SERVER else ""
    return url


@pytest.fixture
async def service(kind: str, place: str) -> AsyncIterator[BaseSessionService]:
    async with service_of(kind, place) as running:
        yield running
