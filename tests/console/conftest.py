"""A console on this test's own database, and a browser that asks it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
from starlette.types import ASGIApp

from adkpg import Database, PgVectorMemoryService
from adkpg.tooling.console import create_console
from tests.fakes.browser import Browser


@pytest.fixture
async def browse() -> AsyncIterator[Callable[..., Browser]]:
    """Returns browsers of consoles; they are closed with the test."""
    async with AsyncExitStack() as stack:

        def opened(app: ASGIApp, base: str = "http://127.0.0.1:8765") -> Browser:
            browser = Browser(app, base)
            stack.push_async_callback(browser.client.aclose)
            return browser

        yield opened


@pytest.fixture
def browser(
    database: Database, memory: PgVectorMemoryService, browse: Callable[..., Browser]
) -> Browser:
    """The browser of a console that anybody may use."""
    return browse(create_console(database, memory=memory))
